"""Which moment of a run is meant: by its step, update or episode, or by what the run recorded there."""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from rookery.console import printable
from rookery.errors import OptionError, RunError
from rookery.files import open_plain
from rookery.monitor.events import Event
from rookery.monitor.jsonl import history
from rookery.training.storage.run_dir import RunDir

Word = Literal["worst", "drop", "nan", "crash"]
RECENT = 100  # episodes that the worst one is compared with
FEW = 10  # episodes before which nothing is the worst


@dataclass(frozen=True)
class Moment:
    """A moment of a run. It is not before the step `known`."""

    step: int | None  # the last moment with at most so many steps
    update: int | None = None  # just before this update
    known: int = 0
    until: int = 0  # the step at which what happened there is over
    text: str = ""

    def __str__(self) -> str:
        return self.text or (f"step {self.step:,}" if self.step is not None else f"update {self.update:,}")


def find_moment(
    run: RunDir, at: int | str | None = None, update: int | None = None, episode: int | None = None
) -> Moment:
    """The moment that is meant: one of the three is given. `at` is a step, or "worst", "drop", "nan" or "crash"."""
    if sum(value is not None for value in (at, update, episode)) != 1:
        raise OptionError("give one moment: a step or a word as `at`, an `update`, or an `episode`")
    if update is not None:
        return _of_update(run, _positive("update", update))
    if episode is not None:
        return _of_episode(run, _positive("episode", episode))
    if at in get_args(Word):
        return {"worst": _worst, "drop": _drop, "nan": _first_nan, "crash": _crash}[str(at)](run)
    step = _step(at)
    return Moment(step, known=step)


