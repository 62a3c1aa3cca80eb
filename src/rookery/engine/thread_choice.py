"""Whether a kernel world is stepped on one thread or on several: measured in the first steps, then decided.

Short steps are decided for good. Long ones gain from threads whenever the cores are free, and at first they may not
have been: if one thread seemed better, several are tried again after some steps.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from rookery.kernel.batch_loop import division_of
from rookery.kernel.runner import Runner

SHORTEST = 10e-6  # a step that takes fewer seconds than this on one thread is not divided
LONG = 50e-6  # above this it is worth waking threads that sleep, as they do after a pause of about 100 us
PAUSE = 100e-6
FIRST_STEPS = 3  # on one thread, to see whether they are long enough to be divided
TURN, TRIAL_ROUNDS = 4, 16  # steps on all threads and on one, 4 at a time: threads wake up in the first of a turn
FIRST_RETRY, LAST_RETRY = 256, 16_384  # steps until long steps are tried on several threads again; it doubles
WORTH_IT = 0.95  # several threads must take at most this share of the time on one thread


class ThreadChoice:
    """Steps all envs of a runner, on one thread or on several."""

    def __init__(self, runner: Runner, threads: int) -> None:
        self._runner, self._threads = runner, threads
        self.single = threads == 1  # decided: one thread
        self._settled = False  # decided: several threads, also if they sleep
        self._team: Any = None
        self._prepared_for: Any = None  # the addresses for which `_run_team` is prepared
        self._run_team: Any = None
        self._trials: tuple[list[float], list[float]] = [], []  # seconds of steps on one thread, and on the team
        self._single_seconds = self._last_end = 0.0
        self._steps_until_retry, self._retry_after = 0, FIRST_RETRY

    def step(self) -> int:
        """Step all envs once; does nothing if any action is invalid."""
        runner = self._runner
        runner.start_batch_step()
        if self.single:
            return runner.step(0, runner.env_arrays.num_envs)
        if self._settled:
            return self._step_with_team()
        start = perf_counter()
        with_team = self._team is not None and self._use_team(start - self._last_end)
        outcome = self._step_with_team() if with_team else runner.step(0, runner.env_arrays.num_envs)
        self._last_end = end = perf_counter()
        if not self._single_seconds:
            self._record_trial(end - start, with_team)
        elif self._team is None:
            self._count_to_retry()
        return outcome

    def _step_with_team(self) -> int:
        addresses = self._runner.addresses
        if addresses is not self._prepared_for:  # a new plan
            self._prepared_for, size = addresses, self._runner.env_arrays.num_envs
            self._run_team = self._team.prepare(*addresses, size)
        return self._run_team()

    def _use_team(self, pause: float) -> bool:
        if not self._single_seconds:  # still measuring, in turns
            done = len(self._trials[0]) + len(self._trials[1]) - FIRST_STEPS
            return done // TURN % 2 == 0
        return pause < PAUSE  # those that sleep are not worth waking for short steps

    def use_threads(self, seconds: float = 0.0) -> None:
        """Decide for several threads, without measuring; `seconds` is how long a step takes on one thread."""
        self._start_team(seconds)
        self._single_seconds, self._settled = max(seconds, 2 * LONG), True

    def _start_team(self, seconds: float) -> None:
        from rookery.kernel.thread_team import ThreadTeam

        arrays = self._runner.env_arrays
        division = division_of(arrays.num_envs, seconds, self._threads, arrays.world.step_parts)
        self._team = ThreadTeam(self._threads, division)

    def close(self) -> None:
        if self._team is not None:
            self._team.close()
            self._team = self._prepared_for = None
            self._settled = False

    def _record_trial(self, seconds: float, with_team: bool) -> None:
        """Measure a few steps on one thread; if they are long enough, more of them, in turns with steps of the team."""
        single, team = self._trials
        (team if with_team else single).append(seconds)
        if self._team is None and len(single) == FIRST_STEPS:
            if min(single) > SHORTEST:
                self._start_team(min(single))
            else:
                self._decide(single=True)
        elif len(team) == TRIAL_ROUNDS:
            self._decide(single=min(team) > WORTH_IT * min(single))

    def _decide(self, single: bool) -> None:
        self._single_seconds = min(self._trials[0])
        self.single, self._settled = single and self._single_seconds < LONG, not single and self._single_seconds > LONG
        if single:
            self.close()
            self._steps_until_retry, self._retry_after = self._retry_after, min(2 * self._retry_after, LAST_RETRY)

    def _count_to_retry(self) -> None:
        self._steps_until_retry -= 1
        if self._steps_until_retry == 0:
            self._trials, self._single_seconds = ([], []), 0.0
