"""PPO's and PQN's accelerators on a GPU: acting, recording and whole updates by fused Triton kernels.

It serves perceptrons over observations that need no learned encoder. Everything is launched on the present stream and
nothing is read back, so that rollouts and updates can be captured in CUDA graphs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.captured_call import CapturedUpdate
from rookery.learners.kernels.gpu.fused_device_update import FusedUpdate
from rookery.learners.kernels.gpu.kernel_choices import forward_launch
from rookery.learners.kernels.gpu.kernel_shapes import has_known_shape, net_shape, shared_memory
from rookery.learners.kernels.gpu.triton_support import find_triton, hash_triton_early, tiles
from rookery.learners.observations import are_tensors, split

WIDEST = 256  # hidden units
WIDEST_OF_THREE = 128  # of three layers: gradients of wider ones exceed the registers
MOST_OUTPUTS = 64
MOST_INPUTS = 127


class StoredLater(NamedTuple):
    """What envs returned for the actions of a step, until the kernel that acts next stores it."""

    rows: slice
    step: int
    tensors: tuple[Tensor, ...]  # rewards, terminated, truncated, features of final observations
    norm: Any  # of these features
    has_finals: bool


class DevicePPO(Accelerator):
    """For an actor and a critic that are perceptrons on a GPU. Final values and outputs are kept in the rollout, as by
    the plain code, so that either can continue what the other has begun."""

    replaces: tuple[str, ...] = (
        "act", "encode", "features", "outputs", "values", "targets", "advantages", "loss", "minibatch_features",
        "policy_loss", "value_loss", "gradient_step",
    )  # fmt: skip

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        hash_triton_early().join()  # or else the first kernel would begin it once more
        self.net = net_shape(learner)
        self.head, self.device = learner.head, learner.device
        self._update = FusedUpdate(learner, self.net)
        self._clip, self._metrics = torch.zeros((), device=self.device), torch.zeros(5, device=self.device)
        self._captured = CapturedUpdate(learner, self._learn)
        self._nothing = torch.zeros(1, device=self.device)  # for arguments that a kernel does not read
        self._nothing_recorded = (self._nothing,) * 4
        self._env_actions: Tensor | None = None
        self._outcome: StoredLater | None = None

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and find_triton() and cls.fits(learner) and has_room(learner)

    @classmethod
    def fits(cls, learner: Any) -> bool:
        """Whether the kernels can compute this policy, on any device."""
        if not has_known_shape(learner):
            return False
        net = net_shape(learner)
        widest = WIDEST if net.depth <= 2 else WIDEST_OF_THREE
        return net.inputs <= MOST_INPUTS and max(net.p_hidden) <= widest and net.p_outputs <= MOST_OUTPUTS

    # --- collecting ---------------------------------------------------------------------------------------------

    def invalidate(self) -> None:
        """A new rollout begins, or another one was loaded."""
        self._outcome = None

    @torch.no_grad()
    def explore(self, observations: Any, rows: slice, mask: Any) -> Any:
        if not are_tensors(observations):
            return None
        learner, rollout = self.learner, self.learner.rollout
        leaves = split(learner.leaves, observations, self.device)
        count, step = len(leaves[0]), rollout.steps_made(rows)
        if mask is not None:
            learner.agent.check_mask(mask, count)
            mask = mask.contiguous()
            self._make_masks(mask)
        features, norm, is_plain = self._update.features(leaves)
        if not is_plain:
            for kept, leaf in zip(rollout.observations, leaves, strict=True):
                kept[step, rows] = leaf
        self._act(features, norm, mask, step, rows, count, is_plain)
        actions = self._actions(count) if self.net.head.is_shifted else rollout.actions[step, rows]
        return learner.agent.nested(actions)

    def _make_masks(self, mask: Tensor) -> None:
        rollout = self.learner.rollout
        if rollout.masks is None:
            shape = rollout.length, rollout.envs, *mask.shape[1:]
            rollout.masks = torch.ones(shape, dtype=torch.bool, device=self.device)

    def _act(
        self, features: Tensor, norm: Any, mask: Tensor | None, step: int, rows: slice, count: int, store: bool
    ) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import act

        rollout, nothing, launch = self.learner.rollout, self._nothing, forward_launch(self.net, count)
        assert rollout.noise is not None
        outcome = self._take_outcome(rows)
        act[(tiles(count, launch.block),)](
            features, *norm[:2], self.learner.adam.flat, rollout.noise,
            nothing if mask is None else mask.view(torch.uint8),
            getattr(self.head, "low", nothing), getattr(self.head, "high", nothing),
            rollout.outputs, rollout.actions, self._actions(count) if self.net.head.is_shifted else nothing,
            rollout.observations[0], nothing if mask is None else rollout.masks.view(torch.uint8),
            *(self._nothing_recorded if outcome is None else outcome.tensors), *self._stored(),
            step, rollout.length, rows.start, count, rollout.envs,
            NET=self.net, NORMALISE=norm[2], MASKED=mask is not None, STORE=store, RECORD=outcome is not None,
            EVALUATE=outcome is not None and outcome.has_finals, BLOCK=launch.block, num_warps=launch.warps,
        )  # fmt: skip

    def _actions(self, count: int) -> Tensor:
        """Where the env's actions are written: one place, as captured work reads it there."""
        if self._env_actions is None or len(self._env_actions) < count:
            dtype = torch.int8 if self.net.head.kind == "bernoulli" else self.head.dtype
            self._env_actions = torch.zeros(count, *self.head.shape, dtype=dtype, device=self.device)
        return self._env_actions[:count]

    @torch.no_grad()
    def record(self, rows: slice, step: Any) -> bool:
        """The last step of a rollout is stored now, others by the kernel that acts next: one launch less."""
        self.flush()
        learner, rollout = self.learner, self.learner.rollout
        finals, norm = self._nothing, (self._nothing, self._nothing, False)
        if step.finals is not None:
            finals, norm, _ = self._update.features(split(learner.leaves, step.finals.observations, self.device))
        flags = as_bytes(step.terminated.contiguous()), as_bytes(step.truncated.contiguous())
        tensors = (step.rewards.contiguous(), *flags, finals)
        self._outcome = StoredLater(rows, rollout.steps_made(rows), tensors, norm, step.finals is not None)
        rollout.advance(rows, 1)
        if rollout.steps_made(rows) == rollout.length:
            self.flush()
        return True

    def _take_outcome(self, rows: slice) -> StoredLater | None:
        """The step of these rows that is to be stored with the next action."""
        if self._outcome is not None and self._outcome.rows != rows:
            self.flush()
        outcome, self._outcome = self._outcome, None
        return outcome

    def flush(self) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import record

        outcome, self._outcome = self._outcome, None
        if outcome is None:
            return
        rollout, count = self.learner.rollout, len(outcome.tensors[0])
        launch = forward_launch(self.net, count)
        record[(tiles(count, launch.block),)](
            *outcome.tensors, *outcome.norm[:2], self.learner.adam.flat, *self._stored(), outcome.step, rollout.length,
            outcome.rows.start, count, rollout.envs,
            NET=self.net, NORMALISE=outcome.norm[2], EVALUATE=outcome.has_finals, BLOCK=launch.block,
            num_warps=launch.warps,
        )  # fmt: skip

    def _stored(self) -> tuple[Tensor, ...]:
        """Where the outcome of a step is stored."""
        rollout = self.learner.rollout
        if rollout.final_values is None:
            rollout.final_values = rollout.new_array()
        flags = (as_bytes(flags) for flags in (rollout.terminated, rollout.ended, rollout.starts))
        return rollout.rewards, *flags, rollout.final_values

    # --- updating -----------------------------------------------------------------------------------------------

    def update(self, clip: Any) -> Tensor:
        self._update.evaluate_finals()
        if isinstance(clip, Tensor):
            self._clip = clip
        else:
            self._clip.fill_(clip)
        self._captured()
        return self._metrics

    def _learn(self) -> None:
        self._metrics.copy_(self._update(self._clip))


class DevicePQN(DevicePPO):
    """For values of actions that are one layer-normalised perceptron on a GPU."""

    replaces = ("act", "encode", "features", "outputs", "values", "targets", "advantages", "loss", "gradient_step")

    @classmethod
    def fits(cls, learner: Any) -> bool:
        return super().fits(learner) and not net_shape(learner).is_wide

    def _learn(self) -> None:
        value, loss, _, _, gradient = self._update(self._clip)
        self._metrics[:3].copy_(torch.stack([loss, value, gradient]))

    def update(self, clip: Any) -> Tensor:
        return super().update(clip)[:3]


def has_room(learner: Any) -> bool:
    """Whether the GPU has units for small products, and memory on the chip for the weights."""
    if torch.version.hip is not None:
        return True
    properties: Any = torch.cuda.get_device_properties(learner.device)
    return properties.major >= 8 and shared_memory(net_shape(learner)) <= properties.shared_memory_per_block_optin


def as_bytes(flags: Tensor) -> Tensor:
    """Booleans as kernels read and write them."""
    return flags.view(torch.uint8)
