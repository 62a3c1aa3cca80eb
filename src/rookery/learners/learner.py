"""What training requires of a learner.

A learner is an algorithm (`algorithms/`: networks, acting, targets, losses, the gradient step) with an execution
(`execution/`: where its rollout or replay lies, what is due, how many processes or what device compute it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import CheckpointError, UsageError
from rookery.foreign_names import PYTHON
from rookery.lazy import load_object
from rookery.learners.accelerator import Accelerator
from rookery.learners.agent import Agent
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner_spec import Options
from rookery.learners.normalize import ReturnScale
from rookery.learners.policy import Policy
from rookery.learners.schedules import scheduled

Tree = dict[str, Any]  # nested dicts of NumPy arrays and plain values, as a checkpoint holds
Finals = tuple[np.ndarray, list[Any]]  # of episodes that ended: their rows in a batch, their last observations
CHOOSE = "rookery.learners.execution.choose:execute"  # by name, as the registry's: executions import this module


class TensorFinals:
    """The last observations of episodes that ended, where envs return tensors: nothing is selected, as that would wait
    for the device."""

    def __init__(self, ended: Tensor | Callable[[], Tensor], observations: Any) -> None:
        """`ended` is [rows], bool, or a function that computes it: on a GPU that takes as long as a step of some
        worlds. `observations` are of all rows, undefined where no episode ended."""
        self._ended, self.observations = ended, observations

    @property
    def ended(self) -> Tensor:
        """Where an episode ended, [rows], bool."""
        return self._ended if isinstance(self._ended, Tensor) else self._ended()


class StepBatch(NamedTuple):
    """What a step of some envs returned: arrays, or tensors on the learner's device. Where an episode ended,
    `observations` has the next episode's first one."""

    observations: Any
    rewards: Any
    terminated: Any
    truncated: Any
    finals: Any = None  # of episodes that ended: `Finals` of arrays, `TensorFinals` of tensors
    mask: Any = None  # the actions allowed next, as `explore` gets them


