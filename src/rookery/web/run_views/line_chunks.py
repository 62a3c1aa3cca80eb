"""Lines of a file as columns."""

from __future__ import annotations

from rookery.web.run_views.line_samples import LineFile
from rookery.web.run_views.metric_chunk import MetricChunk, chunk_of, joined


def read_lines(file: LineFile, first: int, last: int) -> tuple[MetricChunk, int]:
    """The complete lines from the first that begins at `first` or later until about `last`, and where they end. They
    are decoded in small blocks, which stay in the processor's cache and let other threads go on."""
    chunks, at = [], first
    if first:
        found = file.line_after(first)
        at = found[0] if found else first
    while at < last:
        lines, end = file.complete_lines(at)
        if end == at:
            break
        chunks.append(chunk_of(lines))
        at = end
    return joined([chunk for chunk in chunks if len(chunk)] or [chunk_of(b"")]), at
