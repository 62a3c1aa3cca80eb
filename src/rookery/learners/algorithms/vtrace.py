"""V-trace: targets for a rollout that somewhat older weights have made (Espeholt et al., 2018, IMPALA).

Advantages and returns are those of the present policy, weighted by how likely it takes the actions that were taken. PPO
clips ratios around the present policy then, not around the older ones that acted. If none of the weights are older, all
numbers are those of `ppo.gae`, for any `gae_lambda`.
"""

from __future__ import annotations

import torch
from torch import Tensor

RHO_CLIP = C_CLIP = 1.0  # the paper's


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
