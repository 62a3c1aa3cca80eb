"""When things are due in a run, how long it takes, and which part of it takes the time."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

DEFAULT_TIMES = 10  # evaluations and checkpoints in a run, if the config does not say how often
LOG_SECONDS = 0.5  # between two lines of progress
SPARE_SECONDS, SPARE_SHARE = 15.0, 0.005  # between two checkpoints by the clock, and of the time that they may take
PARTS = ("env", "policy", "learner", "gpu", "waiting", "evaluation")  # "gpu": the host waits for the learner's device


class RunCounts(NamedTuple):
    """How many steps and episodes a run has made."""

    steps: int
    episodes: int


class Interval:
    """Due after every so many steps or episodes.

    >>> interval = Interval(steps=None, episodes=10)
    >>> interval.passed(RunCounts(0, 8), RunCounts(500, 10)), interval.passed(RunCounts(500, 10), RunCounts(900, 19))
    (True, False)
    """

    def __init__(self, steps: int | None, episodes: int | None) -> None:
        self._steps, self._episodes = steps, episodes

    @classmethod
    def with_default(
        cls, steps: int | None, episodes: int | None, total_steps: int | None, total_episodes: int | None
    ) -> Interval:
        """As the config says; if it says nothing, ten times in a run, whose length is in steps, in episodes or both."""
        if steps is None and episodes is None:
            steps, episodes = (_tenth(length) for length in (total_steps, total_episodes))
        return cls(steps, episodes)

    def passed(self, before: RunCounts, now: RunCounts) -> bool:
        """Whether it has become due between two counts."""
        pairs = ((self._steps, before.steps, now.steps), (self._episodes, before.episodes, now.episodes))
        return any(every is not None and late // every > early // every for every, early, late in pairs)

    @property
    def counts_episodes(self) -> bool:
        """Whether it can become due by episodes."""
        return self._episodes is not None

    def steps_left(self, steps: int) -> float:
        """How many steps until it is due again; infinity if it counts episodes."""
        return math.inf if self._steps is None else self._steps - steps % self._steps


class SpareSaves:
    """When a checkpoint is due by the clock, besides those that are due by counts: no update should be further from one
    than what can be trained again in a few seconds. They take a small share of the time, whatever one of them takes.

    >>> spare = SpareSaves(now=0.0)
    >>> spare.due(14.0), spare.due(16.0)
    (False, True)
    >>> spare.saved(now=16.0, seconds=1.0)
    >>> spare.due(100.0), spare.due(217.0)
    (False, True)
    """

    def __init__(self, now: float) -> None:
        self._next = now + SPARE_SECONDS

    def due(self, now: float) -> bool:
        return now >= self._next

    def saved(self, now: float, seconds: float) -> None:
        """A checkpoint, of either kind, was saved."""
        self._next = now + max(SPARE_SECONDS, seconds / SPARE_SHARE)


def _tenth(length: int | None) -> int | None:
    return None if length is None else max(1, length // DEFAULT_TIMES)


class _Mark(NamedTuple):
    """Where a run was, after so many seconds of training."""

    seconds: float
    counts: RunCounts


class RunClock:
    """How long a run has taken, over all the times it was resumed, and how fast it is.

    Speeds are those of training: they leave out evaluations, and the first round (steps, then an update), in which
    everything is compiled that was not compiled on this machine before.
    """

    def __init__(self) -> None:
        self.seconds_before = 0.0  # it was resumed
        self.evaluation_seconds = 0.0
        self._started = time.perf_counter()
        self._ended: float | None = None
        self._start = self._logged = _Mark(0.0, RunCounts(0, 0))
        self._first_round: _Mark | None = None
        self._steady_since: tuple[float, float] | None = None  # time and share of the run, at the first log

    def start(self, counts: RunCounts) -> None:
        """The loop begins here, after so many steps and episodes."""
        self._started, self.evaluation_seconds = time.perf_counter(), 0.0
        self._start = self._logged = _Mark(0.0, counts)
        self._first_round = self._steady_since = self._ended = None

    def end_round(self, counts: RunCounts) -> None:
        """Steps were made and learned from."""
        if self._first_round is None:
            self._first_round = _Mark(self._training_seconds, counts)

    def leave_out(self, seconds: float) -> None:
        """So many seconds were spent on an evaluation."""
        self.evaluation_seconds += seconds

    def end(self) -> None:
        """The loop ends here: pictures and reports are made in other seconds than its own."""
        self._ended = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds the run has taken in all."""
        return self.seconds_before + time.perf_counter() - self._started

    @property
    def _training_seconds(self) -> float:
        """Of this process's loop, without evaluations."""
        now = time.perf_counter() if self._ended is None else self._ended
        return now - self._started - self.evaluation_seconds

    def steps_per_second(self, steps: int) -> float:
        """Of training, since the first round; if there was no other, with it."""
        since = self._first_round
        if since is None or steps <= since.counts.steps:
            since = self._start
        return (steps - since.counts.steps) / max(self._training_seconds - since.seconds, 1e-9)

    def start_seconds(self, steps: int) -> float:
        """By how much the first round took longer than its steps would take now; 0 if there was no other."""
        first = self._first_round
        if first is None or steps <= first.counts.steps:
            return 0.0
        usual = (first.counts.steps - self._start.counts.steps) / self.steps_per_second(steps)
        return max(0.0, first.seconds - usual)

    def seconds_left(self, share: float) -> float | None:
        """Until the end of the run, at the speed since the first call, for which it is None: the steps before that
        call may have waited for a compiler."""
        if self._steady_since is None:
            self._steady_since = time.perf_counter(), share
        since, first_share = self._steady_since
        done = share - first_share
        return (time.perf_counter() - since) * max(0.0, 1.0 - share) / done if done > 0 else None

    @property
    def log_due(self) -> bool:
        return self._training_seconds - self._logged.seconds > LOG_SECONDS

    def logged_at(self, steps: int) -> bool:
        """Whether these steps were logged already."""
        return steps <= self._logged.counts.steps

    def log(self, counts: RunCounts) -> dict[str, float | None]:
        """Steps and episodes per second since the last call, None if only the first round was made since, and the
        seconds of the run in all."""
        now, since = _Mark(self._training_seconds, counts), self._logged
        if self._first_round is not None and self._first_round.seconds > since.seconds:
            since = self._first_round
        self._logged = now
        seconds, known = max(now.seconds - since.seconds, 1e-9), counts.steps > since.counts.steps
        return {
            "steps_per_second": (counts.steps - since.counts.steps) / seconds if known else None,
            "episodes_per_second": (counts.episodes - since.counts.episodes) / seconds if known else None,
            "seconds": self.elapsed,
        }


class Stopwatch:
    """Adds up seconds by part; `lap()` calls are cheap enough for every step (0.1 us)."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._since = self._shown = time.perf_counter()

    def start(self) -> None:
        """The next `lap` counts from here."""
        self._since = time.perf_counter()

    def lap(self, part: str) -> None:
        """The time since the last `start` or `lap` was spent on this part."""
        now = time.perf_counter()
        self.seconds[part] += now - self._since
        self._since = now

    def add(self, part: str, seconds: float) -> None:
        """So many seconds were spent on this part, by another clock."""
        self.seconds[part] += seconds

    def shares(self) -> dict[str, float]:
        """The parts' shares of the time since the last call."""
        now = time.perf_counter()
        total = max(now - self._shown, 1e-9)
        shares = {f"time/{part}": seconds / total for part, seconds in self.seconds.items()}
        shares["time/other"] = max(0.0, 1.0 - sum(shares.values()))
        self.seconds, self._shown = dict.fromkeys(PARTS, 0.0), now
        return shares
