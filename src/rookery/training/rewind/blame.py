"""`rookery.blame`: which update made the return fall."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rookery.console import meanwhile
from rookery.engine.settings import positive_int
from rookery.errors import OptionError, RunError
from rookery.gate import allow_given
from rookery.monitor.formatting import number
from rookery.training.curriculum.curriculum import Curriculum
from rookery.training.evaluation.evaluator import Evaluator
from rookery.training.rewind.replay import Replay
from rookery.training.run.components import make_evaluator
from rookery.training.storage.moments import drops
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import NamedRun, find_runs
from rookery.user_code import end_import

TESTS = 16  # of agents in a scan of the window; the part with the largest fall is scanned again, more finely
NAMED = 3
EPISODES = 20


@dataclass(frozen=True)
class Suspect:
    """Updates between two tests of the agent on the same episodes."""

    first_update: int
    last_update: int
    begin: int  # the step before them
    step: int  # after them
    before: float  # mean return
    after: float
    gradient: float | None  # the norm in the last of them, as the learner reports it
    kl: float | None  # how far the last of them moved the policy, if the learner reports it
    phase: str | None  # of a curriculum
    opponents: list[str]
    lasting: float = 0.0  # the fall of the mean of two tests

    @property
    def fall(self) -> float:
        """How much the return fell."""
        return self.before - self.after

    def __str__(self) -> str:
        one = self.first_update == self.last_update
        updates = f"update {self.last_update:,}" if one else f"updates {self.first_update:,} to {self.last_update:,}"
        parts = [f"{updates} (step {self.step:,}): return {number(self.before)} before, {number(self.after)} after"]
        figures = {"gradient": self.gradient, "kl": self.kl}
        parts += [f"{name} {value:.3g}" for name, value in figures.items() if value is not None]
        parts += [self.phase] if self.phase else []
        parts += [f"against {', '.join(self.opponents)}"] if self.opponents else []
        return ", ".join(parts)


@dataclass(frozen=True)
class BlameResult:
    """Returned by `rookery.blame`."""

    run: str
    windows: list[tuple[int, int]]  # of steps, that were played again
    suspects: list[Suspect]  # the worst of each window first, by the largest lasting fall
    episodes: int  # that each agent was tested on
    exact: bool  # whether what was played again agrees with what the run recorded

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        suspects = [asdict(suspect) | {"fall": suspect.fall} for suspect in self.suspects]
        windows = [list(window) for window in self.windows]
        facts = {"run": self.run, "windows": windows, "episodes": self.episodes, "exact": self.exact}
        return facts | {"suspects": suspects}

    def print(self) -> None:
        """Print it."""
        windows = " and ".join(f"{first:,} to {last:,}" for first, last in self.windows)
        print(f"{self.run}, steps {windows}, on {self.episodes} episodes:")
        for suspect in self.suspects:
            print(f"  {suspect}")
        if not self.suspects:
            print("  no update lowers the return")
        if not self.exact:
            print("not exact: what was played again differs from what the run recorded")


def blame(
    run: NamedRun,
    *,
    first: int | None = None,
    last: int | None = None,
    episodes: int = EPISODES,
    runs_dir: str | Path = "runs",
    trust: bool = False,
) -> BlameResult:
    """Which updates made the return fall: a window of the run is played again, and the agent tested before and after
    each update on the same episodes.

    A long window is tested at 16 places, and its part with the largest fall again, until each test follows one update
    (off-policy learners: one step of all envs).

    Args:
        run: A result of `rookery.train`, or a run by its name, its path or as "latest".
        first: The step at which the window begins; if omitted, the three largest lasting falls of the evaluations are
            windows.
        last: The step at which it ends.
        episodes: How many episodes each agent is tested on.
        runs_dir: The folder of the runs.
        trust: Execute the Python files that the run names without asking.
    """
    end_import("rookery.blame")
    allow_given(run)
    positive_int("episodes", episodes)
    (found,) = find_runs([run], runs_dir)
    windows = _windows(found, first, last)
    open_at = partial(Replay, found, runs_dir=Path(runs_dir), trust=trust)
    with meanwhile("testing agents"):
        searches = [_search(open_at, *window, episodes) for window in windows]
    exact = all(agrees for _, agrees in searches)
    ranked = [(rank > 0, -one.lasting, one) for suspects, _ in searches for rank, one in enumerate(suspects)]
    named = [one for *_, one in sorted(ranked, key=lambda item: item[:2])]  # the first of each window before others
    return BlameResult(found.name, windows, named[:NAMED], episodes, exact)


def _windows(run: RunDir, first: int | None, last: int | None) -> list[tuple[int, int]]:
    if first is None and last is None:
        return sorted((moment.known, moment.until) for moment in drops(run, NAMED))
    if first is None or last is None or last <= first:
        raise OptionError(f"a window has a `first` and a later `last` step, got {first} and {last}")
    return [(first, last)]


def _search(open_at: Callable[[int], Replay], first: int, last: int, episodes: int) -> tuple[list[Suspect], bool]:
    """The updates after which the return is lower, the largest fall first, and whether all agreed with the record."""
    exact, begin = True, first
    while True:
        with closing(open_at(begin)) as replay:
            rounds = math.ceil((last - begin) / _round_steps(replay))
            each = 1 if rounds <= 2 * TESTS else math.ceil(rounds / TESTS)
            tested = list(_scan(replay, begin, last, each, episodes))
            exact &= not replay.doubts()
            wide = each * _round_steps(replay)
        falls = _ranked(tested)
        if each == 1 or not falls:
            return falls, exact
        begin, last = max(first, falls[0].begin - wide), falls[0].step  # the fall may have begun a little earlier


def _ranked(tested: Sequence[Suspect]) -> list[Suspect]:
    """Those after which the return is lower, the most lasting fall first: two tests before are compared with two after,
    since one update of a healthy run may be unlucky, and the next one undoes it."""
    scores = [suspect.before for suspect in tested[:1]] + [suspect.after for suspect in tested]
    means = [(np.mean(scores[max(0, k - 1) : k + 1]), np.mean(scores[k + 1 : k + 3])) for k in range(len(tested))]
    found = [
        replace(suspect, lasting=float(before - after))
        for suspect, (before, after) in zip(tested, means, strict=True)
        if suspect.fall > 0
    ]
    return sorted(found, key=lambda suspect: -suspect.lasting)


def _round_steps(replay: Replay) -> int:
    """Steps between two tests that follow each other as closely as they can."""
    learner, loop = replay.loop.learner, replay.loop
    return loop.num_envs * (learner.options.rollout_length if learner.on_policy else 1)


def _scan(replay: Replay, first: int, last: int, each: int, episodes: int) -> Iterator[Suspect]:
    """Test the agent again and again, after so many rounds each."""
    loop, run = replay.loop, replay.opened.run
    wanted = {"episodes": episodes, "max_episodes": episodes}
    options = run.config.evaluation.model_copy(update=wanted)
    with closing(make_evaluator(run.with_config(evaluation=options))) as evaluator:
        if evaluator.shared:
            raise RunError(f"{replay.run.name} evaluates in the envs that train, so that testing it would change it")
        replay.to_step(first)
        score, begin, updates = _score(evaluator, replay), loop.steps, loop.learner.updates
        while loop.steps < last and not replay.over:
            for _ in range(each):
                replay.round(None if loop.learner.on_policy else 1)
            before, score = score, _score(evaluator, replay)
            if loop.learner.updates > updates:
                made = (updates + 1, loop.learner.updates)
                yield Suspect(*made, begin, loop.steps, before, score, **_circumstances(replay))
            begin, updates = loop.steps, loop.learner.updates


def _score(evaluator: Evaluator, replay: Replay) -> float:
    played = evaluator.run(replay.loop.learner.agent)
    assert played is not None
    return played.mean


def _circumstances(replay: Replay) -> dict[str, Any]:
    """What the updates were made with."""
    loop, phase, opponents = replay.loop, None, []
    if isinstance(loop.curriculum, Curriculum):
        phases = loop.curriculum.phases
        phase, opponents = phases.title, [opponent.who for opponent in phases.current.opponents]
    figures = {name: loop.collector.metrics.get(name) for name in ("gradient", "kl")}
    return {**figures, "phase": phase, "opponents": opponents}
