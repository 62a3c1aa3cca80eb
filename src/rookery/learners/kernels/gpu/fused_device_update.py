"""A whole update of PPO or PQN as a sequence of Triton kernels: values, advantages, records, and for each minibatch the
gradient, its sum and a step of Adam."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learners.kernels.gpu.kernel_choices import Minibatch, evaluate_launches, make_gradients
from rookery.learners.kernels.gpu.kernel_shapes import NetShape, RecordShape
from rookery.learners.kernels.gpu.shuffle import ROUNDS, draw_key
from rookery.learners.kernels.gpu.triton_support import block_size, padded, tiles

CHUNKS = block_size(64, 2)  # of a minibatch, for the moments of its advantages
COLUMNS = block_size(64, 4096)  # of the gradient that one program sums
Norm = tuple[Tensor, Tensor, bool]  # mean, variance, whether to normalise


class Buffers(NamedTuple):
    """Memory that an update writes and reads again, at fixed addresses."""

    records: Tensor
    values: Tensor
    last_values: Tensor
    advantages: Tensor
    returns: Tensor  # discounted, of `normalise_rewards`
    moments: Tensor
    parts: Tensor
    squares: Tensor
    sums: Tensor
    stopped: Tensor
    metrics: Tensor


class FusedUpdate:
    """The update of a learner's full rollout. Calling it returns the metrics, which stay on the device."""

    def __init__(self, learner: Any, net: NetShape) -> None:
        self.learner, self.net, self.device = learner, net, learner.device
        self._nothing = torch.zeros(1, device=self.device)
        self._buffers: Buffers | None = None
        self._made_for: tuple[Any, ...] = ()
        self._too_large = 0  # how many of `evaluate_launches` this GPU has no memory for

    def features(self, leaves: list[Tensor]) -> tuple[Tensor, Norm, bool]:
        """What kernels read of observations, how they normalise it, and whether it is the observations' own memory.
        One vector is read as it is; other spaces pass through the encoder."""
        encoder, nothing = self.learner.policy.encoder, self._nothing
        if len(leaves) == 1 and encoder.vectors and not encoder.choices:
            norm = (
                (nothing, nothing, False) if encoder.norm is None else (encoder.norm.mean, encoder.norm.variance, True)
            )
            return leaves[0].contiguous(), norm, True
        return encoder(leaves).contiguous(), (nothing, nothing, False), False

    @torch.no_grad()
    def __call__(self, clip: float | Tensor) -> Tensor:
        rollout = self.learner.rollout
        features, norm, _ = self.features(rollout.flat_leaves())
        buffers = self._fitting_buffers()
        self._evaluate(features, norm, buffers)
        self._advantages(buffers)
        self._pack(features, norm, buffers)
        order = self._order()
        self._moments(order, buffers)
        buffers.stopped.zero_()
        clip = torch.as_tensor(clip, dtype=torch.float32, device=self.device)
        for epoch in range(self.learner.options.epochs):
            for minibatch in range(self.minibatches):
                self._step(epoch, minibatch, order, clip, buffers)
        return self._metrics(buffers)

    @torch.no_grad()
    def evaluate_finals(self) -> None:
        """Final observations that came one by one, from envs without tensors: each rollout has another number of them,
        so that they cannot be a part of a graph."""
        rollout = self.learner.rollout
        if rollout.final_values is None:
            rollout.final_values = rollout.new_array()
        for step, envs, leaves in rollout.finals:
            finals, norm, _ = self.features(leaves)
            values = torch.zeros(len(envs), device=self.device)
            self._values(finals, norm, values)
            rollout.final_values[step, envs] = values
        rollout.finals = []

    # --- sizes ----------------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """Samples of a rollout."""
        return self.learner.rollout.length * self.learner.rollout.envs

    @property
    def size(self) -> int:
        """Rows of a minibatch; the last one of an epoch may be smaller."""
        return tiles(self.total, min(self.learner.minibatches, self.total))

    @property
    def minibatches(self) -> int:
        return tiles(self.total, self.size)

    @property
    def record(self) -> RecordShape:
        masks = 0 if self.learner.rollout.masks is None else self.net.outputs
        clips = getattr(self.learner.options, "clip_values", None) is not None
        return RecordShape(self.net.inputs, self.net.head.actions, 0 if self.net.is_q else masks, clips)

    def _fitting_buffers(self) -> Buffers:
        """The buffers, made again when sizes have changed."""
        rollout, epochs = self.learner.rollout, self.learner.options.epochs
        sizes = rollout.length, rollout.envs, self.record, epochs, self.minibatches
        if self._buffers is None or sizes != self._made_for:
            self._made_for = sizes
            self._gradients = make_gradients(self.learner, self.net, self.size)
            self._buffers = self._new_buffers(rollout.length, rollout.envs, epochs)
        return self._buffers

    def _new_buffers(self, length: int, envs: int, epochs: int) -> Buffers:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=self.device)

        return Buffers(
            records=zeros(self.total, self.record.stride),
            values=zeros(length, envs),
            last_values=zeros(envs),
            advantages=zeros(length, envs),
            returns=zeros(*((length, envs) if self.learner.scale is not None else (1,))),
            moments=zeros(epochs, self.minibatches, CHUNKS, 2),
            parts=zeros(self._gradients.programs, self.net.parameters + 4),
            squares=zeros(tiles(self.net.parameters + 4, COLUMNS)),
            sums=zeros(4),
            stopped=zeros(epochs + 1, dtype=torch.int32),
            metrics=zeros(epochs, 5),
        )

    # --- targets --------------------------------------------------------------------------------------------------

    def _evaluate(self, features: Tensor, norm: Norm, buffers: Buffers) -> None:
        """The values of all observations, and of the last ones; those of actions are known from acting."""
        rollout = self.learner.rollout
        if self.net.is_q:
            buffers.values.copy_(self.learner.acted_values())
        else:
            self._values(features, norm, buffers.values)
        if rollout.last_masks is not None:
            buffers.last_values.copy_(self.learner.last_values())
            return
        last, norm, _ = self.features(rollout.last)
        self._values(last, norm, buffers.last_values)

    def _values(self, features: Tensor, norm: Norm, values: Tensor) -> None:
        from triton.runtime.errors import OutOfResources

        from rookery.learners.kernels.gpu.rollout_kernels import evaluate

        launches = evaluate_launches(self.net, values.numel(), self.device)
        for launch in launches[self._too_large :]:
            try:
                evaluate[(launch.programs,)](
                    features, values, self.learner.adam.flat, *norm[:2], values.numel(), NET=self.net,
                    NORMALISE=norm[2], BLOCK=launch.block, num_warps=launch.warps, num_stages=launch.stages,
                )  # fmt: skip
                return
            except OutOfResources:  # only Triton knows what a kernel needs, once it is compiled
                self._too_large += 1
                if launch is launches[-1]:
                    raise

    def _advantages(self, buffers: Buffers) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import launch_advantages

        learner, rollout = self.learner, self.learner.rollout
        if learner.scale is not None:
            self._update_scale(buffers)
        launch_advantages(
            rollout.rewards, None if learner.scale is None else learner.scale.statistics.variance, buffers.values,
            buffers.last_values, rollout.final_values, rollout.terminated, rollout.ended, learner.options.gamma,
            learner.options.trace_lambda, buffers.advantages,
        )  # fmt: skip

    def _update_scale(self, buffers: Buffers) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import discounted_returns

        learner, rollout, block = self.learner, self.learner.rollout, 32
        discounted_returns[(tiles(rollout.envs, block),)](
            rollout.rewards, rollout.ended.view(torch.uint8), learner.scale.running, buffers.returns,
            rollout.length, rollout.envs, learner.scale.gamma, BLOCK=block, num_warps=1,
        )  # fmt: skip
        learner.scale.statistics.update(buffers.returns.reshape(-1, 1))

    def _pack(self, features: Tensor, norm: Norm, buffers: Buffers) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import pack_records

        rollout, block = self.learner.rollout, block_size(64, 64)
        pack_records[(tiles(self.total, block),)](
            features, *norm[:2], rollout.actions, rollout.outputs,
            self._nothing if rollout.masks is None else rollout.masks.view(torch.uint8),
            buffers.advantages, buffers.values, self.learner.adam.flat, buffers.records, self.total,
            NET=self.net, RECORD=self.record, NORMALISE=norm[2], BLOCK=block,
        )  # fmt: skip

    def _order(self) -> Tensor:
        """The order of samples in every epoch, [epochs, samples]."""
        from rookery.learners.kernels.gpu.rollout_kernels import shuffle_on_device

        keys = [draw_key(self.learner.generator) for _ in range(self.learner.options.epochs)]
        return shuffle_on_device(self.total, torch.cat(keys), torch.int32, ROUNDS)

    def _moments(self, order: Tensor, buffers: Buffers) -> None:
        from rookery.learners.kernels.gpu.rollout_kernels import advantage_moments

        if not self.net.is_q and self.learner.options.normalise_advantages:
            grid = CHUNKS, self.minibatches, self.learner.options.epochs
            block = block_size(1024, 16)
            advantage_moments[grid](
                buffers.advantages, order, buffers.moments, self.total, self.size, CHUNKS=CHUNKS, BLOCK=block
            )

    # --- steps of the optimizer -----------------------------------------------------------------------------------

    def _step(self, epoch: int, minibatch: int, order: Tensor, clip: Tensor, buffers: Buffers) -> None:
        from rookery.learners.kernels.gpu.gradient_kernels import STATISTICS, adam_step, sum_parts

        options, adam, first = self.learner.options, self.learner.adam, minibatch * self.size
        batch = Minibatch(
            buffers.records, self.record, order[epoch], buffers.moments[epoch, minibatch], buffers.stopped, clip,
            buffers.parts, first, min(self.size, self.total - first), epoch,
        )  # fmt: skip
        self._gradients(batch, CHUNKS)
        blocks = tiles(self.net.parameters + STATISTICS, COLUMNS)
        sum_parts[(blocks,)](
            buffers.parts, adam.gradient, buffers.sums, buffers.squares, adam.steps, buffers.stopped,
            len(buffers.parts), epoch, PARAMETERS=self.net.parameters, STATISTICS=STATISTICS, BLOCK=COLUMNS,
            ROWS=block_size(64, 16),
        )  # fmt: skip
        target = getattr(options, "target_kl", None) or math.inf
        adam_step[(blocks,)](
            adam.flat, adam.gradient, *adam.moments, buffers.squares, buffers.sums, adam.steps, adam.rate,
            buffers.stopped, buffers.metrics, blocks, epoch, options.max_grad_norm or math.inf, adam.eps, target,
            PARAMETERS=self.net.parameters, BLOCK=COLUMNS, P_BLOCKS=padded(blocks),
            ENDS_EPOCH=minibatch == self.minibatches - 1,
        )  # fmt: skip

    def _metrics(self, buffers: Buffers) -> Tensor:
        from rookery.learners.kernels.gpu.gradient_kernels import average_metrics

        means, epochs = torch.zeros(5, device=self.device), self.learner.options.epochs
        average_metrics[(1,)](buffers.metrics, buffers.stopped, means, epochs, P_EPOCHS=padded(epochs))
        return means
