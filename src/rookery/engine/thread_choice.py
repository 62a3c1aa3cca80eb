"""Whether a kernel world is stepped on one thread or on several: measured in the first steps, then decided."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from rookery.kernel.runner import Runner

SHORTEST = 10e-6  # a step that takes fewer seconds than this on one thread is not divided
LONG = 50e-6  # above this it is worth waking threads that sleep, as they do after a pause of about 100 us
PAUSE = 100e-6
TRIAL_ROUNDS = 16  # steps on one thread and on all, in turns; the fastest of each decides
WORTH_IT = 0.95  # several threads must take at most this share of the time on one thread


class ThreadChoice:
    """Steps all envs of a runner, on one thread or on several."""

    def __init__(self, runner: Runner, threads: int) -> None:
        self._runner, self._threads = runner, threads
        self.single = threads == 1  # decided: one thread
        self._team: Any = None
        self._trials: tuple[list[float], list[float]] = [], []  # seconds of steps on one thread, and on the team
        self._single_seconds = self._last_end = 0.0

    def step(self) -> int:
        """Step all envs once; does nothing if any action is invalid."""
        runner = self._runner
        runner.start_batch_step()
        start = perf_counter()
        with_team = self._team is not None and self._use_team(start - self._last_end)
        outcome = self._step_with_team() if with_team else runner.step(0, runner.env_arrays.num_envs)
        self._last_end = end = perf_counter()
        if not self._single_seconds:
            self._record_trial(end - start, with_team)
        return outcome

    def _step_with_team(self) -> int:
        runner, size = self._runner, self._runner.env_arrays.num_envs
        return runner.check(0, size) or self._team.run(*runner.addresses, size)

    def _use_team(self, pause: float) -> bool:
        if not self._single_seconds:  # still measuring, in turns
            return len(self._trials[1]) < len(self._trials[0])
        return self._single_seconds > LONG or pause < PAUSE

    def use_threads(self) -> None:
        """Decide for several threads, without measuring."""
        self._start_team()
        self._single_seconds = 2 * LONG

    def _start_team(self) -> None:
        from rookery.kernel.thread_team import ThreadTeam

        self._team = ThreadTeam(self._threads)

    def close(self) -> None:
        """Stop the threads."""
        if self._team is not None:
            self._team.close()
            self._team = None

    def _record_trial(self, seconds: float, with_team: bool) -> None:
        """Measure a few steps on one thread; if they are long enough, more of them, in turns with steps of the team."""
        single, team = self._trials
        (team if with_team else single).append(seconds)
        if self._team is None and len(single) == 3:
            if min(single) > SHORTEST:
                self._start_team()
            else:
                self._decide(single=True)
        elif len(team) == TRIAL_ROUNDS:
            self._decide(single=min(team) > WORTH_IT * min(single))

    def _decide(self, single: bool) -> None:
        self._single_seconds, self.single = min(self._trials[0]), single
        if single:
            self.close()