class Learner:
    """Chooses actions for envs it never sees, records their results, and learns when it has enough of them.

    Training calls, for all envs or for one group of them (`rows`) at a time:
    `explore(observations, rows)` -> actions, then `record(rows, step)`, and `update()` whenever `ready()`.
    Off-policy learners may be updated between the two, while the envs step.

    An algorithm is a subclass with `networks` and what its kind of execution calls: see `execution/rollout_host.py` and
    `execution/replay_host.py`. What a learner does not have itself is its execution's: `learner.rollout`,
    `learner.replay`.
    """

    on_policy: bool
    options: Any
    policy: Any
    execution: Any
    weights: tuple[str, ...] = ("policy", "scale")  # the parts of `state()` that hold weights and normalisers
    progress: float = 0.0  # how much of the run is done, from 0 to 1, for schedules
    updates: int = 0  # made so far
    processes: int = 1  # that train together, each with as many envs as this one
    rank: int = 0  # of this process among them

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse `PPO("MlpPolicy", env)` of Stable-Baselines3."""
        if (args and isinstance(args[0], (str, type))) or "policy" in kwargs or "env" in kwargs:
            raise UsageError(f"rookery.{cls.__name__} is the algorithm alone; {PYTHON['learn']}")
        return super().__new__(cls)

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: Options,
        num_envs: int,
        seed: int = 0,
        device: torch.device | str = "cpu",
        *,
        execution: Callable[[Learner], Any] | None = None,
    ) -> None:
        """`execution` makes another one than that which fits the device: see `execution.choose`."""
        self.options, self.num_envs, self.device = options, num_envs, torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        with seeded(seed):
            self.policy = self.networks(observation_space, action_space)
        self.leaves = self.policy.leaves
        self.agent = Agent(self.policy, observation_space, action_space, self.device)
        limit = getattr(options, "value_limit", None)
        self.scale = ReturnScale(num_envs, options.gamma, limit).to(self.device) if options.normalise_rewards else None
        self._accelerator = Accelerator(self)
        load_object(CHOOSE)(self, execution)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "execution" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.execution, name)

    def networks(self, observation_space: spaces.Space, action_space: spaces.Space) -> Policy:
        """Make the policy on `self.device`, and all other networks and optimizers. Called once, with the seed set."""
        raise NotImplementedError

    def parts(self) -> dict[str, Any]:
        """What is trained beside the policy's own weights: tensors and optimizers by name, as they are saved."""
        return {}

    def optimizer(self, parameters: Iterable[nn.Parameter], eps: float = 1e-8) -> FlatAdam:
        """Adam over some parameters, which move into one vector."""
        return FlatAdam(parameters, self.options.learning_rate, eps, compiled=self.options.accelerate)

    @property
    def has_images(self) -> bool:
        """Whether the encoder has parameters: for images, or as a network of the user's own."""
        return self.policy.encoder.is_trained

    @property
    def accelerator(self) -> Accelerator:
        """Faster code for some of the methods of this learner, which it replaces."""
        return self._accelerator

    @accelerator.setter
    def accelerator(self, accelerator: Accelerator) -> None:
        for name in self._accelerator.replaces:
            self.__dict__.pop(name, None)
        self._accelerator = accelerator
        for name in accelerator.replaces:
            if hasattr(accelerator, name):
                self.__dict__[name] = getattr(accelerator, name)

    # --- collecting and updating ------------------------------------------------------------------------------------

    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        """Actions for the envs in `rows`, in the env's own action space: an array, or a tensor for observations that
        are tensors."""
        return self.execution.explore(observations, rows, mask)

    def record(self, rows: slice, step: StepBatch) -> None:
        """What the envs in `rows` returned for the actions of the last `explore`."""
        self.execution.record(rows, step)

    def reset_envs(self, rows: slice) -> None:
        """The envs in `rows` were reset from outside, in the middle of their episodes: discard unfinished data."""
        self.execution.reset_envs(rows)

    def ready(self) -> bool:
        """Whether an update is due."""
        return self.execution.ready()

    def update(self) -> dict[str, float]:
        """Learn; returns metrics."""
        return self.execution.update()

    @property
    def update_rows(self) -> int:
        """How many rows of data a gradient step has."""
        return self.execution.update_rows

    def workload(self) -> Callable[[], None]:
        """The most expensive part of an update, without effect, for measuring the best number of threads."""
        return self.accelerator.workload() or self.execution.workload()

    # --- what training needs to know --------------------------------------------------------------------------------

    @property
    def steps_until_update(self) -> int:
        """How many steps each env can make before training should check `ready`."""
        return self.execution.steps_until_update

    @property
    def steps_since_update(self) -> int:
        """Recorded steps that the next update will use and discard (on-policy learners)."""
        return self.execution.steps_since_update

    @property
    def bytes_to_fill(self) -> int:
        """Memory of this process that is reserved now and filled in the course of a run."""
        return self.execution.bytes_to_fill

    @property
    def can_resize(self) -> bool:
        """Whether `resize` would lose nothing now."""
        return self.execution.can_resize

    @property
    def learning_rate(self) -> float:
        """Its present value by the schedule."""
        return scheduled(self.options.learning_rate, self.options.learning_rate_schedule, self.progress)

    def scaled_rewards(self, rewards: Tensor) -> Tensor:
        """Rewards by the present scale, so that old and new transitions agree."""
        return rewards if self.scale is None else self.scale.scale(rewards)

    # --- changes during a run ---------------------------------------------------------------------------------------

    @property
    def adjustable(self) -> frozenset[str]:
        """The options that `adjust` can change."""
        return self.options.adjustable

    def adjust(self, changes: Mapping[str, Any]) -> None:
        """Change options from now on, between two rounds of steps. Unchanged values may be named too, so that a run's
        own options undo earlier changes.

        Raises:
            OptionError: A name is unknown, a value is invalid, or the option is fixed at the start.
        """
        before, self.options = self.options, self.options.adjusted(changes)
        if self.options.threads not in (None, before.threads):
            self.use_threads(self.options.threads)
        if self.scale is not None:
            self.scale.gamma = self.options.gamma
        self.options_changed()
        self.execution.options_changed()

    def options_changed(self) -> None:
        """Pass changed options on to the parts that hold a copy of one."""

    def use_threads(self, threads: int) -> None:
        """Compute on so many threads of this CPU: an accelerator's own, or else torch's."""
        torch.set_num_threads(1 if self.accelerator.use_threads(threads) else threads)

    def clear_replay(self) -> None:
        """Discard the replay buffer and all unfinished data; weights and schedules stay."""
        self.execution.clear_replay()

    def resize(self, num_envs: int) -> None:
        """The number of envs has changed, between two updates."""
        self.execution.check_size(num_envs)
        self.num_envs = num_envs
        if self.scale is not None:
            self.scale.resize(num_envs)
        self.execution.resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, replay: bool = True) -> Tree:
        """Everything needed to continue exactly from here; `replay=False` omits a replay buffer."""
        self.accelerator.flush()
        return {
            "policy": module_state(self.policy),
            "scale": module_state(self.scale) if self.scale is not None else {},
            "generator": generator_state(self.generator),
            "updates": self.updates,
            **_saved(self.parts()),
            **self.execution.state(replay),
        }

    def load(self, state: Tree | None = None) -> None:
        """Continue from `state()`."""
        if state is None:  # Stable-Baselines3's `PPO.load(path)`
            raise UsageError(PYTHON["load"])
        state = self.execution.accept(state)
        load_module(self.policy, state["policy"])
        if self.scale is not None:
            load_module(self.scale, state["scale"])
        load_generator(self.generator, state["generator"])
        self.updates = state["updates"]
        self.accelerator.invalidate()
        _load(self.parts(), state)
        self.execution.load(state)

    def load_weights(self, state: Tree) -> None:
        """Begin with the weights and normalisers of another run's `state()`. Optimizer, counters and buffers are new.

        Raises:
            CheckpointError: It lacks some weights, or they have other shapes.
        """
        fresh = self.state(replay=False)
        self.load({**fresh, **{part: _fitting(fresh[part], state.get(part), part) for part in self.weights}})


