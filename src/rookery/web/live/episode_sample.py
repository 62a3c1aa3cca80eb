"""Episodes of a run as points of a scatter plot: all of them, or a sample that is even over the file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from rookery.files import open_plain, pread
from rookery.monitor.episode_file import EPISODES

MOST_POINTS = 20_000
WHOLE_BYTES = 2 << 20  # up to this size the file is read as a whole
LINE_BYTES = 512  # read at a time, to find one line
LONGEST_LINE = 1 << 13
COLUMNS = {"x": "step", "y": "return", "length": "length", "env": "env", "episode": "episode", "time": "time"}


def episode_sample(folder: Path, points: int) -> dict[str, Any]:
    """{x: steps, y: returns, length, env, episode, time, whole: whether these are all lines of the file}."""
    points = max(1, min(points, MOST_POINTS))
    try:
        with os.fdopen(open_plain(folder / EPISODES, os.O_RDONLY), "rb", buffering=0) as file:
            fd = file.fileno()
            size = os.fstat(fd).st_size
            lines, whole = _all(fd, size, points) if size <= WHOLE_BYTES else (list(_spread(fd, size, points)), False)
    except OSError:
        lines, whole = [], True
    return {**_columns(lines), "whole": whole}


def _all(fd: int, size: int, points: int) -> tuple[list[bytes], bool]:
    lines = pread(fd, size, 0).splitlines(keepends=True)
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    if len(lines) <= points:
        return lines, True
    return [lines[k * len(lines) // points] for k in range(points)], False


def _spread(fd: int, size: int, points: int) -> Iterator[bytes]:
    """The first whole line after each of as many offsets, each once."""
    last = -1
    for k in range(points):
        start, line = _line_after(fd, k * size // points)
        if start > last:
            last = start
            yield line


def _line_after(fd: int, offset: int) -> tuple[int, bytes]:
    """The offset of a line and the line; -1 if there is none that is complete."""
    for length in (LINE_BYTES, LONGEST_LINE):
        data = pread(fd, length, offset)
        start = data.find(b"\n") + 1 if offset else 0
        end = data.find(b"\n", start) + 1
        if end and (start or not offset):
            return offset + start, data[start:end]
    return -1, b""


def _columns(lines: Iterable[bytes]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for line in lines:
        episode = _parse(line)
        if episode is not None:
            for name, field in COLUMNS.items():
                columns[name].append(episode.get(field))
    return columns


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("step"), int | float) else None
