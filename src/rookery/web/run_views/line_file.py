"""Lines of a file of metrics: all of a part of it as columns, or a few from all over it without reading the rest."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import orjson

from rookery.files import open_plain, pread
from rookery.monitor.metric_chunk import EMPTY, MetricChunk, chunk_of, joined

WINDOW = 1 << 13  # bytes that are read at a place; longer lines are not found by samples
BLOCK = 1 << 18  # bytes that are read and decoded at once: a longer call would keep other threads waiting
LONGEST_LINE = 1 << 20


class LineFile:
    """A file of JSON lines, as far as it had been written when it was opened. Links are rejected."""

    def __init__(self, path: Path) -> None:
        self.fd = open_plain(path, os.O_RDONLY)
        facts = os.fstat(self.fd)
        self.size, self.inode = facts.st_size, facts.st_ino

    def __enter__(self) -> LineFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def read(self, first: int, last: int) -> bytes:
        return pread(self.fd, last - first, first)

    def complete_lines(self, first: int, most: int = BLOCK) -> tuple[bytes, int]:
        """The complete lines from `first`, up to `most` bytes or one line, and where they end."""
        block = self.read(first, min(first + most, self.size))
        end = block.rfind(b"\n") + 1
        if end == 0 and len(block) == most and most < LONGEST_LINE:
            return self.complete_lines(first, LONGEST_LINE)
        if end == 0 and len(block) == LONGEST_LINE:  # no event is that long: skip it
            return b"", first + len(block)
        return block[:end], first + end

    def columns(self, first: int, last: int, names: Collection[str] | None = None) -> tuple[MetricChunk, int]:
        """The events of the complete lines from the first that begins at `first` or later until about `last`, and where
        they end; with the metrics of these names or all. They are decoded in small blocks, which stay in the
        processor's cache and let other threads continue."""
        chunks, at = [EMPTY], first
        if first and (found := self.line_after(first)):
            at = found[0]
        while at < last:
            lines, end = self.complete_lines(at)
            if end == at:
                break
            chunks.append(chunk_of(lines, names))
            at = end
        return joined(chunks), at

    def samples(self, count: int, keys: Sequence[bytes] = (), first: int = 0, last: int | None = None) -> list[bytes]:
        """Up to `count` lines at equal distances between two places; if keys are given, lines with one of them."""
        last = self.size if last is None else min(last, self.size)
        found: dict[int, bytes] = {}
        for number in range(count):
            place = first + (last - first) * number // count
            for at, line in self._lines_near(place, last):
                if not keys or any(key in line for key in keys):
                    found[at] = line
                    break
        return list(found.values())

    def line_after(self, place: int) -> tuple[int, bytes] | None:
        """The first complete line that begins at `place` or later."""
        return next(self._lines_near(place, self.size), None)

    def _lines_near(self, place: int, last: int) -> Iterator[tuple[int, bytes]]:
        """The complete lines in a window, and where they begin. Most who ask need only the first."""
        from_before = max(0, place - 1)  # a newline there says that a line begins at `place`
        window = self.read(from_before, min(place + WINDOW, last))
        at = 0 if place == 0 else window.find(b"\n") + 1
        if place and at == 0:
            return
        while (end := window.find(b"\n", at)) >= 0:
            yield from_before + at, window[at:end]
            at = end + 1

    def place_of_step(self, step: float) -> int:
        """Where the first event of a step not before `step` begins, or a little earlier, by bisection."""
        low, high = 0, self.size
        while high - low > WINDOW:
            middle = (low + high) // 2
            found = self.line_after(middle)
            at = _step(found[1]) if found else None
            if at is None or at >= step:
                high = middle
            else:
                low = middle
        return low


def _step(line: bytes) -> float | None:
    try:
        return float(orjson.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return None
