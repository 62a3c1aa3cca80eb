"""What a run's files say at their beginnings and ends: metrics that have grown for days are not read as a whole."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from rookery.files import open_plain, pread, read_plain, try_lock
from rookery.training.storage.run_dir import LARGEST, RunDir

LARGEST_NUMBER = 1e300
TAIL = 1 << 16  # bytes from the end of a file
FIRST_TAIL = 1 << 13  # of which these are read first: most of what a table shows is in the last lines
BEST_TAIL = 1 << 22  # bytes of evaluations in which the best one is looked for
BEST = b'"eval/best": true'
Json = dict[str, Any]


class RunRecord:
    """The ends of a run's files. Each file is read when something of it is requested; damaged lines are skipped."""

    def __init__(self, run: RunDir, *, follow_links: bool = True) -> None:
        """With `follow_links=False`, a config or a summary that is a link is not read."""
        self.run = run
        self._follow_links = follow_links

    @cached_property
    def config(self) -> Json:
        return self._object(self.run.config)

    @cached_property
    def summary(self) -> Json:
        return self._object(self.run.summary)

    @cached_property
    def birth(self) -> Json:
        return self._object(self.run.path / "run.json")

    @cached_property
    def start(self) -> Json:
        """The first event, if it is of a start."""
        first = self._metrics.first
        return first if first.get("kind") == "start" else {}

    @cached_property
    def last(self) -> Json:
        """The last event; the summary if there are no metrics."""
        return self.last_event(lambda event: True) or self.summary

    @cached_property
    def progress(self) -> Json:
        """The last progress event with speeds; one at the end of a run has only the times of its last parts."""
        return self.last_event(lambda event: "steps_per_second" in event and event.get("kind") == "progress") or (
            self.last_event(lambda event: event.get("kind") == "progress")
        )

    @property
    def readable(self) -> bool:
        return bool(self.config or self.last)

    def last_event(self, wanted: Callable[[Json], bool]) -> Json:
        """The last event of the metrics that is wanted; {} if there is none at either end."""
        return next(filter(wanted, self.latest()), {})

    def latest(self) -> Iterator[Json]:
        """The last events of the metrics, the latest first, and then the first event of the run."""
        return self._metrics.latest()

    @cached_property
    def last_return(self) -> float | None:
        """The return of the last evaluation."""
        returns = (number(event.get("eval/return")) for event in self._evaluations.latest())
        return next((value for value in returns if value is not None), None)

    def return_at(self, step: int) -> float | None:
        """The return of the evaluation at this step, if it is among the last ones."""
        return next((number(e.get("eval/return")) for e in self._evaluations.latest() if e.get("step") == step), None)

    @cached_property
    def best_return(self) -> float | None:
        """The return of the best evaluation. Each one tells whether it is better than all before it."""
        marked = number(self._evaluations.last_with(BEST, BEST_TAIL).get("eval/return"))
        best = [marked, number(self.summary.get("eval/best_return"))]
        if marked is None:
            events = self._evaluations.latest()
            best += [number(event.get("eval/return")) for event in events if event.get("eval/best") is not False]
        return max((value for value in best if value is not None), default=None)

    def state(self) -> str:
        """`"running"`, `"finished"`, `"interrupted"`, `"failed"` or `"unreadable"`."""
        if not self.readable:
            return "unreadable"
        reason = self.last.get("reason")
        if reason is None:
            return "running" if is_busy(self.run.path / "run.lock") else "interrupted"
        return next((word for word in ("interrupted", "failed") if str(reason).startswith(word)), "finished")

    @cached_property
    def _metrics(self) -> _Ends:
        return _Ends(self.run.metrics)

    @cached_property
    def _evaluations(self) -> _Ends:
        return _Ends(self.run.evaluations)

    def _object(self, path: Path) -> Json:
        try:
            return as_object(read_plain(path, LARGEST) if self._follow_links else _read_no_link(path))
        except OSError:
            return {}