def _positive(name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise OptionError(f"{name} should be an integer >= 1, got {value!r:.40}")
    return value


def _step(at: Any) -> int:
    """
    >>> _step("812,340"), _step(2e5), _step("1e3")
    (812340, 200000, 1000)
    """
    try:
        step = float(str(at).replace(",", "").replace("_", ""))
        if step == int(step) and step >= 0:
            return int(step)
    except (ValueError, OverflowError):
        pass
    raise OptionError(f"at should be a step, such as 812340, or one of {', '.join(get_args(Word))}, got {at!r:.40}")


def rows_of(run: RunDir) -> list[Event]:
    """The run's lines of progress, in order."""
    if not run.metrics.is_file():
        return []
    return [event for event in history(run.metrics) if event.kind == "progress"]


def _of_update(run: RunDir, update: int) -> Moment:
    before = [row.step for row in rows_of(run) if row.values.get("updates", update) < update]
    return Moment(None, update, before[-1] if before else 0)


# --- by what happened -------------------------------------------------------------------------------------------------


def _drop(run: RunDir) -> Moment:
    return drops(run, 1)[0]


def drops(run: RunDir, most: int) -> list[Moment]:
    """Before the largest lasting falls of the evaluations: two are compared with the two that follow, since one alone
    may be unlucky. Of a run with fewer than two evaluations, of its returns."""
    recorded = [(row.step, row.values.get("episode/return")) for row in rows_of(run)]
    scores = _scores(run.evaluations, "eval/return") or recorded
    known = [(step, float(value)) for step, value in scores if isinstance(value, (int, float))]
    values = [value for _, value in known]
    means = [(np.mean(values[max(0, k - 1) : k + 1]), np.mean(values[k + 1 : k + 3])) for k in range(len(known) - 1)]
    falls = sorted((after - before, k) for k, (before, after) in enumerate(means) if after < before)
    if not falls:
        raise RunError(f"the returns of {run.name} never fall for long")
    return [_fall(*known[k], *known[k + 1]) for _, k in falls[:most]]


def _fall(step: int, high: float, later: int, low: float) -> Moment:
    text = f"step {step:,}, from where the return falls from {high:.4g} to {low:.4g} at {later:,}"
    return Moment(step, known=step, until=later, text=text)


def _scores(path: Any, name: str) -> list[tuple[int, Any]]:
    events = history(path) if path.is_file() else []
    return [(event.step, event.values.get(name)) for event in events] if len(events) > 1 else []


def _first_nan(run: RunDir) -> Moment:
    """The last line of progress before the first one with a loss that is not a number."""
    known = 0
    for row in rows_of(run):
        losses = {name: value for name, value in row.values.items() if name.startswith("loss/")}
        if any(value is None for value in losses.values()):
            name = next(name for name, value in losses.items() if value is None)
            return Moment(
                known, known=known, text=f"step {known:,}, before {name} stops being a number at {row.step:,}"
            )
        known = row.step
    raise RunError(f"every loss that {run.name} has recorded is a number")


def _crash(run: RunDir) -> Moment:
    """The last moment before the error that ended the run, which the run has noted."""
    noted = run.birth().get("crash")
    crash: Mapping[str, Any] = noted if isinstance(noted, dict) else {}
    step, update, known = (crash.get(name) for name in ("step", "update", "known"))
    if type(known) is not int or known < 0 or (type(step) is not int and type(update) is not int):
        raise RunError(f"{run.name} has no record of an error that ended it")
    if type(update) is int:
        return Moment(None, max(1, update), known, text=f"update {update:,}, the last one before {_error(crash)}")
    return Moment(step, known=known, text=f"step {step:,}, the last one before {_error(crash)}")


def _error(crash: Mapping[str, Any]) -> str:
    return printable(str(crash.get("error", "an error")))[:200]


# --- by an episode ----------------------------------------------------------------------------------------------------


def recorded_episodes(run: RunDir) -> Iterator[Mapping[str, Any]]:
    """What episodes.jsonl holds of each episode."""
    if not run.episodes.is_file():
        return
    with os.fdopen(open_plain(run.episodes, os.O_RDONLY), "rb") as file:
        for line in file:
            try:
                row = json.loads(line)
                yield {name: row[name] for name in ("episode", "step", "env", "return", "length")}
            except (ValueError, KeyError, TypeError):
                continue


def _worst(run: RunDir) -> Moment:
    """The episode that is furthest below the mean of the hundred before it."""
    recent: deque[float] = deque(maxlen=RECENT)
    found: tuple[float, int] | None = None
    for row in recorded_episodes(run):
        if len(recent) >= FEW and (found is None or row["return"] - np.mean(recent) < found[0]):
            found = float(row["return"] - np.mean(recent)), row["episode"]
        recent.append(row["return"])
    if found is None:
        raise RunError(f"{run.name} has recorded fewer than {FEW} episodes, so none is the worst")
    return _of_episode(run, found[1])


def _of_episode(run: RunDir, number: int) -> Moment:
    """Where an episode began. The file says when it was counted; the lengths of its env's earlier ones say the rest, if
    all are there and the envs never began again."""
    found = run.read_config().get("num_envs")
    num_envs, complete = (found, True) if type(found) is int else (1, False)
    made: defaultdict[int, int] = defaultdict(int)  # steps of each env
    counted, before = 0, 0  # the steps at which this episode and those of the round before it were counted
    for expected, row in enumerate(recorded_episodes(run), start=1):
        complete &= row["episode"] == expected
        if row["step"] != counted:
            before, counted = counted, row["step"]
        made[row["env"]] += row["length"]
        if row["episode"] == number:
            end = made[row["env"]] * num_envs
            exact = complete and before < end <= counted
            begin = max(0, (end if exact else before) - row["length"] * num_envs)
            where = "where" if exact else "some steps before"
            what = (
                f"episode {number:,} of env {row['env']} (return {row['return']:.4g}, {row['length']:,} steps) begins"
            )
            return Moment(begin, known=begin, text=f"step {begin:,}, {where} {what}")
    raise RunError(f"{run.name} has no record of episode {number:,}")
