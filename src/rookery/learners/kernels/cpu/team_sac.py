"""SAC's accelerator: for perceptrons on a CPU, the gradients of actor and critics written out, on a team of threads.
Tests compare it with the plain code in `sac.py`."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.learners.heads import LOG_STD, squashed_log_prob
from rookery.learners.kernels.cpu.team_actor_critic import TeamActorCritic
from rookery.learners.replay_buffer import ReplayBatch

Sample = tuple[Tensor, Tensor, Tensor]  # actions, their log-probabilities, and standard deviations


class TeamSAC(TeamActorCritic):
    """The gradient steps of SAC."""

    replaces = ("gradient_step", "td_target", "sample", "critic_loss", "actor_loss")
    policy_critics = 2

    @torch.no_grad()
    def gradient_step(self, batch: ReplayBatch, weights: Tensor | None, number: int) -> tuple[Tensor, Tensor, Tensor]:
        learner, encoder = self.learner, self.learner.policy.encoder
        noise = learner.step_noise()
        passes = self.begin(batch, encoder(batch.leaves), encoder(batch.next_leaves))
        self.forward(passes.both_actor_blocks)  # the critics' step does not change the actor
        actions, log_probs, _ = squashed_sample(passes.next_actor.outputs, noise[0])
        passes.set_next_actions(actions)
        self.forward(passes.value_blocks)
        next_values = passes.values(passes.targets).amin(0) - learner.log_temperature.exp() * log_probs
        td_target = torch.addcmul(learner.scaled_rewards(batch.rewards), batch.discounts, next_values)
        values = passes.values(passes.critics)
        self.step_critics((values - td_target) / passes.rows)
        return values, td_target, self._actor_step(noise[1])

    def _actor_step(self, noise: Tensor) -> Tensor:
        """One step of the actor and of the temperature; returns the entropy."""
        learner, passes = self.learner, self.batch
        outputs = passes.actor.outputs
        actions, log_probs, std = squashed_sample(outputs, noise)
        values = self.policy_values(actions)
        smaller = values == values.amin(0)  # equal ones share
        of_actions = self.action_grads(smaller / (smaller.sum(0) * -passes.rows))
        of_log_probs = learner.log_temperature.exp() / passes.rows
        # Of the logarithm of tanh's derivative, whose derivative is -2 tanh; and of the actions themselves.
        of_raw = 2.0 * of_log_probs * actions + torch.ops.aten.tanh_backward(of_actions, actions)
        log_std = outputs[:, passes.size :]
        within = (log_std >= LOG_STD[0]) & (log_std <= LOG_STD[1])
        self.actor_gradient(torch.cat([of_raw, (of_raw * std * noise - of_log_probs) * within], 1))
        entropy = -log_probs.mean()
        if learner.log_temperature.requires_grad:
            learner.log_temperature.grad.copy_(entropy - learner.target_entropy)
        self.actor_adam.step(learner.options.max_grad_norm)
        return entropy


def squashed_sample(outputs: Tensor, noise: Tensor) -> Sample:
    """Random actions as the policy samples them, from the outputs of its net."""
    mean, log_std = outputs.chunk(2, -1)
    log_std = log_std.clamp(*LOG_STD)
    std = log_std.exp()
    raw = mean + std * noise
    return raw.tanh(), squashed_log_prob(raw, log_std, noise), std
