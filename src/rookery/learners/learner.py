"""What training asks of a learner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.learners.agent import Agent, Policy
from rookery.learners.options import Options

Tree = dict[str, Any]  # nested dicts of NumPy arrays and plain values, as a checkpoint holds
Finals = tuple[np.ndarray, list[Any]]  # of episodes that ended: their places in an answer, their last observations


class StepBatch(NamedTuple):
    """What envs answer to their actions. Those whose episode ended show the next one's first observation."""

    observations: Any
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    finals: Finals | None = None
    mask: np.ndarray | None = None  # what may be done next, as `explore` will be told too


class Learner(ABC):
    """Chooses actions for envs it never sees, takes in what came of them, and learns when it has enough.

    Training calls, for all envs or for one group of them (`rows`) at a time:
    `explore(observations, rows)` -> actions, then `record(rows, answer)`, and `update()` whenever `ready()`.
    Off-policy learners may be updated between the two, while envs are being stepped.
    """

    on_policy: bool
    options: Options
    progress: float = 0.0  # how much of the run is done, from 0 to 1: schedules follow it
    updates: int = 0  # how many there were

    def __init__(
        self,
        policy: Policy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: Options,
        num_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self.policy, self.leaves, self.options = policy, policy.leaves, options
        self.agent = Agent(policy, observation_space, action_space, device)
        self.num_envs, self.device = num_envs, device
        self.generator = torch.Generator(device).manual_seed(seed)

    @property
    def steps_until_update(self) -> int:
        """How many steps each env can make before training should look up."""
        return 64

    @property
    def steps_since_update(self) -> int:
        """Steps that have been recorded and will be forgotten after the next update (on-policy learners)."""
        return 0

    @property
    def can_resize(self) -> bool:
        """Whether `resize` would lose nothing now."""
        return True

    @property
    def learning_rate(self) -> float:
        """As its schedule has it now."""
        return scheduled(self.options.learning_rate, self.options.learning_rate_schedule, self.progress)

    @property
    def adjustable(self) -> frozenset[str]:
        """The options that `adjust` can change."""
        return self.options.adjustable

    def adjust(self, changes: Mapping[str, Any]) -> None:
        """Give options other values from now on, between two rounds of steps. Options that keep their values may be
        named too, so that a run's own options undo whatever was changed before.

        Raises:
            OptionError: A name is unknown, a value cannot work, or the option decides what was built at the start.
        """
        before, self.options = self.options, self.options.adjusted(changes)
        if self.options.threads not in (None, before.threads):
            torch.set_num_threads(self.options.threads)
        self._options_changed()

    @abstractmethod
    def _options_changed(self) -> None:
        """The options are others than before: pass them on to whoever keeps one."""

    @abstractmethod
    def clear_replay(self) -> None:
        """Forget what was gathered for replay, and all that is unfinished; weights and schedules go on."""

    @property
    @abstractmethod
    def update_rows(self) -> int:
        """How many rows of data go through the nets at once."""

    @abstractmethod
    def explore(self, observations: Any, rows: slice, mask: np.ndarray | None = None) -> np.ndarray:
        """Actions for the envs in `rows`, as the envs want them."""

    @abstractmethod
    def record(self, rows: slice, answer: StepBatch) -> None:
        """What the envs in `rows` answered to the actions of the last `explore`."""

    @abstractmethod
    def reset_envs(self, rows: slice) -> None:
        """The envs in `rows` were reset from outside, in the middle of their episodes: what is unfinished is void."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether an update is due."""

    @abstractmethod
    def update(self) -> dict[str, float]:
        """Learn; returns metrics to be shown."""

    @abstractmethod
    def workload(self) -> Callable[[], None]:
        """The heaviest thing an update does, without effect, to find the best number of threads with."""

    @abstractmethod
    def resize(self, num_envs: int) -> None:
        """The number of envs has changed, between two updates."""

    @abstractmethod
    def state(self, replay: bool = True) -> Tree:
        """Everything needed to go on exactly from here; `replay=False` leaves a replay buffer out."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Go on from `state()`."""


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """First weights follow from a seed, and the caller's own random numbers are left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def module_state(module: nn.Module) -> dict[str, np.ndarray]:
    """Weights and buffers as arrays."""
    return {name: value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_module(module: nn.Module, state: dict[str, np.ndarray]) -> None:
    """Weights and buffers, in place."""
    module.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in state.items()})


def generator_state(generator: torch.Generator) -> np.ndarray:
    """Where a stream of random numbers stands."""
    return generator.get_state().numpy().copy()


def load_generator(generator: torch.Generator, state: np.ndarray) -> None:
    """Go on with a stream of random numbers."""
    generator.set_state(torch.from_numpy(np.array(state)))


def scheduled(value: float, schedule: str, progress: float) -> float:
    """
    >>> scheduled(0.2, "linear", 0.75), scheduled(0.2, "constant", 0.75)
    (0.05, 0.2)
    """
    return value * (1.0 - min(progress, 1.0)) if schedule == "linear" else value


def means(metrics: dict[str, list[Tensor]]) -> dict[str, float]:
    """Averages of metrics that were gathered without waiting for them."""
    return {name: float(torch.stack(values).mean()) for name, values in metrics.items() if values}
