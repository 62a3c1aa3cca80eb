"""The metrics of a run as columns, in a file beside its lines: a reader of a few metrics decodes nothing else.

`metrics.columns` is appended to, in blocks. Each holds the events of some lines of `metrics.jsonl`, the first from the
beginning of the file and every other from where the one before it ends:

    head      magic, number of events, where the lines begin and end, a checksum of the last of them, the sizes of
              schema and arrays, a checksum of the arrays; and a checksum of head and schema
    schema    JSON: {"cuts": [[row, step], ...], "rows": [number of rows, ...], "metrics": {name: place in "rows", ...}}
    arrays    steps, times, rows that metrics have in common (none if these are all), values of each metric, kinds

The lines are what counts. A block that is incomplete, or whose lines are not there any more, is ignored with all that
follow: readers decode the lines after the last good one, and a run that is resumed writes their columns again.
"""

from __future__ import annotations

import errno
import json
import os
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from rookery.files import open_plain, open_to_append, pread
from rookery.monitor.metric_chunk import EMPTY, Metric, MetricChunk, chunk_of, joined

COLUMNS = "metrics.columns"
MAGIC = b"RKC1"
HEAD = struct.Struct("<4sIQQIIII")
SEAL = struct.Struct("<I")
READ_BYTES = 1 << 13  # at the beginning of a block: usually its head and schema
CHECKED = 512  # bytes before the end of the lines, by which another file is noticed
BLOCK = 1 << 20  # bytes of lines, after which a run writes their columns
MOST_BEHIND = 8 << 20  # bytes of lines without columns that a resumed run makes up for


class Layout(NamedTuple):
    """Where the arrays of a block are, from the end of its schema on; of rows and values, with their number."""

    cuts: tuple[tuple[int, float], ...]
    rows: tuple[tuple[int, int], ...]
    metrics: dict[str, tuple[int, int]]  # the place in `rows`, and that of the values
    size: int


@dataclass(frozen=True)
class Block:
    """A block whose arrays begin at `arrays` of the file."""

    arrays: int
    rows: int
    first: int
    last: int
    check: int
    layout: Layout

    @property
    def end(self) -> int:
        return self.arrays + self.layout.size

    def load(self, fd: int, names: Collection[str]) -> MetricChunk:
        """The columns with the metrics of these names. Raises ValueError if they are damaged."""
        if not self.rows:
            return EMPTY
        base, kinds = pread(fd, 16 * self.rows, self.arrays), pread(fd, self.rows, self.end - self.rows)
        wanted = [(name, *self.layout.metrics[name]) for name in names if name in self.layout.metrics]
        rows = {number: self._rows(fd, number) for number in {number for _, number, _ in wanted}}
        values = {name: self._array(fd, np.float64, len(rows[number]), place) for name, number, place in wanted}
        steps, times = np.frombuffer(base).reshape(2, self.rows)
        if len(kinds) != self.rows or not np.isfinite(steps).all():
            raise ValueError("the columns are damaged")
        metrics = {name: Metric(rows[number], values[name]) for name, number, _ in wanted}
        return MetricChunk(steps, times, np.frombuffer(kinds, np.uint8), self.layout.cuts, metrics)

    def _rows(self, fd: int, number: int) -> np.ndarray:
        count, place = self.layout.rows[number]
        if count == self.rows:
            return np.arange(count, dtype=np.uint32)
        rows = self._array(fd, np.uint32, count, place)
        if rows.max() >= self.rows:
            raise ValueError("the columns are damaged")
        return rows

    def _array(self, fd: int, kind: Any, count: int, place: int) -> np.ndarray:
        """A ValueError if the file is too short."""
        return np.frombuffer(pread(fd, np.dtype(kind).itemsize * count, self.arrays + place), kind, count)


class ColumnFile:
    """The columns of the lines of a metrics file up to `last`; none if there is no such file."""

    def __init__(self, path: Path, metrics: int) -> None:
        """`metrics` is the descriptor of the open metrics file."""
        self.path, self.blocks = path, list[Block]()
        with suppress(OSError), os.fdopen(open_plain(path, os.O_RDONLY), "rb", buffering=0) as file:
            self.blocks = list(read_blocks(file.fileno(), metrics))

    @property
    def last(self) -> int:
        return self.blocks[-1].last if self.blocks else 0

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @cached_property
    def counts(self) -> dict[str, int]:
        """The names of metrics in the order of their appearance, with the number of their values."""
        found: dict[str, int] = {}
        for block in self.blocks:
            for name, (number, _) in block.layout.metrics.items():
                found[name] = found.get(name, 0) + block.layout.rows[number][0]
        return found

    def load(self, names: Collection[str]) -> MetricChunk:
        """The columns with the metrics of these names. Raises OSError or ValueError if the file has changed since."""
        if not self.blocks:
            return EMPTY
        with os.fdopen(open_plain(self.path, os.O_RDONLY), "rb", buffering=0) as file:
            return joined([block.load(file.fileno(), names) for block in self.blocks])


