"""How a run's envs are stepped changes while it trains: on which backend, and how many there are.

With `num_envs = "adaptive"`, the number of envs follows the measured throughput. It doubles while that is faster, and
returns to the best number when it is not; after a while it tries again. Each change is recorded with its step, and a
resumed run makes the same changes at the same steps before it measures again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rookery.engine.autotune import ENV_OVERHEAD, Choice, process_rate
from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.errors import StateError
from rookery.files import open_to_append, read_plain
from rookery.training.run.outputs import RunOutputs
from rookery.training.run.training_state import TrainingState

WINDOW = 2.0  # seconds over which a rate is measured, after as long to settle
MIN_GAIN = 1.05  # more envs must be this much faster
RETRY_AFTER = 30  # windows
MAX_LOG_BYTES = 16 << 20


class Adaptation:
    """What is changed about the envs of a run between two rollouts; in most runs nothing."""

    def __init__(self, review: BackendReview | None, adaptive: AdaptiveNumEnvs | None) -> None:
        self._review, self._adaptive = review, adaptive

    def add_rollout(self, steps: int, seconds: float, policy: float) -> None:
        """So many steps were made in so many seconds, of which the policy took some."""
        if self._review is not None:
            self._review.add(steps, seconds, policy)

    def adapt(self, state: TrainingState, outputs: RunOutputs) -> None:
        """Change what is faster otherwise."""
        if self._review is not None:
            self._review_backend(self._review, state, outputs)
        if self._adaptive is not None:
            self._adapt_number(self._adaptive, state, outputs)

    @staticmethod
    def _review_backend(review: BackendReview, state: TrainingState, outputs: RunOutputs) -> None:
        """Step the envs on another backend if that is faster. No number depends on it."""
        backend, collector = review.wanted(), state.collector
        changed = None if backend is None else review.change(state.engine, backend)
        if changed is not None:
            engine, observations = changed
            state.restarts_before += state.engine.restarts
            masks = collector.masks
            collector.use(engine)
            collector.begin(observations, {} if masks is None else {"action_mask": masks})
        if review.note:
            outputs.note(review.note)
            review.note = ""

    @staticmethod
    def _adapt_number(adaptive: AdaptiveNumEnvs, state: TrainingState, outputs: RunOutputs) -> None:
        """Change the number of envs to what is fastest."""
        now, learner = state.envs.num_envs, state.learner
        wanted = adaptive.wanted(state.steps, now)
        if wanted == now or not learner.can_resize:
            return
        outputs.event("note", text=f"{now} envs -> {wanted}: {adaptive.reason}", num_envs=wanted)
        state.collector.resize(wanted, seed=state.config.seed + state.steps)
        learner.resize(wanted)


class AdaptiveNumEnvs:
    """Decides how many envs there should be."""

    def __init__(self, most: int, log: Path | None = None, after: int = -1) -> None:
        self.most, self.log, self.reason = most, log, ""
        self._recorded = [entry for entry in _read(log) if entry[0] > after and 1 <= entry[1] <= most]
        self._rates: dict[int, float] = {}
        self._windows_to_wait = 0
        self._mark: tuple[float, int] | None = None
        self._settled = False

    def wanted(self, steps: int, num_envs: int) -> int:
        """How many envs to have from here on."""
        if self._recorded:
            return self._next_recorded(steps, num_envs)
        now = time.perf_counter()
        if self._mark is None:
            self._mark = now, steps
        elif now - self._mark[0] >= WINDOW:
            rate = (steps - self._mark[1]) / (now - self._mark[0])
            self._mark = now, steps
            if not self._settled:  # the first window after a change holds the change itself
                self._settled = True
                return num_envs
            return self._change(steps, num_envs, self._next(num_envs, rate))
        return num_envs

    def _next_recorded(self, steps: int, num_envs: int) -> int:
        step, envs = self._recorded[0]
        if steps < step:
            return num_envs
        self._recorded.pop(0)
        self.reason = "as this run did before"
        return envs

    def _next(self, num_envs: int, rate: float) -> int:
        self._rates[num_envs] = rate
        best = max(self._rates, key=lambda n: self._rates[n])
        larger = min(2 * num_envs, self.most)
        fewer = [n for n in self._rates if n < num_envs]
        if fewer and rate < MIN_GAIN * max(self._rates[n] for n in fewer):
            best = max(fewer, key=lambda n: self._rates[n])
            self.reason = f"{num_envs} envs make {rate:,.0f} steps/s, {best} made {self._rates[best]:,.0f}"
            self._windows_to_wait = RETRY_AFTER
            return best
        if self._windows_to_wait:
            self._windows_to_wait -= 1
            if not self._windows_to_wait:
                self._rates = {num_envs: rate}
            return num_envs
        self.reason = f"{num_envs} envs make {rate:,.0f} steps/s; trying more"
        return larger

    def _change(self, steps: int, num_envs: int, wanted: int) -> int:
        if wanted != num_envs:
            self._settled = False
            if self.log is not None:
                with os.fdopen(open_to_append(self.log), "a") as file:
                    file.write(json.dumps([steps, wanted]) + "\n")
        return wanted


def _read(log: Path | None) -> list[tuple[int, int]]:
    """Recorded changes; an incomplete last line is ignored."""
    entries: list[tuple[int, int]] = []
    for line in read_plain(log, MAX_LOG_BYTES).splitlines() if log is not None and log.exists() else []:
        try:
            step, envs = json.loads(line)
            entries.append((int(step), int(envs)))
        except (ValueError, TypeError, OverflowError, RecursionError):
            break
    return entries


SECONDS = 2.0  # of rollouts that are looked at
CLEARLY = 1.3  # how much faster processes should be expected to be before they are started
AT_LEAST = 1.05  # how much faster the other backend must be to be kept


@dataclass
class Measured:
    """Steps that were made, and in how many seconds; how many of them the policy took."""

    steps: int = 0
    seconds: float = 0.0
    policy: float = 0.0

    @property
    def rate(self) -> float:
        return self.steps / max(self.seconds, 1e-9)


class BackendReview:
    """Watches rollouts, tries the other backend once if it should be faster, and keeps the faster one."""

    def __init__(self, choice: Choice, make_engine: Callable[[str], Engine], cores: int | None = None) -> None:
        """`make_engine` makes the run's engine on another backend, and has it closed in the end."""
        self.choice, self._make_engine = choice, make_engine
        self.cores = usable_cores() if cores is None else cores
        self.done = False
        self.note = ""  # on the latest decision, for the user
        self._first: Measured | None = None  # of the backend that was chosen, once the other one is tried
        self._now: Measured | None = None  # None until the first rollout is over, which compiles and fills caches

    def add(self, steps: int, seconds: float, policy: float) -> None:
        """A rollout is over: so many steps in so many seconds, of which the policy took some."""
        if self._now is None:
            self._now = Measured()
            return
        now = self._now
        now.steps, now.seconds, now.policy = now.steps + steps, now.seconds + seconds, now.policy + policy

    def wanted(self) -> str | None:
        """The backend to change to; None to stay."""
        now, chosen = self._now, self.choice.backend
        if self.done or now is None or now.seconds < SECONDS:
            return None
        other = "serial" if chosen == "process" else "process"
        if self._first is None:
            if not self._looks_slow(now):
                self.done = True
                return None
            self._first, self._now = now, None
            return other
        self.done = True
        stays = now.rate >= AT_LEAST * self._first.rate
        self.note = (
            f"backend {chosen!r} made {self._first.rate:,.0f} steps/s here and {other!r} {now.rate:,.0f}: "
            f"the run continues with {other if stays else chosen!r}"
        )
        return None if stays else chosen

    def _looks_slow(self, now: Measured) -> bool:
        """Whether the other backend should be faster, from what a step and the policy take here."""
        cost = self.choice.cost
        assert cost is not None
        policy = now.policy / now.steps
        if self.choice.backend == "process":
            return now.seconds / now.steps > 0.9 * (cost.step_seconds + ENV_OVERHEAD + policy)
        here = replace(cost, step_seconds=max(0.0, now.seconds / now.steps - policy))
        envs, workers = self.choice.num_envs, min(self.cores, self.choice.num_envs)
        expected = process_rate(here, envs, workers, self.cores, policy * envs)
        return self.cores > 1 and expected > CLEARLY * now.rate

    def change(self, engine: Engine, backend: str) -> tuple[Engine, Any] | None:
        """The run's envs on another backend, and their observations; None if they cannot be copied."""
        try:
            state = engine.state_dict()
            changed = self._make_engine(backend)
        except (StateError, OSError) as error:
            self.done = True
            self.note = (
                f"backend {engine.backend!r} is slow here, and the envs of a run cannot be moved to {backend!r} "
                f"({error}): try --backend {backend}"
            )
            return None
        changed.reset(seed=[0] * changed.num_envs)  # an env must be reset once, whatever state it gets then
        observations = changed.load_state_dict(state)
        changed.on_note = engine.on_note
        engine.close()
        return changed, observations
