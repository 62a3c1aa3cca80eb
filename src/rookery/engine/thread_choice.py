"""Whether a round of a kernel world is shared out among threads: found out by trying, then done so."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from rookery.kernel.runner import Runner

SHORTEST = 10e-6  # seconds on one thread below which a round is not worth sharing
LONG = 50e-6  # and above which it is worth waking others that sleep; they do after a pause of about 100 us
PAUSE = 100e-6
TRIAL_ROUNDS = 16  # alone and with all threads, in turns; the quickest of each decides
WORTH_IT = 0.95  # of the time on one thread


class Sharing:
    """Steps all envs of a runner's arena, on one thread or on several."""

    def __init__(self, runner: Runner, threads: int) -> None:
        self._runner, self._threads = runner, threads
        self.alone = threads == 1  # decided: one thread
        self._team: Any = None
        self._trials: tuple[list[float], list[float]] = [], []  # of rounds alone, and with the team
        self._alone_takes = self._last_end = 0.0

    def step(self) -> int:
        """One round; does nothing if any action is bad."""
        runner = self._runner
        runner.tick()
        start = perf_counter()
        together = self._team is not None and self._is_worth_it(start - self._last_end)
        outcome = self._step_together() if together else runner.step(0, runner.arena.num_envs)
        self._last_end = end = perf_counter()
        if not self._alone_takes:
            self._consider(end - start, together)
        return outcome

    def _step_together(self) -> int:
        runner, size = self._runner, self._runner.arena.num_envs
        return runner.check(0, size) or self._team.run(*runner.addresses, size)

    def _is_worth_it(self, pause: float) -> bool:
        if not self._alone_takes:  # still trying, in turns
            return len(self._trials[1]) < len(self._trials[0])
        return self._alone_takes > LONG or pause < PAUSE

    def share(self) -> None:
        """Decide for several threads, without a trial."""
        self._gather()
        self._alone_takes = 2 * LONG

    def _gather(self) -> None:
        from rookery.kernel.thread_team import ThreadTeam

        self._team = ThreadTeam(self._threads)

    def close(self) -> None:
        """Let the threads go."""
        if self._team is not None:
            self._team.close()
            self._team = None

    def _consider(self, seconds: float, together: bool) -> None:
        """A few rounds alone; if they are long enough, more of them, in turns with rounds of the whole team."""
        alone, team = self._trials
        (team if together else alone).append(seconds)
        if self._team is None and len(alone) == 3:
            if min(alone) > SHORTEST:
                self._gather()
            else:
                self._decide(alone=True)
        elif len(team) == TRIAL_ROUNDS:
            self._decide(alone=min(team) > WORTH_IT * min(alone))

    def _decide(self, alone: bool) -> None:
        self._alone_takes, self.alone = min(self._trials[0]), alone
        if alone:
            self.close()