class ColumnWriter:
    """Appends to a file of columns. Contents that do not belong to these lines are removed."""

    def __init__(self, path: Path, metrics: int) -> None:
        """`metrics` is the descriptor of the open metrics file."""
        self._file, self._metrics = FileIO(open_to_append(path), "a+"), metrics
        blocks = list(read_blocks(self._file.fileno(), metrics))
        self.last = blocks[-1].last if blocks else 0
        self._file.truncate(blocks[-1].end if blocks else 0)

    def add(self, lines: bytes, last: int) -> None:
        """The events of the lines from where the columns end until `last`."""
        check = checksum(self._metrics, self.last, last)
        block = encoded_block(chunk_of(lines), self.last, last, check)
        if self._file.write(block) != len(block):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.last = last

    def close(self) -> None:
        self._file.close()


class GrowingColumns:
    """The columns of a run that writes its metrics, a little behind the lines. If they cannot be written, they end, and
    the run continues: readers decode the lines."""

    def __init__(self, path: Path, metrics: FileIO) -> None:
        self._lines = bytearray()
        self._writer: ColumnWriter | None = None
        with suppress(OSError):
            writer = ColumnWriter(path, metrics.fileno())
            behind = os.fstat(metrics.fileno()).st_size - writer.last
            if behind > MOST_BEHIND:  # a run from before there were columns: the dashboard makes them
                writer.close()
                return
            self._lines += pread(metrics.fileno(), behind, writer.last)
            self._writer = writer

    def add(self, line: bytes) -> None:
        """A line that was written."""
        if self._writer is not None:
            self._lines += line
            if len(self._lines) >= BLOCK:
                self._flush(self._writer)

    def close(self) -> None:
        if self._writer is not None and self._lines:
            self._flush(self._writer)
        if self._writer is not None:
            self._writer.close()

    def _flush(self, writer: ColumnWriter) -> None:
        try:
            writer.add(bytes(self._lines), writer.last + len(self._lines))
        except OSError:
            writer.close()
            self._writer = None
        self._lines.clear()


def encoded_block(chunk: MetricChunk, first: int, last: int, check: int) -> bytes:
    """The block of these events."""
    rows = {metric.rows.tobytes(): metric.rows for metric in chunk.metrics.values()}
    numbers = {key: number for number, key in enumerate(rows)}
    metrics = {name: numbers[metric.rows.tobytes()] for name, metric in chunk.metrics.items()}
    sizes = [len(some) for some in rows.values()]
    schema = json.dumps({"cuts": list(chunk.cuts), "rows": sizes, "metrics": metrics}).encode()
    some_rows = [some for some in rows.values() if len(some) < len(chunk)]
    values = [metric.values for metric in chunk.metrics.values()]
    arrays = b"".join(part.tobytes() for part in (chunk.steps, chunk.times, *some_rows, *values, chunk.kinds))
    head = HEAD.pack(MAGIC, len(chunk), first, last, check, len(schema), len(arrays), crc32(arrays))
    return head + SEAL.pack(crc32(schema, crc32(head))) + schema + arrays


def read_blocks(fd: int, metrics: int) -> Iterator[Block]:
    """The blocks of a file that hold the lines of a metrics file from its beginning on."""
    size, place, first = os.fstat(fd).st_size, 0, 0
    while (block := _block_at(fd, place, size)) is not None:
        if block.first != first or block.last < first or block.check != checksum(metrics, first, block.last):
            return
        yield block
        place, first = block.end, block.last


def _block_at(fd: int, place: int, size: int) -> Block | None:
    data = pread(fd, READ_BYTES, place)
    start = HEAD.size + SEAL.size
    if len(data) < start:
        return None
    magic, rows, first, last, check, schema_size, array_size, array_sum = HEAD.unpack_from(data)
    arrays = place + start + schema_size
    if magic != MAGIC or arrays + array_size > size:
        return None
    schema = data[start : start + schema_size]
    if len(schema) < schema_size:
        schema = pread(fd, schema_size, place + start)
    if SEAL.unpack_from(data, HEAD.size)[0] != crc32(schema, crc32(data[: HEAD.size])):
        return None
    try:
        layout = _layout(schema, rows)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if layout.size != array_size:
        return None
    # Only the last block can be incomplete: those before it were there when the next one was written.
    if arrays + array_size == size and crc32(pread(fd, array_size, arrays)) != array_sum:
        return None
    return Block(arrays, rows, first, last, check, layout)


@lru_cache(maxsize=1024)
def _layout(schema: bytes, rows: int) -> Layout:
    """Most blocks of a run have the same schema."""
    found = json.loads(schema)
    place = 16 * rows
    sets, metrics = [], {}
    for count in found["rows"]:
        if type(count) is not int or not 0 < count <= rows:
            raise ValueError("not a number of rows")
        sets.append((count, place))
        place += 4 * count if count < rows else 0
    for name, number in found["metrics"].items():
        if type(number) is not int or not 0 <= number < len(sets):
            raise ValueError("not a place in rows")
        metrics[name] = number, place
        place += 8 * sets[number][0]
    return Layout(_cuts(found["cuts"], rows), tuple(sets), metrics, place + rows)


def _cuts(cuts: Sequence[Sequence[float]], rows: int) -> tuple[tuple[int, float], ...]:
    found = tuple((int(row), float(step)) for row, step in cuts)
    if not all(0 <= row < rows for row, _ in found):
        raise ValueError("not a row")
    return found


def checksum(metrics: int, first: int, last: int) -> int:
    """A checksum of the last bytes of some lines; of lines that are not there, it differs."""
    size = min(CHECKED, last - first)
    return crc32(pread(metrics, size, last - size), size)