def _saved(parts: Mapping[str, Any]) -> Tree:
    """What `Learner.parts` names, as arrays."""
    saved: Tree = {}
    for name, part in parts.items():
        if isinstance(part, Tensor):
            saved[name] = part.detach().cpu().numpy().copy()
        else:
            saved[name] = part.state() if isinstance(part, FlatAdam) else _saved(part)
    return saved


@torch.no_grad()
def _load(parts: Mapping[str, Any], state: Tree) -> None:
    """The same, in place."""
    for name, part in parts.items():
        if isinstance(part, Tensor):
            part.copy_(torch.from_numpy(np.array(state[name])))
        elif isinstance(part, FlatAdam):
            part.load(state[name])
        else:
            _load(part, state[name])


def trained_tensors(parts: Mapping[str, Any]) -> list[Tensor]:
    """All tensors of `Learner.parts`, those of optimizers too."""
    found: list[Tensor] = []
    for part in parts.values():
        if isinstance(part, FlatAdam):
            found += [part.flat.data, *part.moments, part.steps]
        else:
            found += [part.detach()] if isinstance(part, Tensor) else trained_tensors(part)
    return found


def _fitting(own: Any, given: Any, name: str) -> Any:
    """Arrays of another run in the place of a learner's own. Rewards may be normalised in one of the two only, an agent
    has no critics, and what is counted per env stays the learner's own."""
    if name in ("scale", "vectors") and not given:
        return own
    if isinstance(own, dict) and isinstance(given, dict):
        return {key: _fitting(own[key], given.get(key), f"{name}.{key}") for key in own}
    if name == "scale.running":
        return own
    fits = isinstance(given, np.ndarray) and isinstance(own, np.ndarray)
    if not fits or given.shape != own.shape or given.dtype != own.dtype:
        raise CheckpointError(f"the weights {name} are missing there, or have another shape")
    return given


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Initial weights depend on a seed only, and the caller's random state is left unchanged."""
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
    """The state of a random number generator."""
    return generator.get_state().numpy().copy()


def load_generator(generator: torch.Generator, state: np.ndarray) -> None:
    """Continue a random number generator from its state."""
    generator.set_state(torch.from_numpy(np.array(state)))
