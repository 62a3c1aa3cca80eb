"""What the accelerators of SAC and TD3 on a CPU have in common: passes through actor and critics on a team of threads.

At batches of 256 rows and nets of 256x256 nearly all time is in matrix products. Torch computes each of them on one
thread, or divides it among threads that wait for one another after each. Here a task is a block of rows on its way
through all layers of a net. So a gradient step has some ten places at which threads wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rookery.learners.accelerator import Accelerator
from rookery.learners.kernels.cpu import pass_tasks as words
from rookery.learners.kernels.cpu.net_pass import (
    NetPass,
    PackedNets,
    PassTeam,
    TeamAdam,
    block_jobs,
    gradient_jobs,
    zero_matrix,
)
from rookery.learners.kernels.cpu.perceptron import KINDS, members_of
from rookery.learners.kernels.cpu.product_tiles import ARM
from rookery.learners.replay_buffer import ReplayBatch


class TeamActorCritic(Accelerator):
    """For perceptrons on a CPU, without an image encoder or anything else before them that learns. All numbers are the
    same for any number of threads."""

    policy_critics: int  # how many critics train the actor

    def __init__(self, learner: Any) -> None:
        super().__init__(learner)
        self.kind = KINDS[learner.policy.net.activation_name]
        self.actor = PackedNets([learner.policy.net.layer_params], learner.actor_adam.flat)
        self.target_actor = self._target_actor()
        self.critics = PackedNets(members_of(learner.critics.ensemble), learner.critic_adam.flat)
        self.targets = PackedNets(members_of(learner.targets.ensemble), learner.target_weights, backward=False)
        self.batch = BatchPasses(self, learner.options.batch_size)
        self.team = PassTeam(self.batch.scratch_size)
        self.actor_adam, self.critic_adam = (
            TeamAdam(self.team, learner.actor_adam),
            TeamAdam(self.team, learner.critic_adam),
        )
        self._critics_packed = False  # whether the copies of the critics' weights are the present ones

    @classmethod
    def supports(cls, learner: Any) -> bool:
        known = learner.policy.net.activation_name in KINDS and not learner.has_images
        # Measured on aarch64 only. Products of this size are MKL's strength on x86_64: it stays as it was there.
        return known and ARM and learner.device.type == "cpu"

    def _target_actor(self) -> PackedNets:
        """The actor that the TD target follows."""
        return self.actor

    def invalidate(self) -> None:
        self._critics_packed = False

    def use_threads(self, threads: int) -> bool:
        self.team.use(threads)
        return True

    # --- parts of a gradient step -----------------------------------------------------------------------------------

    def begin(self, batch: ReplayBatch, features: Tensor, next_features: Tensor) -> BatchPasses:
        """Read the weights and the batch."""
        rows, width = features.shape
        if self.batch.rows != rows:
            self.batch = BatchPasses(self, rows)
        if not self._critics_packed:
            self.team.pack(self.critics)
        self._critics_packed = False  # until a step is complete
        self.team.pack(*{id(nets): nets for nets in (self.actor, self.target_actor, self.targets)}.values())
        passes = self.batch
        passes.next_features[:rows, :width] = next_features
        passes.next_inputs[:rows, :width] = next_features
        passes.features[:rows, :width] = features
        passes.policy_inputs[:rows, :width] = features
        passes.inputs[:rows, :width] = features
        passes.inputs[:rows, width : width + passes.size] = batch.actions
        return passes

    def forward(self, jobs: Any) -> None:
        """The outputs of some passes."""
        self.team.run(words.FORWARD, jobs)

    def step_critics(self, grads: Tensor) -> None:
        """One step of the critics on a loss with these gradients [critics, rows] at their values."""
        passes, options = self.batch, self.learner.options
        for one, grad in zip(passes.critics, grads, strict=True):
            one.output_grads[:, 0] = grad
        self.team.run(words.BACKWARD, passes.critic_blocks)
        self.team.run(words.WEIGHT_GRADS, passes.critic_grads)
        self.critic_adam.step(options.max_grad_norm)
        self.team.pack(self.critics)
        self._critics_packed = True

    def policy_values(self, actions: Tensor) -> Tensor:
        """The values of the actor's actions, by the critics that train it."""
        passes = self.batch
        passes.policy_inputs[: passes.rows, passes.width : passes.width + passes.size] = actions
        self.forward(passes.policy_blocks)
        return passes.values(passes.policy_critics)

    def action_grads(self, grads: Tensor) -> Tensor:
        """The gradient at the actor's actions, for a loss with these gradients at `policy_values`."""
        passes = self.batch
        for one, grad in zip(passes.policy_critics, grads, strict=True):
            one.output_grads[:, 0] = grad
        self.team.run(words.BACKWARD, passes.policy_blocks)
        found = [one.input_grads[:, passes.width : passes.width + passes.size] for one in passes.policy_critics]
        return found[0] if len(found) == 1 else torch.stack(found).sum(0)

    def actor_gradient(self, grads: Tensor) -> None:
        """Fill the gradient of the actor, for a loss with these gradients at its outputs."""
        passes = self.batch
        passes.actor.output_grads.copy_(grads)
        self.team.run(words.BACKWARD, passes.actor_blocks)
        self.team.run(words.WEIGHT_GRADS, passes.actor_grads)

    def workload(self) -> Callable[[], None]:
        def work() -> None:
            self.team.pack(self.critics)
            self.forward(self.batch.critic_blocks)
            self.team.run(words.BACKWARD, self.batch.critic_blocks)
            self.team.run(words.WEIGHT_GRADS, self.batch.critic_grads)

        return work


