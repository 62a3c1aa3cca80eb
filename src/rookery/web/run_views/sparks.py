"""Spark lines: the return of a run as a few numbers, from samples of its metrics."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from rookery.monitor.statistics import EPISODE, EVALUATION
from rookery.web.run_views.chunk_curves import ChunkCurves
from rookery.web.run_views.line_samples import LineFile
from rookery.web.run_views.metric_chunk import chunk_of

POINTS = 48
READ_WHOLE = 1 << 16  # bytes of a file that is quicker read than sampled
MOST_KEPT = 20_000


class Sparks:
    """Spark lines by file, remembered until the file changes. It reads files: call it in a thread."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], list[float]]] = {}

    def of(self, metrics: Path) -> list[float]:
        """At most `POINTS` numbers; none if the run has no returns, or is gone."""
        try:
            facts = os.lstat(metrics)
            stamp = (facts.st_size, facts.st_mtime_ns)
            known = self._known.get(metrics)
            if known is None or known[0] != stamp:
                if len(self._known) >= MOST_KEPT:
                    self._known.clear()
                known = self._known[metrics] = stamp, _spark(metrics)
            return known[1]
        except OSError:
            return []


def _spark(metrics: Path) -> list[float]:
    with LineFile(metrics) as file:
        for name in (EPISODE, EVALUATION):
            lines = _lines(file, name)
            _, y = ChunkCurves(chunk_of(lines), in_order=True).curve(name)
            y = y[np.isfinite(y)]
            if len(y):
                chosen = np.linspace(0, len(y) - 1, min(len(y), POINTS)).round().astype(int)
                return [float(f"{value:.5g}") for value in y[chosen].tolist()]
    return []


def _lines(file: LineFile, name: str) -> bytes:
    if file.size <= READ_WHOLE:
        return file.read(0, file.size)
    return b"\n".join(file.samples(POINTS, [f'"{name}"'.encode()]))
