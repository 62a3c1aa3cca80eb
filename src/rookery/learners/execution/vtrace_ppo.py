"""PPO that learns from rollouts of somewhat older weights: what is off in them is corrected by V-trace.

Espeholt et al., 2018 (IMPALA). Advantages and returns are those of the present policy, weighted by how likely it takes
the actions that were taken. Ratios are clipped around the present policy, as in ordinary PPO, not around the older ones
that acted. If none of the weights are older, all numbers are those of ordinary PPO, for any `gae_lambda`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.learners.algorithms.ppo import PPO

RHO_CLIP = C_CLIP = 1.0  # the paper's


class VTracePPO(PPO):
    """Its rollouts have the log-probabilities with which actions were chosen: `rollout.log_probs`."""

    def targets(
        self, rewards: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, ended: Tensor
    ) -> dict[str, Tensor]:
        assert self.rollout.log_probs is not None
        log_probs = self._log_probs_now()
        ratios = (log_probs - self.rollout.log_probs).exp()
        options = self.options
        advantages, returns = vtrace(
            rewards, values, next_values, terminated, ended, ratios, options.gamma, options.gae_lambda
        )
        return {"log_probs": log_probs, "advantages": advantages, "values": values, "returns": returns}

    def _log_probs_now(self) -> Tensor:
        """Of the rollout's actions under the present policy, [steps, envs], in parts that fit the cache."""
        rollout, found = self.rollout, []
        size = max(1, rollout.length * rollout.envs // self.minibatches)
        columns = [*rollout.flat_leaves(), rollout.actions.flatten(0, 1)]
        if rollout.masks is not None:
            columns.append(rollout.masks.flatten(0, 1))
        for part in zip(*(column.split(size) for column in columns), strict=True):
            leaves, actions, *masks = list(part[: len(self.leaves)]), *part[len(self.leaves) :]
            outputs = self.policy.actor(self._features(leaves))
            outputs = self.head.apply_mask(outputs, masks[0]) if masks else outputs
            found.append(self.head.log_prob(outputs, actions))
        return torch.cat(found).reshape(rollout.length, rollout.envs)


def vtrace(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    ended: Tensor,
    ratios: Tensor,
    gamma: float,
    trace_lambda: float = 1.0,
    rho_clip: float = RHO_CLIP,
    c_clip: float = C_CLIP,
) -> tuple[Tensor, Tensor]:
    """Advantages for the policy and targets for the critic, each [steps, envs], as arguments are. `ratios` are the
    probabilities of the actions under the present policy over those with which they were chosen; the others are those
    of `ppo.gae`, which this is if all ratios are 1."""
    errors = rewards + gamma * next_values * ~terminated - values
    rhos, traces = ratios.clamp(max=rho_clip), trace_lambda * ratios.clamp(max=c_clip)
    advantages, returns = torch.empty_like(errors), torch.empty_like(errors)
    later = torch.zeros_like(errors[0])  # how much the target of the next step is above the critic's value
    for t in range(len(errors) - 1, -1, -1):
        later = gamma * later * ~ended[t]
        advantages[t] = rhos[t] * (errors[t] + trace_lambda * later)
        later = rhos[t] * errors[t] + traces[t] * later
        returns[t] = values[t] + later
    return advantages, returns