class BatchPasses:
    """The passes of a batch of so many rows through actor and critics, and their jobs."""

    def __init__(self, owner: TeamActorCritic, rows: int) -> None:
        policy, kind, count = owner.learner.policy, owner.kind, len(owner.critics.nets)
        self.rows, self.width, self.size = rows, policy.encoder.width, policy.size
        self.features, self.next_features = (zero_matrix(rows, self.width) for _ in range(2))
        # Features and actions: of the batch, of the next observation, and of the actor's present choice.
        self.inputs, self.next_inputs, self.policy_inputs = (
            zero_matrix(rows, self.width + self.size) for _ in range(3)
        )
        self.next_actor = NetPass(owner.target_actor, 0, kind, self.next_features, rows, backward=False)
        self.actor = NetPass(owner.actor, 0, kind, self.features, rows)
        self.targets = [NetPass(owner.targets, k, kind, self.next_inputs, rows, backward=False) for k in range(count)]
        self.critics = [NetPass(owner.critics, k, kind, self.inputs, rows) for k in range(count)]
        self.policy_critics = [
            NetPass(owner.critics, k, kind, self.policy_inputs, rows, to_inputs=True)
            for k in range(owner.policy_critics)
        ]
        self.scratch_size = max(self.actor.scratch_size, *(one.scratch_size for one in self.critics))
        self.next_actor_blocks, self.actor_blocks = block_jobs([self.next_actor]), block_jobs([self.actor])
        self.both_actor_blocks = block_jobs([self.next_actor, self.actor])
        self.critic_blocks, self.policy_blocks = block_jobs(self.critics), block_jobs(self.policy_critics)
        self.value_blocks = block_jobs([*self.targets, *self.critics])
        self.critic_grads, self.actor_grads = gradient_jobs(self.critics), gradient_jobs([self.actor])

    def set_next_actions(self, actions: Tensor) -> None:
        """The actions of which the targets give values."""
        self.next_inputs[: self.rows, self.width : self.width + self.size] = actions

    @staticmethod
    def values(passes: list[NetPass]) -> Tensor:
        """What some critics have found, as [critics, rows]."""
        return torch.cat([one.outputs for one in passes], 1).t()
