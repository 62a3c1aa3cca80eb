"""What off-policy learners have in common: they store transitions, and owe a number of updates for every step."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.learners.encoders import Encoder
from rookery.learners.execution.device_n_step import DeviceNStep
from rookery.learners.execution.device_replay import DeviceReplay
from rookery.learners.execution.device_updates import DeviceUpdates
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import Finals, Learner, StepBatch, TensorFinals, Tree, means
from rookery.learners.observations import are_tensors, split, stack
from rookery.learners.policy import Policy
from rookery.learners.replay_buffer import NStepBuffer, ReplayBatch, ReplayBuffer, check_capacity

Metrics = defaultdict[str, list[Tensor]]
SHOW_EVERY = 32  # updates averaged in the metrics: reading them after each one would cost more than 1 % of it


class OffPolicyPolicy(Policy):
    """A policy over an encoder."""

    encoder: Encoder


class OffPolicy(Learner):
    """Learns from the steps of any policy. Each step of an env after the first `start_steps`, or each round of steps,
    adds `updates_per_step` to `updates_due`, and `update()` makes as many: when to learn depends on counts only.

    On a GPU updates are captured. Envs that return tensors step all at once: after `use_tensors()`,
    `record_tensors` may be captured too, and `count_steps` is what is left to do on the host.
    """

    on_policy = False
    takes_tensors = True
    metric_names: tuple[str, ...]  # in the order in which `train_step` adds them
    options: Any  # with the fields of `ReplayOptions`
    policy: OffPolicyPolicy
    adams: list[FlatAdam]

    def __init__(
        self,
        policy: OffPolicyPolicy,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        options: Any,
        action: Tensor,
        num_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        """`action` is an example of one, as it is stored."""
        super().__init__(policy, observation_space, action_space, options, num_envs, seed, device)
        check_capacity(options.buffer_size, num_envs, options.n_step)
        self._action = action
        self.n_step_buffer = NStepBuffer(self.leaves, action, options.n_step, options.gamma, num_envs, device)
        self.rounds: DeviceNStep | None = None  # of tensors, instead of the n-step buffer
        self.keep_step: Callable[[Sequence[Tensor], Tensor], None] | None = None  # takes steps, to store them later
        self.device_updates: DeviceUpdates | None = None
        self.replay: ReplayBuffer
        if device.type == "cpu":
            self.replay = ReplayBuffer(self.leaves, action, options.buffer_size, device)
        else:
            self._use_device()
        self.steps, self.updates_due = 0, 0.0
        self._changes = 0  # of options or of the number of envs
        self.learn_from = options.start_steps
        self.refill = 1  # transitions that must be stored before learning begins
        self.has_images = policy.encoder.is_trained  # or a network of the user's own: the encoder has parameters
        self._metrics: Metrics = defaultdict(list)
        self._shown: dict[str, float] = {}
        self._unshown = 0

    @property
    def bytes_to_fill(self) -> int:
        return self.replay.nbytes if self.device.type == "cpu" else 0

    def _use_device(self) -> None:
        """Keep transitions and counts on the device, and capture updates."""
        self.replay = DeviceReplay(self.leaves, self._action, self.options.buffer_size, self.device)
        self.device_updates = DeviceUpdates(self) if self.options.accelerate else None

    def use_tensors(self) -> None:
        """Envs will return tensors on this learner's device: before the first step, and before `load`."""
        if self.rounds is None:
            if not isinstance(self.replay, DeviceReplay):
                self._use_device()
            options = self.options
            self.rounds = DeviceNStep(
                self.leaves, self._action, options.n_step, options.gamma, self.num_envs, self.device
            )

    # --- collecting -------------------------------------------------------------------------------------------------

    def store_step(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """Observations and actions of the next step, until its results are recorded."""
        if self.rounds is None:
            self.n_step_buffer.store(rows, leaves, actions)
        elif self.keep_step is not None:
            self.keep_step(leaves, actions)
        else:
            self.rounds.store(leaves, actions)

    def to_env(self, observations: Any, actions: Tensor) -> Any:
        """Actions for the env, as tensors where observations are."""
        return self.agent.nested(actions) if are_tensors(observations) else self.agent.as_arrays(actions)

    def record(self, rows: slice, step: StepBatch) -> None:
        if self.rounds is not None:
            self.record_tensors(step)
            self.count_steps()
            return
        rewards, terminated, truncated = step.rewards, step.terminated, step.truncated
        leaves = split(self.leaves, step.observations, self.device)
        self.policy.encoder.update_normalisers(leaves)
        if self.scale is not None:
            self.scale.update_rows(rows, rewards, terminated | truncated)
        complete = self.n_step_buffer.complete(rows, rewards, terminated, truncated)
        if len(complete[0]):
            following = self._next_leaves(leaves, step.finals)
            self._added(self.replay.add(self.n_step_buffer, complete, following, self._next_masks(step)))
        self._count(len(rewards))

    def begin_round(self) -> None:
        """Before `explore` with tensors: bring what depends on counts to the device."""

    @torch.no_grad()
    def record_tensors(self, step: StepBatch) -> None:
        """`record` for tensors of all envs, without anything on the host. It waits for nothing, and can be captured."""
        assert self.rounds is not None and isinstance(self.replay, DeviceReplay)
        leaves, ended = split(self.leaves, step.observations, self.device), step.terminated | step.truncated
        self.policy.encoder.update_normalisers(leaves)
        if self.scale is not None:
            self.scale.update_rows(slice(0, self.num_envs), step.rewards, ended)
        if isinstance(step.finals, TensorFinals):
            lasts = split(self.leaves, step.finals.observations, self.device)
            leaves = [where_rows(step.finals.ended, last, leaf) for last, leaf in zip(lasts, leaves, strict=True)]
        complete = self.rounds.complete(step.rewards, step.terminated, ended, leaves, self._next_masks(step))
        if complete is not None:
            self._written(self.replay.write(complete))

    def count_steps(self) -> None:
        """All envs have made a step that `record_tensors` has recorded."""
        assert self.rounds is not None and isinstance(self.replay, DeviceReplay)
        if self.rounds.completes:
            self.replay.count(self.num_envs)
        self.rounds.count()
        self._count(self.num_envs)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.replay.size >= self.refill:
            self.updates_due += self.options.updates_per_step * self._counted(steps)

    @property
    def round_kind(self) -> tuple[Any, ...]:
        """What a captured round depends on besides tensors: rounds of the same kind do the same."""
        assert self.rounds is not None
        return self.rounds.completes, self.steps < self.options.start_steps, self._changes

    def round_tensors(self) -> list[Tensor]:
        """What a round of tensors changes and reads again, apart from the envs."""
        assert self.rounds is not None and isinstance(self.replay, DeviceReplay)
        scale = [] if self.scale is None else [*self.scale.buffers()]
        return [*self.rounds.tensors, self.replay.places, *self.policy.encoder.buffers(), *scale]

    def _counted(self, steps: int) -> float:
        """How many of the steps just recorded count for `updates_due`."""
        after_start = min(steps, max(0, self.steps - self.learn_from))
        return after_start if self.options.updates_each == "step" else after_start / self.num_envs

    def _next_leaves(self, leaves: list[Tensor], finals: Finals | None) -> list[Tensor]:
        """The observations after each step: where an episode ended, its last one and not the next episode's first."""
        if not finals:
            return leaves
        rows = torch.from_numpy(np.asarray(finals[0], np.int64)).to(self.device)
        lasts = stack(self.leaves, finals[1], self.device)
        return [leaf.index_copy(0, rows, last) for leaf, last in zip(leaves, lasts, strict=True)]

    def _next_masks(self, step: StepBatch) -> Tensor | None:
        """The actions allowed next, if they are stored."""
        return None

    def _added(self, indices: np.ndarray) -> None:
        """There are new transitions in the replay buffer."""

    def _written(self, places: Tensor) -> None:
        """The same for transitions from tensors."""

    def reset_envs(self, rows: slice) -> None:
        (self.n_step_buffer if self.rounds is None else self.rounds).clear(rows)

    # --- update -----------------------------------------------------------------------------------------------------

    @property
    def update_rows(self) -> int:
        return self.options.batch_size

    def ready(self) -> bool:
        return self.updates_due >= 1.0

    def update(self) -> dict[str, float]:
        self.begin_updates()
        if self.device_updates is not None:
            count = int(self.updates_due)
            self.updates_due -= count
            self.device_updates.make(count)
            return self._shown_later(count)
        while self.updates_due >= 1.0:
            self.train_step(self._metrics)
            self.updates_due -= 1.0
            self.updates += 1
            self._unshown += 1
        if self._unshown >= SHOW_EVERY or not self._shown:
            self._shown, self._metrics, self._unshown = means(self._metrics), defaultdict(list), 0
        return self._shown

    def begin_updates(self) -> None:
        """Before updates: bring what follows schedules to where they read it."""
        for adam in self.adams:
            adam.learning_rate = self.learning_rate

    def _shown_later(self, made: int) -> dict[str, float]:
        """Metrics of updates on a device, as they arrive."""
        assert self.device_updates is not None
        self._unshown += made
        if self._unshown >= SHOW_EVERY or not self.device_updates.metrics.latest:
            self.device_updates.metrics.send()
            self._unshown = 0
        return self.device_updates.metrics.receive()

    @abstractmethod
    def train_step(self, metrics: Metrics | None, number: int | None = None) -> None:
        """One gradient step on a batch of the replay buffer: the update of this number, or else the next one."""

    @property
    def update_cycle(self) -> int:
        """How many updates there are until they repeat what they do."""
        return 1

    def trained_tensors(self) -> list[Tensor]:
        """What an update changes and reads again."""
        return [x for adam in self.adams for x in (adam.flat.data, *adam.moments, adam.steps)]

    def follow(self, targets: Tensor, weights: Tensor, number: int) -> None:
        """Let target weights follow the trained ones, in every update or in every `target_every`th."""
        tau, every = self.options.tau, getattr(self.options, "target_every", 1)
        if self.device_updates is not None and every > 1:
            targets.lerp_(weights, torch.where(self.device_updates.number % every == 0, tau, 0.0))
        elif number % every == 0:
            targets.lerp_(weights, tau)

    def scaled_rewards(self, batch: ReplayBatch) -> Tensor:
        """Rewards by the present scale, so that old and new transitions agree."""
        return batch.rewards if self.scale is None else self.scale.scale(batch.rewards)

    # --- changes during a run ---------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        """Learning waits until there is enough for one batch again; no actions become random because of it."""
        self.replay.clear()
        self.n_step_buffer.clear(slice(0, self.num_envs))
        if self.rounds is not None:
            self.rounds.discard()
        self.updates_due = 0.0
        self.refill = min(self.options.batch_size, self.replay.capacity)

    def _options_changed(self) -> None:
        """A new gamma holds for transitions completed from now on; those in the buffer keep theirs."""
        super()._options_changed()
        self._changes += 1
        self.n_step_buffer.gamma = self.options.gamma
        if self.rounds is not None:
            self.rounds.gamma = self.options.gamma
        if self.device_updates is not None:
            self.device_updates.release()

    def resize(self, num_envs: int) -> None:
        check_capacity(self.replay.capacity, num_envs, self.n_step_buffer.n_step)
        super().resize(num_envs)
        self._changes += 1
        self.n_step_buffer.resize(num_envs)
        if self.rounds is not None:
            self.rounds.resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, replay: bool = True) -> Tree:
        stored = {"replay": self.replay.state()} if replay else {}
        counts = {"steps": self.steps, "learn_from": self.learn_from, "refill": self.refill, "debt": self.updates_due}
        waiting = {"pending": self.n_step_buffer.state()} if self.rounds is None else {"rounds": self.rounds.state()}
        return super().state(replay) | stored | waiting | counts

    def load(self, state: Tree) -> None:
        super().load(state)
        self._load_waiting(state)
        self.steps, self.learn_from = state["steps"], state["learn_from"]
        self.refill, self.updates_due = state.get("refill", 1), state["debt"]
        if "replay" in state:
            self.replay.load(state["replay"])
        else:  # with nothing to learn from, collect first, as at the start
            self.replay.clear()
            self.learn_from, self.updates_due = max(self.learn_from, self.steps + self.options.start_steps), 0.0

    def _load_waiting(self, state: Tree) -> None:
        """Steps that wait for those that follow; of envs of the other kind, none can be continued."""
        if self.rounds is None and "pending" in state:
            self.n_step_buffer.load(state["pending"])
        elif self.rounds is not None and "rounds" in state:
            self.rounds.load(state["rounds"])


def where_rows(chosen: Tensor, these: Tensor, others: Tensor) -> Tensor:
    """Rows of one tensor where `chosen` [rows] is true, of the other where not."""
    return torch.where(chosen.view(-1, *[1] * (these.ndim - 1)), these, others)
