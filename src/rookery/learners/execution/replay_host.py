"""How an off-policy learner is executed: it stores transitions, and owes a number of updates for every step.

Of the algorithm it calls `act`, `random_actions`, `gradient_step`, `follow`, `metrics` and, for priorities,
`td_errors`, with tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError, OptionError
from rookery.learners.action_spaces import mask_of
from rookery.learners.execution.execution import Execution
from rookery.learners.execution.hindsight import HindsightBuffer
from rookery.learners.flat_adam import FlatAdam
from rookery.learners.learner import Finals, StepBatch, Tree
from rookery.learners.noise import Epsilon, Noise
from rookery.learners.observations import split, stack
from rookery.learners.replay_buffer import NStepBuffer, ReplayBuffer, Transitions, check_capacity
from rookery.learners.sumtree import SumTree

SHOW_EVERY = 32  # updates averaged in the metrics: reading them after each one would cost more than 1 % of it


class ReplayHost(Execution):
    """Learns from the steps of any policy. Each step of an env after the first `start_steps`, or each round of steps,
    adds `updates_per_step` to `updates_due`, and `update()` makes as many: when to learn depends on counts only.

    With the option `prioritised` (Schaul et al., 2016), transitions with a large TD error are replayed more often.
    """

    steps_until_update, steps_since_update, can_resize = 64, 0, True
    replay: Any
    tree: Any = None  # of priorities
    noise: Any  # that continuous actions are explored with
    epsilon_greedy: Any  # how discrete actions are
    hindsight: HindsightBuffer | None = None  # the n-step buffer of worlds with goals

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        options = learner.options
        self.check_size(learner.num_envs)
        self._discrete = not learner.example_action.is_floating_point()
        self._masked = False  # whether masks were ever given
        self.steps, self.updates_due = 0, 0.0
        self.learn_from = options.start_steps
        self.refill = 1  # transitions that must be stored before learning begins
        self.adams = [part for part in learner.parts().values() if isinstance(part, FlatAdam)]
        self._metrics: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._shown: dict[str, float] = {}
        self._unshown = 0
        self.make_storage(learner.num_envs)
        self.make_exploration()

    # --- where things are: those on a device have others ------------------------------------------------------------

    def make_storage(self, stacks_of: int) -> None:
        """Where steps wait, and the replay buffer. It stores each frame of stacked observations of so many envs once;
        whole stacks where other steps come in between, and in a run that an earlier version has begun."""
        learner, options = self.learner, self.learner.options
        frames = stacks_of if options.steps_in_order else 0
        self.make_replay(options.buffer_size, getattr(options, "prioritised", False), frames)
        stored = self.replay.leaves, learner.example_action, options.n_step, options.gamma
        self.n_step_buffer = self.make_n_step(*stored, learner.num_envs, learner.device)

    def make_n_step(self, *args: Any) -> Any:
        """Where steps wait for those that follow."""
        if self.learner.options.hindsight:
            self.hindsight = HindsightBuffer(self.learner)
        return self.hindsight or NStepBuffer(*args)

    def make_replay(self, size: int, prioritised: bool, stacks_of: int) -> None:
        """The buffer of transitions, and their priorities."""
        learner, n_step = self.learner, self.learner.options.n_step
        self.replay = ReplayBuffer(learner.leaves, learner.example_action, size, learner.device, stacks_of, n_step)
        self.tree = SumTree(size) if prioritised else None

    def make_exploration(self) -> None:
        """What actions are explored with."""
        learner = self.learner
        if self._discrete:
            self.epsilon_greedy = Epsilon(learner.options, learner.num_envs, learner.device)
        else:
            self.noise = Noise(learner.options.noise, learner.num_envs, learner.policy.size, learner.generator)

    @property
    def bytes_to_fill(self) -> int:
        return self.replay.nbytes if self.learner.device.type == "cpu" else 0

    # --- collecting -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def explore(self, observations: Any, rows: slice, mask: Any = None) -> Any:
        learner = self.learner
        leaves = split(learner.leaves, observations, learner.device)
        drawn: tuple[Any, ...]
        if self._discrete:
            drawn = learner.policy.sample_noise(leaves[0].shape[0], learner.generator), self.epsilon(rows)
            mask = self._checked(mask, len(drawn[0]))
        else:
            drawn = (self.noise.sample(rows),)
        if self.steps < learner.options.start_steps:
            actions = learner.random_actions(mask, *drawn)
        else:
            actions = learner.act(leaves, mask, *drawn)
        self.store_step(rows, leaves, actions)
        return self.to_env(observations, learner.policy.to_env(actions))

    def epsilon(self, rows: slice) -> float | Tensor:
        """The present share of random actions, per env in `rows` if they differ."""
        return self.epsilon_greedy.share(rows, self.steps)

    def _checked(self, mask: Any, rows: int) -> Tensor | None:
        if mask is None:
            return None
        self.learner.agent.check_mask(mask, rows)
        self._masked = True
        return torch.as_tensor(mask, device=self.learner.device).bool().reshape(rows, -1)

    def store_step(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        """Observations and actions of the next step, until its results are recorded."""
        self.n_step_buffer.store(rows, self.replay.pack(rows, leaves), actions)

    def make_room(self, steps: int) -> None:
        """Before so many steps are recorded: a store of frames may become larger."""
        self.replay.make_room(steps, self.n_step_buffer)

    def record(self, rows: slice, step: StepBatch) -> None:
        self.make_room(len(step.rewards))
        learner, (_, rewards, terminated, truncated, *_) = self.learner, step
        leaves = split(learner.leaves, step.observations, learner.device)
        learner.policy.encoder.update_normalisers(leaves)
        if learner.scale is not None:
            learner.scale.update_rows(rows, rewards, terminated | truncated)
        complete = self.n_step_buffer.complete(rows, rewards, terminated, truncated)
        if len(complete[0]):
            following = self.replay.pack(rows, self._next_leaves(leaves, step.finals))
            masks = self._next_masks(step)
            self.prefer_new(self.replay.add(self.n_step_buffer, complete, following, masks))
            if self.hindsight is not None:
                self._add_hindsight(rows.start, following, terminated, terminated | truncated)
        self.count_steps(len(rewards))
        if self._discrete:
            self.epsilon_greedy.count(int(np.count_nonzero(terminated | truncated)))

    def _add_hindsight(self, start: int, following: list[Tensor], terminated: np.ndarray, ended: np.ndarray) -> None:
        assert self.hindsight is not None
        for place in np.flatnonzero(ended):
            last = [leaf[place] for leaf in following]
            for copies in self.hindsight.relabelled(start + int(place), last, bool(terminated[place])):
                self.add(copies)

    def add(self, made: Transitions) -> None:
        """Keep complete transitions."""
        self.prefer_new(self.replay.add(made, made.complete, made.next_leaves, None))

    def count_steps(self, steps: int) -> None:
        """So many steps were recorded: updates are due for them."""
        self.steps += steps
        if self.replay.size >= self.refill:
            after_start = min(steps, max(0, self.steps - self.learn_from))
            each = 1 if self.learner.options.updates_each == "step" else self.learner.num_envs
            self.updates_due += self.learner.options.updates_per_step * (after_start / each)

    def _next_leaves(self, leaves: list[Tensor], finals: Finals | None) -> list[Tensor]:
        """The observations after each step: where an episode ended, its last one and not the next episode's first."""
        if not finals:
            return leaves
        learner = self.learner
        rows = torch.from_numpy(np.asarray(finals[0], np.int64)).to(learner.device)
        lasts = stack(learner.leaves, finals[1], learner.device)
        return [leaf.index_copy(0, rows, last) for leaf, last in zip(leaves, lasts, strict=True)]

    def _next_masks(self, step: StepBatch) -> Tensor | None:
        """The actions allowed next, if masks are given at all. After the last step of an episode all are, unless the
        final observation has a mask."""
        if not self._masked:
            return None
        if self.hindsight is not None:
            raise OptionError("`hindsight` does not support action masks")
        rows, actions, mask = len(step.rewards), self.learner.policy.actions, step.mask
        if mask is not None:
            self.learner.agent.check_mask(mask, rows)
        self.replay.store_masks(actions)
        return self.allowed_next(step, mask, (rows, actions))

    def allowed_next(self, step: StepBatch, mask: Any, shape: tuple[int, int]) -> Tensor:
        """Of envs that return arrays."""
        allowed = np.ones(shape, np.bool_) if mask is None else np.array(mask, np.bool_)
        for row, last in zip(*step.finals, strict=True) if step.finals else ():
            final_mask = mask_of(last)
            allowed[row] = True if final_mask is None else final_mask
        return torch.from_numpy(allowed).to(self.learner.device)

    def reset_envs(self, rows: slice) -> None:
        self.n_step_buffer.clear(rows)

    # --- priorities -------------------------------------------------------------------------------------------------

    def prefer_new(self, indices: np.ndarray) -> None:
        """New transitions get the largest priority, so that each is replayed soon."""
        if self.tree is not None:
            self.tree.set(indices, np.full(len(indices), self.tree.largest or 1.0))

    def importance(self) -> float:
        """The present exponent of importance weights."""
        start = self.learner.options.importance_exponent
        return start + (1.0 - start) * min(1.0, self.steps / self.learner.options.importance_steps)

    def sample_indices(self) -> tuple[Tensor, Tensor | None]:
        """Indices of transitions, and their importance weights if they are prioritised."""
        size, generator = self.learner.options.batch_size, self.learner.generator
        if self.tree is None:
            return self.replay.sample_indices(size, generator), None
        indices = self.tree.sample(torch.rand(size, dtype=torch.float64, generator=generator).numpy())
        return torch.from_numpy(indices), torch.from_numpy(self.tree.weights(indices, self.importance()))

    def update_priorities(self, indices: Tensor, td_errors: Tensor) -> None:
        """The priorities of transitions become |TD error|^priority_exponent."""
        errors = np.abs(td_errors.numpy()) + np.float32(self.learner.options.priority_floor)
        self.tree.set(indices.numpy(), errors**self.learner.options.priority_exponent)

    # --- update -----------------------------------------------------------------------------------------------------

    @property
    def update_rows(self) -> int:
        return self.learner.options.batch_size

    def ready(self) -> bool:
        return self.updates_due >= 1.0

    def update(self) -> dict[str, float]:
        self.follow_schedules()
        learner, every = self.learner, getattr(self.learner, "metrics_every", 1)
        while self.updates_due >= 1.0:
            for name, value in self.train_step(learner.updates + 1, learner.updates % every == 0).items():
                self._metrics[name].append(value)
            self.updates_due -= 1.0
            learner.updates += 1
            self._unshown += 1
        if self._unshown >= SHOW_EVERY or not self._shown:
            self._shown = {name: float(torch.stack(values).mean()) for name, values in self._metrics.items()}
            self._metrics, self._unshown = defaultdict(list), 0
        return self._shown

    def follow_schedules(self) -> None:
        """Before updates: set what follows schedules."""
        for adam in self.adams:
            adam.learning_rate = self.learner.learning_rate

    def train_step(self, number: int, measured: bool = True) -> dict[str, Tensor]:
        """The update of this number, on a batch of the replay buffer; returns its metrics if they are wanted."""
        learner = self.learner
        indices, weights = self.sample_indices()
        step = learner.gradient_step(self.replay.batch(indices), weights, number)
        if self.tree is not None:
            self.update_priorities(indices, learner.td_errors(step))
        self.let_targets_follow(number)
        return learner.metrics(step, weights) if measured else {}

    def let_targets_follow(self, number: int) -> None:
        """In every update, or in every `target_every`th."""
        if number % getattr(self.learner.options, "target_every", 1) == 0:
            self.learner.follow(self.learner.options.tau)

    def workload(self) -> Callable[[], None]:
        learner, leaves = self.learner, self.zero_leaves(self.update_rows)
        if self._discrete:
            return lambda: learner.policy(leaves).mean().backward()
        actions = torch.zeros(self.update_rows, learner.policy.size, device=learner.device)
        return lambda: learner.critics(learner.policy.encoder(leaves), actions).mean().backward()

    # --- changes during a run ---------------------------------------------------------------------------------------

    def clear_replay(self) -> None:
        """Learning waits until there is enough for one batch again; no actions become random because of it."""
        self.replay.clear()
        if self.tree is not None:
            self.tree.load(np.zeros(0))
        self.n_step_buffer.clear(slice(0, self.learner.num_envs))
        self.updates_due = 0.0
        self.refill = min(self.learner.options.batch_size, self.replay.capacity)

    def options_changed(self) -> None:
        """A new gamma holds for transitions completed from now on; those in the buffer keep theirs."""
        self.n_step_buffer.gamma = self.learner.options.gamma
        if self._discrete:
            self.epsilon_greedy.use(self.learner.options)

    def check_size(self, num_envs: int) -> None:
        check_capacity(self.learner.options.buffer_size, num_envs, self.learner.options.n_step)

    def resize(self, num_envs: int) -> None:
        self.n_step_buffer.resize(num_envs)
        for store in self.replay.frames.values():
            store.resize(num_envs)
        (self.epsilon_greedy if self._discrete else self.noise).resize(num_envs)

    # --- save and load ----------------------------------------------------------------------------------------------

    def state(self, replay: bool) -> Tree:
        state = {"steps": self.steps, "learn_from": self.learn_from, "refill": self.refill, "debt": self.updates_due}
        if self._discrete:
            state |= {"masked": self._masked, "fallen": float(self.epsilon_greedy.fallen)}
        else:
            state["noise"] = self.noise.state()
        if replay:
            state["replay"] = self.replay.state()
            if self.tree is not None:
                state["priorities"] = self.tree.priorities(slice(0, self.replay.size))
        if self.replay.frames:
            state["frames"] = self.replay.frame_states(self.n_step_buffer, stored=replay)
        return state | self.waiting_state()

    def waiting_state(self) -> Tree:
        """Steps that wait for those that follow."""
        return {"pending": self.n_step_buffer.state()}

    def accept(self, state: Tree) -> Tree:
        if "frames" in state and not self.replay.frames:
            raise CheckpointError("the run stored frames of stacked observations, and its world has none of them now")
        if not self._discrete:
            return state
        actions = self.learner.policy.actions
        waiting = state.get("pending") or state.get("rounds") or {"actions": []}
        for part in (waiting["actions"], state.get("replay", {"arrays": {}})["arrays"].get("actions", [])):
            if np.size(part) and not (np.min(part) >= 0 and np.max(part) < actions):
                raise CheckpointError(f"saved actions are not among the {actions} actions of this env")
        return state

    def load(self, state: Tree) -> None:
        if self.replay.frames and "frames" not in state:
            self.make_storage(0)
            self.options_changed()
        self.replay.load_frames(state.get("frames", {}))
        self.load_waiting(state)
        self.steps, self.learn_from = state["steps"], state["learn_from"]
        self.refill, self.updates_due = state.get("refill", 1), state["debt"]
        if "replay" in state:
            self.replay.load(state["replay"])
        else:  # with nothing to learn from, collect first, as at the start
            self.replay.clear()
            start = self.steps + self.learner.options.start_steps
            self.learn_from, self.updates_due = max(self.learn_from, start), 0.0
        if self.tree is not None:
            self.tree.load(state.get("priorities", np.zeros(0)))
        if self._discrete:
            self._masked = state["masked"]
            self.epsilon_greedy.load(state.get("fallen", 1.0))
        else:
            self.noise.load(state["noise"])

    def load_waiting(self, state: Tree) -> None:
        """Continue from `waiting_state()`; of envs of the other kind, none can be continued."""
        if "pending" in state:
            self.n_step_buffer.load(state["pending"])