class _Ends:
    """The first line of a file and its last ones, read and decoded when they are needed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first, self._rest, self._end, self._is_whole = _read_ends(path, FIRST_TAIL)
        self._has_all = self._is_whole
        self._decoded: list[Json] = []
        self._seen = 0  # of the last lines

    def latest(self) -> Iterator[Json]:
        """The objects of the last lines, the latest first, then that of the first line."""
        position = 0
        while position < len(self._decoded) or self._decode_one():
            yield self._decoded[position]
            position += 1

    @property
    def first(self) -> Json:
        """The object of the first line."""
        return as_object(self._first)

    def last_with(self, mark: bytes, most: int) -> Json:
        """The object of the last line with `mark` among the last `most` bytes of the file; {} if there is none."""
        if not self._has_all:
            return _last_line_with(mark, self._path, most)
        return as_object(next((line for line in (*self._rest[::-1], self._first) if mark in line), b""))

    def _decode_one(self) -> bool:
        """Decode one more line, and skip damaged ones; False if there is none left."""
        while self._seen <= len(self._rest):
            self._seen += 1
            if not self._is_whole and self._seen >= len(self._rest):  # the first of them may be a part of a line
                self._rest, self._is_whole = _read_ends(self._path, TAIL, self._end)[1] or self._rest, True
            found = as_object(self._rest[-self._seen] if self._seen <= len(self._rest) else self._first)
            if found:
                self._decoded.append(found)
                return True
        return False


def is_busy(lock: Path) -> bool:
    """Whether a process holds the run's lock. A shared lock is tried: `Lock` would write to its file."""
    try:
        with os.fdopen(open_plain(lock, os.O_RDONLY), "rb") as file:
            try_lock(file.fileno(), shared=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def as_object(text: bytes) -> Json:
    """The JSON object in a line; {} if it is damaged, or something else."""
    try:
        found = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(value: Any) -> int | float | None:
    """A number that can be shown and compared."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < LARGEST_NUMBER else None


def _read_no_link(path: Path) -> bytes:
    """The contents of a small file that is not a link; of a larger one, nothing."""
    with _opened(path) as (fd, size):
        return _read(fd, 0, size) if size <= LARGEST else b""


def _read_ends(path: Path, most: int, end: int | None = None) -> tuple[bytes, list[bytes], int, bool]:
    """The first line; the last ones without it, in up to `most` bytes before `end`; this end; and whether these are all
    lines."""
    try:
        with _opened(path) as (fd, size):
            first = _first_line(fd, most)
            end = size if end is None else end
            start = max(len(first), end - most)
            return first, _read(fd, start, end).splitlines(), end, start == len(first)
    except OSError:
        return b"", [], 0, True


def _first_line(fd: int, most: int) -> bytes:
    """Up to `TAIL` bytes of it."""
    head = _read(fd, 0, most)
    if b"\n" not in head and len(head) == most < TAIL:
        head += _read(fd, most, TAIL)
    return head[: head.find(b"\n") + 1] or head


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """A descriptor of a file that is not a link, and its size. A Python file would take as long as reading it."""
    fd = open_plain(path, os.O_RDONLY)
    try:
        yield fd, os.fstat(fd).st_size
    finally:
        os.close(fd)


def _read(fd: int, first: int, last: int) -> bytes:
    return pread(fd, last - first, first) if last > first else b""


def _last_line_with(mark: bytes, path: Path, most: int) -> Json:
    """The last line with `mark` among the last `most` bytes of a file."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
            end = file.seek(0, os.SEEK_END)
            for length in (TAIL, most):
                file.seek(max(0, end - length))
                tail = file.read(length)
                at = tail.rfind(mark)
                if at >= 0 or length >= end:
                    break
    except OSError:
        return {}
    return as_object(tail[tail.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]) if at >= 0 else {}
