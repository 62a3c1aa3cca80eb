"""How PPO is executed by several processes, which sum their gradients.

All of them draw the same shuffles. Of every minibatch each has a share of the rows, and gradients are summed in the
order of ranks, weighted by the number of rows: the sum is that of one process with all rows, to float tolerance, and
has the same bits everywhere. In a `DataParallel` run each process acts for its own envs. A `Leading` learner has the
whole rollout, and others help it to compute gradients: they keep nothing between two updates, so that one that is lost
is replaced, the update is done again from its beginning, and no number depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.algorithms.ppo import METRICS, PPO
from rookery.learners.execution.ranks import RankLost, Ranks, joined_moments
from rookery.learners.execution.rollout_host import EarlyStop, RolloutHost
from rookery.learners.kernels.gpu.shuffle import sample_order
from rookery.learners.learner import Tree, generator_state, load_generator, load_module, module_state
from rookery.learners.normalize import RunningNorm
from rookery.learners.registry import PPOOptions

Columns = dict[str, Tensor]  # see `Rollout.columns`


class SharedUpdate:
    """One update, in one of the processes. The learner's weights, optimizer, generator, options and schedules must be
    equal in all of them."""

    def __init__(
        self, learner: Any, ranks: Ranks, columns: Columns, advantages: Tensor, own_rows: Callable[[Tensor], Tensor]
    ) -> None:
        """`columns` are what this process has of the rollout, `advantages` [steps, envs] those of all envs: they are
        normalised over complete minibatches. `own_rows` are its rows in the columns, of the samples of a minibatch by
        their numbers among all."""
        self.learner, self.ranks, self._own_rows = learner, ranks, own_rows
        self._tensors, self._axis = learner.rollout.to_shuffle(columns)
        self._advantages = advantages if self._axis else advantages.flatten()
        self._weight = 1.0  # how much of the present minibatch is this process's share

    def learn(self, clip: float | Tensor, minibatches: int, epochs: EarlyStop) -> Tensor:
        """All epochs; returns METRICS."""
        learner = self.learner
        learner.adam.on_gradient = lambda gradient: self.ranks.sum_(gradient.mul_(self._weight))
        try:
            for _ in range(learner.options.epochs):
                learner.adam.stop = epochs.stop
                for share in self._minibatches(minibatches):
                    latest = learner.gradient_step(share, clip, False) if self._weight else self._step_without_rows()
                if epochs.ends_with(self.ranks.sum_(latest * self._weight)):
                    break
        finally:
            learner.adam.on_gradient = None
        return epochs.metrics()

    def _minibatches(self, count: int) -> Iterator[Columns]:
        """This process's share of each, with advantages that are normalised if they are to be."""
        axis, device = self._axis, self.learner.device
        total = self._advantages.shape[axis]
        order = sample_order(total, self.learner.generator)
        for numbers in order.split(-(-total // min(count, total))):
            rows = self._own_rows(numbers)
            self._weight = len(rows) / len(numbers)
            share = {name: value.index_select(axis, rows.to(device)) for name, value in self._tensors.items()}
            if self.learner.options.normalise_advantages:
                of_all = self._advantages.index_select(axis, numbers.to(device))
                share["advantages"] = normalised(share["advantages"], of_all)
            yield share

    def _step_without_rows(self) -> Tensor:
        """In a minibatch of which others have all rows."""
        adam = self.learner.adam
        adam.gradient.zero_()
        adam.step(self.learner.options.max_grad_norm)
        return torch.zeros(len(METRICS), device=self.learner.device)


def normalised(advantages: Tensor, of_all: Tensor) -> Tensor:
    """A share of a minibatch's advantages, shifted and scaled by the moments of them all."""
    if of_all.numel() < 2:
        return advantages
    return (advantages - of_all.mean()) / (of_all.std() + 1e-8)


# --- every process has envs -------------------------------------------------------------------------------------------


def envs_of_each(num_envs: int, ranks: Ranks) -> int:
    """How many envs each process has, of those of all."""
    if num_envs % ranks.size:
        raise OptionError(f"{num_envs} envs cannot be split over {ranks.size} processes")
    return num_envs // ranks.size


class DataParallel(RolloutHost):
    """The part of a PPO learner that one of several processes has. With the same seed the numbers are those of one
    process with all envs, to float tolerance: noise and shuffles are drawn for all envs everywhere, statistics and
    moments are those of all rows. Between two rollouts `state()` is equal in all of them, and is that of one process
    with all envs."""

    accelerated_by = ("FusedPPO", "CapturedPPO", "CompiledAdvantages")  # they step by `FlatAdam.step`, and wait there
    shares = True

    def __init__(self, learner: Any, ranks: Ranks) -> None:
        self.ranks, learner.processes, learner.rank = ranks, ranks.size, ranks.rank
        super().__init__(learner)
        self._rows = learner.num_envs * ranks.size
        self._all_rows = {
            name: np.zeros((self._rows, *rows.shape[1:]), np.float32) for name, rows in self._per_env().items()
        }
        for part in (learner.policy, learner.scale):
            for norm in part.modules() if part is not None else ():
                if isinstance(norm, RunningNorm):
                    norm.of_all = joined_moments(ranks)

    @property
    def _own(self) -> slice:
        """This process's rows among those of all."""
        return slice(self.ranks.rank * self.learner.num_envs, (self.ranks.rank + 1) * self.learner.num_envs)

    def sample_noise(self) -> Tensor:
        return super().sample_noise()[:, self._own].contiguous()

    def learn(self, clip: float | Tensor) -> Tensor:
        metrics = super().learn(clip)
        self._all_rows = {name: self.ranks.join(rows, 0).cpu().numpy() for name, rows in self._per_env().items()}
        return metrics

    def learn_plainly(self, clip: float | Tensor) -> Tensor:
        """On the rollouts of all processes, of each minibatch a stretch of its rows."""
        columns = self.rollout.columns(self.evaluate_rollout())
        joined = {name: self.ranks.join(value, 1) for name, value in columns.items()}
        update = SharedUpdate(self.learner, self.ranks, joined, joined["advantages"], self._stretch)
        return update.learn(clip, self.minibatches, EarlyStop(self.learner.options.target_kl, self.learner.device))

    def _stretch(self, numbers: Tensor) -> Tensor:
        return numbers[envs_of(self.ranks.rank, self.ranks.size, len(numbers))]

    # --- save and load: rows of all processes -----------------------------------------------------------------------

    def _per_env(self) -> dict[str, Tensor]:
        """What the learner keeps for each env between two rollouts."""
        kept = {"memory": self.memory} if self.learner.policy.memory_size else {}
        return kept if self.learner.scale is None else kept | {"running": self.learner.scale.running}

    def reset_envs(self, rows: slice) -> None:
        super().reset_envs(rows)
        if "memory" in self._all_rows:
            self._all_rows["memory"] = np.zeros_like(self._all_rows["memory"])

    def state(self, replay: bool) -> Tree:
        memory = self._all_rows.get("memory", np.zeros((self._rows, 0), np.float32)).copy()
        state: Tree = {"memory": memory, "rollout": {}, **self.noise.state()}
        if self.learner.scale is not None:
            running = self._all_rows["running"].copy()
            state["scale"] = module_state(self.learner.scale) | {"running": running}
        return state

    def accept(self, state: Tree) -> Tree:
        own = {**state, "memory": state["memory"][self._own], "rollout": {}}
        self._all_rows = {name: np.array(state["memory"]) for name in self._all_rows if name == "memory"}
        if self.learner.scale is not None:
            own["scale"] = {**state["scale"], "running": state["scale"]["running"][self._own]}
            self._all_rows["running"] = np.array(state["scale"]["running"])
        return own


# --- one process leads, others help -----------------------------------------------------------------------------------


class Helpers(Protocol):
    """The other processes."""

    def begin(self, common: Tree, columns: Columns) -> Ranks:
        """Send them an update: what all need, and of the columns [steps, envs, ...] the envs that each has."""

    def end(self) -> None:
        """The update is done."""

    def mend(self, error: RankLost) -> None:
        """One of them is lost: find out which, and let another take its place."""


class Leading(RolloutHost):
    """Until it gets `helpers` it learns alone. With a `twin`, a learner like its own on a GPU, it acts and keeps its
    rollouts on the CPU, and the twin makes its part of the updates."""

    accelerated_by = ("FusedPPO", "CompiledAdvantages")
    helpers: Helpers | None = None
    twin: PPO | None = None

    def learn(self, clip: float | Tensor) -> Tensor:
        if self.helpers is None:
            return super().learn(clip)
        metrics = self._learn_with(self.helpers, clip)
        self.learner.policy.encoder.update_normalisers(self.rollout.flat_leaves())
        return metrics

    def _learn_with(self, helpers: Helpers, clip: float | Tensor) -> Tensor:
        columns = self.rollout.columns(self.evaluate_rollout())
        common = self._common(columns["advantages"], clip)
        while True:
            try:
                ranks = helpers.begin(common, columns)
                own = envs_of(ranks.rank, ranks.size, self.learner.num_envs)
                part = {name: value[:, own] for name, value in columns.items()}
                metrics = self._make_part(ranks, common, part)
                helpers.end()
                return metrics
            except RankLost as error:
                helpers.mend(error)
                begin_update(self.learner, common)

    def _make_part(self, ranks: Ranks, common: Tree, own: Columns) -> Tensor:
        if self.twin is None:
            return _update_of_envs(self.learner, ranks, common, own)
        metrics = help_update(self.twin, ranks, common, {name: value.numpy() for name, value in own.items()})
        load_module(self.learner.policy, module_state(self.twin.policy))
        self.learner.adam.load(self.twin.adam.state())
        load_generator(self.learner.generator, generator_state(self.twin.generator))
        self.learner.accelerator.invalidate()
        return metrics

    def _common(self, advantages: Tensor, clip: float | Tensor) -> Tree:
        """What an update begins with, in every process."""
        learner = self.learner
        return {
            "policy": module_state(learner.policy),
            "adam": learner.adam.state(),
            "generator": generator_state(learner.generator),
            "options": learner.options,
            "numbers": {"learning_rate": learner.adam.learning_rate, "clip": clip, "minibatches": self.minibatches},
            "advantages": advantages.numpy(),
        }


def begin_update(learner: PPO, common: Tree) -> None:
    """Bring a learner to where an update begins."""
    learner.options = common["options"]
    load_module(learner.policy, common["policy"])
    learner.adam.load(common["adam"])
    load_generator(learner.generator, common["generator"])
    learner.adam.learning_rate = common["numbers"]["learning_rate"]
    learner.accelerator.invalidate()


def helping_ppo(spaces: tuple[Any, Any], options: PPOOptions, device: torch.device) -> PPO:
    """A learner that makes updates of another one's rollouts. It draws the shuffles of a CPU wherever it is."""
    learner = PPO(*spaces, options, 1, 0, device, execution=Leading)
    learner.generator = torch.Generator()
    return learner


def help_update(learner: PPO, ranks: Ranks, common: Tree, columns: dict[str, Any]) -> Tensor:
    """An update, in a process that helps, or on the GPU of the one that leads; `columns` are arrays of the envs of its
    rank. Returns METRICS."""
    begin_update(learner, common)
    own = {name: torch.from_numpy(value).to(learner.device) for name, value in columns.items()}
    return _update_of_envs(learner, ranks, common, own)


def _update_of_envs(learner: Any, ranks: Ranks, common: Tree, own: Columns) -> Tensor:
    """An update of which this process has the rows of some envs."""
    advantages, numbers = torch.from_numpy(common["advantages"]).to(learner.device), common["numbers"]
    own_rows = rows_of_envs(learner, ranks, advantages.shape)
    epochs = EarlyStop(learner.options.target_kl, torch.device("cpu"))  # all of them wait, and stop where it stops
    return SharedUpdate(learner, ranks, own, advantages, own_rows).learn(
        numbers["clip"], numbers["minibatches"], epochs
    )


def rows_of_envs(learner: Any, ranks: Ranks, shape: Sequence[int]) -> Callable[[Tensor], Tensor]:
    """From samples of a rollout [steps, envs] to this process's rows of them: it has some of the envs."""
    steps, envs = shape
    # Where it has a sample, by its number among all; -1 of those of others.
    places = torch.full((1 if learner.policy.memory_size else steps, envs), -1)
    own = places[:, envs_of(ranks.rank, ranks.size, envs)]
    own.copy_(torch.arange(own.numel()).reshape(own.shape))
    places = places.flatten()

    def own_rows(numbers: Tensor) -> Tensor:
        found = places[numbers]
        return found[found >= 0]

    return own_rows


def envs_of(rank: int, size: int, envs: int) -> slice:
    """Those whose rows a process has.

    >>> [envs_of(rank, 3, 7) for rank in range(3)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    return slice(rank * envs // size, (rank + 1) * envs // size)
