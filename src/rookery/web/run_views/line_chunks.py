"""Lines of a file as columns."""

from __future__ import annotations

from collections.abc import Collection

from rookery.web.run_views.few_metrics import COMPILED, few_metrics
from rookery.web.run_views.line_samples import BLOCK, LineFile
from rookery.web.run_views.metric_chunk import MetricChunk, chunk_of, joined

FEW_BLOCK = 1 << 20 if COMPILED else 1 << 16  # in Python: the smaller, the more of them hold nothing but metrics


def read_lines(file: LineFile, first: int, last: int, names: Collection[str] | None = None) -> tuple[MetricChunk, int]:
    """The complete lines from the first that begins at `first` or later until about `last`, and where they end; with
    `names`, at least these metrics of them. They are decoded in small blocks, which stay in the processor's cache and
    let other threads go on."""
    chunks, at = [], first
    if first:
        found = file.line_after(first)
        at = found[0] if found else first
    while at < last:
        lines, end = file.complete_lines(at, BLOCK if names is None else FEW_BLOCK)
        if end == at:
            break
        chunks.append(chunk_of(lines) if names is None else few_metrics(lines, names))
        at = end
    return joined([chunk for chunk in chunks if len(chunk)] or [chunk_of(b"")]), at
