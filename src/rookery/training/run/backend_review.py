"""A second look at the backend that was chosen before the run: the first rollouts tell what the choice could not know,
such as the time of the policy, other programs on the machine, or steps that become slower later in an episode.

Numbers do not depend on the backend, so it may change at any time, and the clock may decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rookery.engine.autotune import ENV_OVERHEAD, Choice, process_rate
from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.errors import StateError

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
        probe = self.choice.probe
        assert probe is not None
        policy = now.policy / now.steps
        if self.choice.backend == "process":
            return now.seconds / now.steps > 0.9 * (probe.step_seconds + ENV_OVERHEAD + policy)
        here = replace(probe, step_seconds=max(0.0, now.seconds / now.steps - policy))
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
