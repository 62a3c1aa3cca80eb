"""Returns, lengths and outcomes of the latest episodes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from rookery.monitor.episode_file import ALL_UP_TO, EPISODES, NOTE, EpisodeFile
from rookery.monitor.jsonl import append_record, open_append_only
from rookery.training.evaluation.win_record import MOST_NUMBERS, PREFIX, final_numbers
from rookery.training.run.collector import Collector

WINDOW = 100


class RecentEpisodes:
    """Counts finished episodes and keeps the last hundred."""

    def __init__(self) -> None:
        self.count = 0
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self.outcomes: dict[str, deque[float]] = {}  # such as win_rate
        self.infos = InfoMeans()
        self._is_given = False  # whether `replace` says what is kept

    def add(self, finished: np.ndarray, others: int = 0) -> None:
        """Add what an engine's `finished_episodes()` returns, and count `others` that it has not listed."""
        self.count += len(finished) + others
        if self._is_given:
            return
        self.returns.extend(finished["return"][-WINDOW:].tolist())
        self.lengths.extend(finished["length"][-WINDOW:].tolist())

    def replace(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Keep these instead of all others; their outcomes and infos follow."""
        self.returns.clear()
        self.lengths.clear()
        self.outcomes.clear()
        self.infos.clear()
        self._is_given = True
        self.returns.extend(returns.tolist())
        self.lengths.extend(lengths.tolist())

    def add_outcomes(self, outcomes: dict[str, list[float]]) -> None:
        """Add what `outcomes_of` found in the final infos of some episodes."""
        for name, values in outcomes.items():
            self.outcomes.setdefault(name, deque(maxlen=WINDOW)).extend(values)

    def mean_return(self, last: int = WINDOW) -> float:
        """The mean of the last episodes; NaN if there are none."""
        recent = list(self.returns)[-last:]
        return float(np.mean(recent)) if recent else float("nan")

    def metrics(self) -> dict[str, float]:
        """As progress events hold them."""
        if not self.returns:
            return {"episodes": self.count}
        return {
            "episodes": self.count,
            "episode/return": self.mean_return(),
            "episode/length": float(np.mean(self.lengths)),
            **{f"episode/{name}": float(np.mean(values)) for name, values in self.outcomes.items()},
            **self.infos.metrics(),
        }

    def latest(self) -> dict[str, float]:
        """Of the latest episode, as progress events hold them if the run's length is in episodes."""
        if not self.returns:
            return {}
        return {"episode/latest_return": self.returns[-1], "episode/latest_length": float(self.lengths[-1])}

    def last_outcomes(self, last: int) -> dict[str, float]:
        """Means over the last episodes."""
        return {name: float(np.mean(list(values)[-last:])) for name, values in self.outcomes.items()}

    def state(self) -> dict[str, Any]:
        outcomes = {name: list(values) for name, values in self.outcomes.items()}
        return {
            "count": self.count,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "outcomes": outcomes,
            "infos": self.infos.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.returns.extend(map(float, state["returns"]))
        self.lengths.extend(map(int, state["lengths"]))
        self.add_outcomes({name: [*map(float, values)] for name, values in state.get("outcomes", {}).items()})
        self.infos.load(state.get("infos", {}))  # runs of earlier versions have none


SCALARS = (bool, int, float, str, np.bool_, np.integer, np.floating)


class FinalInfos:
    """Collects infos step by step, and gives them back episode by episode. Ends without infos are kept too: of one env,
    only its order tells which episode an info belongs to."""

    def __init__(self) -> None:
        self._steps: list[tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]] = []

    def add(self, rows: slice, infos: Mapping[str, Any]) -> None:
        """Keep the scalars of a step's `final_info`. `rows` are the envs that made the step."""
        final, ended = infos["final_info"], np.flatnonzero(infos["_final_info"])
        if not len(ended):
            return
        columns = {
            name: (column[ended], final[f"_{name}"][ended])
            for name, column in final.items()
            if isinstance(column, np.ndarray)
            and column.ndim == 1
            and f"_{name}" in final
            and _is_scalar(column, final[f"_{name}"])
        }
        self._steps.append((ended + rows.start, columns))

    def take(self, finished: np.ndarray) -> list[dict[str, Any]] | None:
        """The infos of each of these records, all that `finished_episodes()` has listed since the last call; None if
        there are none at all. Nothing is kept for later."""
        steps, self._steps = self._steps, []
        if not any(columns for _, columns in steps):
            return None
        envs = np.concatenate([envs for envs, _ in steps])
        kept = chain.from_iterable(_rows(len(envs), columns) for envs, columns in steps)
        if np.array_equal(envs, finished["env"]):
            return list(kept)
        return _matched(envs.tolist(), list(kept), finished["env"].tolist())


def _is_scalar(column: np.ndarray, present: np.ndarray) -> bool:
    """Whether a column holds any number or text."""
    if column.dtype != object:
        return column.dtype.kind in "biufU"
    return any(isinstance(value, SCALARS) for value in column[present])


def _rows(count: int, columns: dict[str, tuple[np.ndarray, np.ndarray]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, (values, present) in columns.items():
        for row, value, known in zip(rows, values.tolist(), present.tolist(), strict=True):
            if known and isinstance(value, SCALARS):
                row[name] = value.item() if isinstance(value, np.generic) else value
    return rows


def _matched(envs: list[int], rows: list[dict[str, Any]], wanted: list[int]) -> list[dict[str, Any]]:
    """Rows of the wanted envs, each env's latest for its latest episode: an engine that was not read for long has
    dropped the oldest records."""
    of_env: dict[int, list[dict[str, Any]]] = {}
    for env, row in zip(envs, rows, strict=True):
        of_env.setdefault(env, []).append(row)
    found = [of_env[env].pop() if of_env.get(env) else {} for env in reversed(wanted)]
    return found[::-1]


class HintRecords:
    """Writes what the info `hints` of a step holds: a JSON list of records."""

    def __init__(self, path: Path, collector: Collector, note: Callable[[str], None]) -> None:
        """`note` tells the user something."""
        self._path, self._note = path, note
        self._has_failed = False
        collector.on_hints = self._add

    def _add(self, step: int, rows: slice, infos: dict[str, Any]) -> None:
        """At `step` of the run, hints came to some of the envs `rows`."""
        for k in np.flatnonzero(infos["_hints"]):
            for record in json.loads(infos["hints"][k]):
                self._write({"step": step, "env": rows.start + int(k), **record})

    def _write(self, record: dict[str, Any]) -> None:
        if self._has_failed:
            return
        try:
            with open_append_only(self._path, parents=False) as file:
                append_record(file, json.dumps(record).encode() + b"\n")
        except OSError as error:
            self._has_failed = True
            self._note(f"{self._path.name} cannot be written, the run continues without it: {error}")


class EpisodeRecords:
    """Writes the episodes that end, with the infos of their last steps."""

    def __init__(self, file: EpisodeFile | None, collector: Collector, note: Callable[[str], None]) -> None:
        """Without a `file` nothing is collected. `note` tells the user something."""
        self._file, self._note = file, note
        self._infos = FinalInfos()
        if file is not None:
            collector.on_final_infos = self._infos.add

    def add(self, step: int, before: int, listed: np.ndarray, count: int) -> None:
        """The first `count` of these records, all that `finished_episodes()` has listed at `step` of the run, after
        `before` other episodes. The others are beyond the run's end or of a phase that is over."""
        infos, finished = self._infos.take(listed), listed[:count]
        if self._file is None or not len(finished):
            return
        if before <= ALL_UP_TO < before + len(finished):
            self._note(NOTE)
        self._try(lambda file: file.add(step, before + 1, finished, infos))

    def flush(self) -> None:
        """Write what waits: what a checkpoint has counted must be in the file before it."""
        self._try(EpisodeFile.flush)

    def _try(self, action: Callable[[EpisodeFile], None]) -> None:
        if self._file is None:
            return
        try:
            action(self._file)
        except OSError as error:
            with suppress(OSError):
                self._file.close()
            self._file = None
            self._note(f"{EPISODES} cannot be written, the run continues without it: {error}")


class InfoMeans:
    """Keeps the numbers of the last hundred episodes, for the first names that occur."""

    def __init__(self) -> None:
        self._latest: dict[str, deque[float]] = {}

    def add(self, infos: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Add the episodes that ended in one step, from the step's infos and the world's metadata."""
        for name, values in final_numbers(infos["final_info"], metadata).items():
            if name not in self._latest:
                if len(self._latest) >= MOST_NUMBERS:
                    continue
                self._latest[name] = deque(maxlen=WINDOW)
            self._latest[name].extend(values[-WINDOW:].tolist())

    def clear(self) -> None:
        """Keep nothing."""
        self._latest.clear()

    def metrics(self) -> dict[str, float]:
        """As progress events hold them."""
        return {f"{PREFIX}{name}": float(np.mean(values)) for name, values in self._latest.items()}

    def state(self) -> dict[str, list[float]]:
        return {name: list(values) for name, values in self._latest.items()}

    def load(self, state: Mapping[str, list[float]]) -> None:
        self._latest = {name: deque(map(float, values), maxlen=WINDOW) for name, values in state.items()}
