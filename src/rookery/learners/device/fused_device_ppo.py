"""PPO's accelerator on a GPU: acting, recording and whole updates by fused Triton kernels.

It serves perceptrons over observations that need no learned encoder. Everything is launched on the present stream and
nothing is read back, so that rollouts and updates can be captured in CUDA graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rookery.learners.device.captured_update import CapturedUpdate
from rookery.learners.device.fused_device_update import FusedUpdate
from rookery.learners.device.kernel_choices import forward_launch
from rookery.learners.device.kernel_shapes import has_known_shape, net_shape
from rookery.learners.device.triton_support import find_triton, tiles
from rookery.learners.fast.accelerator import Accelerator
from rookery.learners.observations import are_tensors, split

WIDEST = 256  # hidden units
WIDEST_OF_THREE = 128  # of three layers: gradients of wider ones exceed the registers
MOST_OUTPUTS = 64
MOST_INPUTS = 128


class DevicePPO(Accelerator):
    """For an actor and a critic that are perceptrons on a GPU. Final values and outputs are kept in the rollout, as by
    the plain code, so that either can continue what the other has begun."""

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self.net = net_shape(learner)
        self.head, self.device = learner.head, learner.device
        self._update = FusedUpdate(learner, self.net)
        self._clip, self._metrics = torch.zeros((), device=self.device), torch.zeros(5, device=self.device)
        self._captured = CapturedUpdate(learner, self._learn)
        self._nothing = torch.zeros(1, device=self.device)  # for arguments that a kernel does not read
        self._env_actions: Tensor | None = None

    @classmethod
    def supports(cls, learner: Any) -> bool:
        return learner.device.type == "cuda" and find_triton() and cls.fits(learner)

    @classmethod
    def fits(cls, learner: Any) -> bool:
        """Whether the kernels can compute this policy, on any device."""
        if not has_known_shape(learner):
            return False
        net = net_shape(learner)
        widest = WIDEST if net.depth <= 2 else WIDEST_OF_THREE
        return net.inputs <= MOST_INPUTS and max(net.p_hidden) <= widest and net.p_outputs <= MOST_OUTPUTS

    # --- collecting ---------------------------------------------------------------------------------------------

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
        self._act(features, norm, mask, step, rows.start, count, is_plain)
        actions = self._actions(count) if self.net.head.is_shifted else rollout.actions[step, rows]
        return learner.agent.nested(actions)

    def _make_masks(self, mask: Tensor) -> None:
        rollout = self.learner.rollout
        if rollout.masks is None:
            shape = rollout.length, rollout.envs, *mask.shape[1:]
            rollout.masks = torch.ones(shape, dtype=torch.bool, device=self.device)

    def _act(
        self, features: Tensor, norm: Any, mask: Tensor | None, step: int, start: int, count: int, store: bool
    ) -> None:
        from rookery.learners.device.acting_kernels import act

        rollout, nothing, launch = self.learner.rollout, self._nothing, forward_launch(self.net, count)
        assert rollout.noise is not None
        act[(tiles(count, launch.block),)](
            features, *norm[:2], self.learner.adam.flat, rollout.noise,
            nothing if mask is None else mask.view(torch.uint8),
            getattr(self.head, "low", nothing), getattr(self.head, "high", nothing),
            rollout.outputs, rollout.actions, self._actions(count) if self.net.head.is_shifted else nothing,
            rollout.observations[0], nothing if mask is None else rollout.masks.view(torch.uint8),
            step, start, count, rollout.envs,
            NET=self.net, NORMALISE=norm[2], MASKED=mask is not None, STORE=store, BLOCK=launch.block,
            num_warps=launch.warps,
        )  # fmt: skip

    def _actions(self, count: int) -> Tensor:
        """Where the env's actions are written: one place, as captured work reads it there."""
        if self._env_actions is None or len(self._env_actions) < count:
            dtype = torch.int8 if self.net.head.kind == "bernoulli" else self.head.dtype
            self._env_actions = torch.zeros(count, *self.head.shape, dtype=dtype, device=self.device)
        return self._env_actions[:count]

    @torch.no_grad()
    def record(self, rows: slice, step: Any) -> bool:
        from rookery.learners.device.acting_kernels import record

        learner, rollout, finals = self.learner, self.learner.rollout, None
        if rollout.final_values is None:
            rollout.final_values = rollout.new_array()
        norm: Any = (self._nothing, self._nothing, False)
        if step.finals is not None:
            leaves = split(learner.leaves, step.finals.observations, self.device)
            finals, norm, _ = self._update.features(leaves)
        count = len(step.rewards)
        launch = forward_launch(self.net, count)
        record[(tiles(count, launch.block),)](
            step.rewards, as_bytes(step.terminated), as_bytes(step.truncated),
            self._nothing if finals is None else finals, *norm[:2], learner.adam.flat,
            rollout.rewards, as_bytes(rollout.terminated), as_bytes(rollout.ended), as_bytes(rollout.starts),
            rollout.final_values, rollout.steps_made(rows), rollout.length, rows.start, count, rollout.envs,
            NET=self.net, NORMALISE=norm[2], EVALUATE=finals is not None, BLOCK=launch.block, num_warps=launch.warps,
        )  # fmt: skip
        rollout.advance(rows, 1)
        return True

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


def as_bytes(flags: Tensor) -> Tensor:
    """Booleans as kernels read and write them."""
    return flags.view(torch.uint8)
