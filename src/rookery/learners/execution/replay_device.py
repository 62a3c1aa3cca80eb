"""How an off-policy learner is executed on a device: updates are captured, several in one launch, and nothing waits for
the device. Envs that return tensors make rounds, in which all of them step at once; these may be captured too."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.captured_call import CapturedCall
from rookery.learners.execution.device_storage import DeviceEpsilon, DeviceNoise, DeviceNStep, DeviceReplay
from rookery.learners.execution.replay_host import SHOW_EVERY, ReplayHost
from rookery.learners.kernels.gpu.metric_sums import MetricSums
from rookery.learners.kernels.gpu.precision import Products
from rookery.learners.learner import StepBatch, TensorFinals, Tree, trained_tensors
from rookery.learners.observations import MASK_KEY, split
from rookery.learners.sumtree import DeviceSumTree, wide_float

SIZES = (16, 4)  # updates in one launch, where so many are due; larger graphs take longer to capture and run no faster


class UpdateGroup(NamedTuple):
    """Updates that are made in one launch. Groups that are equal do the same."""

    size: int
    phase: int  # of the first update, in the cycle of updates of the actor


class ReplayDevice(ReplayHost):
    """Transitions, priorities and counts lie on the device, and updates are made in groups, of which each is captured
    once. What follows schedules, and all counts, are tensors that the captured work reads. A changed option is a
    constant in it: then it is captured again. Without `accelerate`, updates are made one by one."""

    def __init__(self, learner: Any, replay: DeviceReplay | None = None) -> None:
        """`replay` is memory to take over."""
        self._given = replay
        super().__init__(learner)
        device, options, images = learner.device, learner.options, learner.has_images
        self._groups: dict[UpdateGroup, CapturedCall] = {}
        self._number = torch.zeros((), dtype=torch.int64, device=device)  # of the present update
        self._known = 0  # the same, as the host knows it
        self._exponent = torch.zeros((), dtype=wide_float(device), device=device)  # of importance weights
        self._sums = MetricSums(learner.metric_names, device)
        # Without convolutions, every operation here gives the same numbers again: torch's own way to that is slower.
        self._products = Products(options.precision, options.deterministic and images, device, images)

    def make_replay(self, size: int, prioritised: bool, stacks_of: int) -> None:
        learner, self.replay = self.learner, self._given
        if self.replay is None or (self.replay.frames and not stacks_of):
            self._given = self.replay = None  # its memory is free before there is another one
            stacks = stacks_of, learner.options.n_step
            self.replay = DeviceReplay(learner.leaves, learner.example_action, size, learner.device, *stacks)
        self.tree = DeviceSumTree(size, learner.device) if prioritised else None

    # --- priorities -------------------------------------------------------------------------------------------------

    def prefer_new(self, indices: Any) -> None:
        if self.tree is not None:
            self.tree.set_new(torch.as_tensor(indices).to(self.learner.device))

    def sample_indices(self) -> tuple[Tensor, Tensor | None]:
        if self.tree is None:
            return super().sample_indices()
        size, device, generator = self.learner.options.batch_size, self.learner.device, self.learner.generator
        places = self.tree.sample(torch.rand(size, dtype=wide_float(device), generator=generator, device=device))
        return places, self.tree.weights(places, self._exponent)

    def update_priorities(self, indices: Tensor, td_errors: Tensor) -> None:
        options = self.learner.options
        self.tree.set(indices, (td_errors.abs() + options.priority_floor) ** options.priority_exponent)

    def make_room(self, steps: int) -> None:
        if self.replay.make_room(steps, self.n_step_buffer):
            self.capture_again()

    # --- update -----------------------------------------------------------------------------------------------------

    def follow_schedules(self) -> None:
        super().follow_schedules()
        if self.tree is not None:
            self._exponent.fill_(self.importance())

    def update(self) -> dict[str, float]:
        if not self.learner.options.accelerate:
            return super().update()
        self.follow_schedules()
        count = int(self.updates_due)
        self.updates_due -= count
        self._make_updates(count)
        self._unshown += count
        if self._unshown >= SHOW_EVERY or not self._sums.latest:
            self._sums.send()
            self._unshown = 0
        return self._sums.receive()

    def _make_updates(self, count: int) -> None:
        learner = self.learner
        if self._known != learner.updates:  # updates count by themselves, but not what is loaded
            self._number.fill_(learner.updates)
        while count:
            group = self._next_group(count)
            if group not in self._groups:
                self._groups[group] = self._captured(group)
            self._groups[group]()
            learner.updates += group.size
            self._sums.count(group)
            count -= group.size
        self._known = learner.updates

    def _next_group(self, count: int) -> UpdateGroup:
        """The largest group of whole cycles, or one update. In a cycle, in which the actor is trained once, the last
        update differs from the others."""
        cycle = getattr(self.learner.options, "policy_delay", 1)
        phase = self.learner.updates % cycle
        sizes = (size - size % cycle for size in SIZES) if phase == 0 else ()
        whole = next((size for size in sizes if 0 < size <= count), None)
        return UpdateGroup(1, cycle - 1 if phase == cycle - 1 else 0) if whole is None else UpdateGroup(whole, 0)

    def _captured(self, group: UpdateGroup) -> CapturedCall:
        def updates() -> None:
            metrics: dict[str, Tensor] = {}
            with warnings.catch_warnings(), self._products:
                # autograd's thread begins without a context, and torch says so at its first product
                warnings.filterwarnings("ignore", message=".*no current CUDA context")
                for k in range(group.size):
                    self._number.add_(1)
                    metrics = self.train_step(group.phase + k + 1, measured=k == group.size - 1)
            self._sums.add(group, metrics)

        learner = self.learner
        return CapturedCall(updates, learner.device, state=self.stays, generators=[learner.generator], name="updates")

    def stays(self) -> list[Tensor]:
        """What an update changes in place and reads again."""
        tree = [] if self.tree is None else self.tree.tensors
        learner = self.learner  # an actor's batch norms are buffers of the policy
        return [*trained_tensors(learner.parts()), *learner.policy.buffers(), *tree, self._sums.sums, self._number]

    def let_targets_follow(self, number: int) -> None:
        options = self.learner.options
        every = getattr(options, "target_every", 1)
        if every == 1 or not options.accelerate:
            super().let_targets_follow(number)
        else:
            self.learner.follow(torch.where(self._number % every == 0, options.tau, 0.0))

    def options_changed(self) -> None:
        super().options_changed()
        self.capture_again()

    def capture_again(self) -> None:
        """An option has changed, or an address."""
        for call in self._groups.values():
            call.release()
        self._groups.clear()


class RoundDevice(ReplayDevice):
    """For envs that return tensors. `before_round` and `after_round` are what the host has to do; `explore` and
    `write` between them may be captured."""

    def __init__(self, learner: Any, replay: DeviceReplay | None = None) -> None:
        if learner.options.hindsight:
            raise OptionError("`hindsight` needs envs on the CPU: --set backend=kernel")
        super().__init__(learner, replay)
        self.changes = 0  # of options, of the number of envs, or of an address

    def make_n_step(self, *args: Any) -> DeviceNStep:
        return DeviceNStep(*args)

    def make_exploration(self) -> None:
        learner = self.learner
        if self._discrete:
            self.epsilon_greedy = DeviceEpsilon(learner.options, learner.num_envs, learner.device)
        else:
            self.noise = DeviceNoise(learner.options.noise, learner.num_envs, learner.policy.size, learner.generator)

    @property
    def round_kind(self) -> tuple[Any, ...]:
        """What a captured round depends on besides tensors: rounds of the same kind do the same."""
        return self.n_step_buffer.completes, self.steps < self.learner.options.start_steps, self.changes

    def round_stays(self) -> list[Tensor]:
        """What a round changes in place and reads again, apart from the envs."""
        learner, explored = self.learner, self.epsilon_greedy if self._discrete else self.noise
        return [
            *self.n_step_buffer.tensors,
            self.replay.places,
            *(tensor for store in self.replay.frames.values() for tensor in store.tensors),
            *learner.policy.encoder.buffers(),
            *([] if learner.scale is None else learner.scale.buffers()),
            *([] if self.tree is None else self.tree.tensors),
            *explored.tensors,
        ]

    def before_round(self) -> None:
        """Bring what depends on counts to the device."""
        if self._discrete:
            self.epsilon_greedy.before_round(self.steps)
        else:
            self.noise.before_round()

    def store_step(self, rows: slice, leaves: Sequence[Tensor], actions: Tensor) -> None:
        self.n_step_buffer.store(self.replay.pack(rows, leaves), actions)

    def record(self, rows: slice, step: StepBatch) -> None:
        self.make_room(len(step.rewards))
        self.write(step)
        self.after_round()

    @torch.no_grad()
    def write(self, step: StepBatch) -> None:
        """`record` for tensors of all envs, without anything on the host. It waits for nothing, and can be captured."""
        learner = self.learner
        leaves, ended = split(learner.leaves, step.observations, learner.device), step.terminated | step.truncated
        learner.policy.encoder.update_normalisers(leaves)
        if learner.scale is not None:
            learner.scale.update_rows(slice(0, learner.num_envs), step.rewards, ended)
        if isinstance(step.finals, TensorFinals):
            lasts = split(learner.leaves, step.finals.observations, learner.device)
            leaves = [where_rows(step.finals.ended, last, leaf) for last, leaf in zip(lasts, leaves, strict=True)]
        leaves = self.replay.pack(slice(0, learner.num_envs), leaves)
        complete = self.n_step_buffer.complete(step.rewards, step.terminated, ended, leaves, self._next_masks(step))
        if complete is not None:
            self.prefer_new(self.replay.write(complete))
        if self._discrete:
            self.epsilon_greedy.count(ended.sum())

    def after_round(self) -> None:
        """All envs have made a step that `write` has recorded."""
        num_envs = self.learner.num_envs
        if self.n_step_buffer.completes:
            self.replay.count(num_envs)
        self.n_step_buffer.count()
        self.count_steps(num_envs)

    def allowed_next(self, step: StepBatch, mask: Any, shape: tuple[int, int]) -> Tensor:
        self.n_step_buffer.store_masks(shape[1])
        device, finals = self.learner.device, step.finals
        allowed = torch.ones(shape, dtype=torch.bool, device=device) if mask is None else mask.bool().view(shape)
        if not isinstance(finals, TensorFinals):
            return allowed
        last = finals.observations.get(MASK_KEY) if isinstance(finals.observations, dict) else None
        last = torch.ones_like(allowed) if last is None else last.bool().view(shape)
        return where_rows(finals.ended, last, allowed)

    def clear_replay(self) -> None:
        super().clear_replay()
        self.n_step_buffer.discard()

    def capture_again(self) -> None:
        super().capture_again()
        self.changes += 1

    def resize(self, num_envs: int) -> None:
        super().resize(num_envs)
        self.changes += 1

    def waiting_state(self) -> Tree:
        return {"rounds": self.n_step_buffer.state()}

    def load_waiting(self, state: Tree) -> None:
        if "rounds" in state:
            self.n_step_buffer.load(state["rounds"])


def where_rows(chosen: Tensor, these: Tensor, others: Tensor) -> Tensor:
    """Rows of one tensor where `chosen` [rows] is true, of the other where not."""
    return torch.where(chosen.view(-1, *[1] * (these.ndim - 1)), these, others)
