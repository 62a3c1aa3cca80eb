"""`episodes.jsonl`: one line per episode, as JSON.

Of a long run it holds a sample, so that its size is bounded: all of the first 50,000 episodes, every 2nd up to 100,000,
every 4th up to 200,000, and so on. A billion episodes are 410,000 lines. Which episodes these are depends on their
numbers alone, not on timing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.jsonl import append_record, open_lines

EPISODES = "episodes.jsonl"
ALL_UP_TO = 50_000  # episodes
FIELDS = ("episode", "step", "time", "env", "return", "length", "seconds")
LINE = '{{"episode": %d, "step": {}, "time": {:.3f}, "env": %d, "return": %.9g, "length": %d, "seconds": %.3g'
MOST_INFOS, LONGEST_NAME, LONGEST_TEXT = 24, 64, 100  # of a line; the rest is omitted or cut
BUFFER_BYTES, BUFFER_SECONDS = 1 << 16, 1.0  # of lines that are written together

NOTE = (
    f"{EPISODES} holds every episode up to {ALL_UP_TO:,}, and a sample of later ones: every 2nd up to "
    f"{2 * ALL_UP_TO:,}, every 4th up to {4 * ALL_UP_TO:,}, and so on"
)


def sampled(first: int, count: int) -> np.ndarray:
    """Which of the episodes `first`, `first + 1`, ... are in the file, as indices from 0. Episodes count from 1.

    >>> sampled(ALL_UP_TO - 1, 6).tolist()
    [0, 1, 3, 5]
    """
    if first + count - 1 <= ALL_UP_TO:
        return np.arange(count)
    numbers = np.arange(first, first + count)
    doublings = np.frexp((numbers - 1) // ALL_UP_TO)[1]
    return np.flatnonzero(numbers % (1 << doublings.astype(np.int64)) == 0)


class EpisodeFile:
    """Appends episodes to `episodes.jsonl` in the run's folder, many lines at a time."""

    def __init__(self, folder: str | Path) -> None:
        self._file = open_lines(Path(folder) / EPISODES)
        self._lines: list[str] = []
        self._bytes, self._written_at = 0, time.monotonic()

    def add(
        self, step: int, first: int, finished: np.ndarray, infos: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        """Add records of an engine's `finished_episodes()`, of which the first is the run's episode number `first`, at
        `step` of the run. `infos` are those of their last steps, one dict per record."""
        chosen = sampled(first, len(finished))
        if not len(chosen):
            return
        columns = [finished[name][chosen].tolist() for name in ("env", "return", "length", "seconds")]
        line = LINE.format(step, time.time())
        lines = [line % row for row in zip((chosen + first).tolist(), *columns, strict=True)]
        if not np.isfinite(finished["return"][chosen]).all():
            lines = [_without_nan(line) for line in lines]
        if infos is not None:
            lines = [line + _infos_text(infos[at]) for line, at in zip(lines, chosen.tolist(), strict=True)]
        self._lines += lines
        self._bytes += len(lines[0]) * len(lines)
        if self._bytes >= BUFFER_BYTES or time.monotonic() - self._written_at >= BUFFER_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait. After an error they are gone, so that `close` does not fail again."""
        lines, self._lines, self._bytes = self._lines, [], 0
        self._written_at = time.monotonic()
        if lines:
            append_record(self._file, ("}\n".join(lines) + "}\n").encode())

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()


def _without_nan(line: str) -> str:
    """Strict JSON has no NaN and no infinity."""
    for word in ("nan", "-inf", "inf"):
        line = line.replace(f'"return": {word},', '"return": null,')
    return line


def _infos_text(infos: Mapping[str, Any]) -> str:
    """Scalar infos as the end of a line. One with the name of a field is called `info_NAME`.

    >>> _infos_text({"winner": 1, "length": 2.5})
    ', "winner": 1, "info_length": 2.5'
    """
    if not infos:
        return ""
    named = {
        (f"info_{name}" if name in FIELDS else str(name))[:LONGEST_NAME]: _plain(value)
        for name, value in list(infos.items())[:MOST_INFOS]
    }
    return ", " + json.dumps(named, allow_nan=False)[1:-1]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    return None if isinstance(value, float) and value - value != 0.0 else value
