"""Log-probabilities and entropies of all members' actions, for outputs [members, rows, outputs]."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.learners.heads import GaussianHead, Head, MultiCategoricalHead


def log_prob(head: Head, outputs: Tensor, actions: Tensor, log_std: Tensor | None) -> Tensor:
    """[members, rows]; `actions` are [members, rows, columns], `log_std` [members, columns] of continuous ones."""
    if isinstance(head, GaussianHead):
        assert log_std is not None
        distance = (actions - outputs) * (-log_std).exp().unsqueeze(1)
        constant = log_std.sum(-1, keepdim=True) + 0.5 * math.log(2 * math.pi) * head.outputs
        return -0.5 * distance.square().sum(-1) - constant
    taken = [
        torch.log_softmax(part, -1).gather(-1, actions[..., k : k + 1])
        for k, part in enumerate(outputs.split(_sizes(head), -1))
    ]
    return taken[0].squeeze(-1) if len(taken) == 1 else torch.cat(taken, -1).sum(-1)


def entropy(head: Head, outputs: Tensor, log_std: Tensor | None) -> Tensor:
    """The mean over rows, [members]."""
    if isinstance(head, GaussianHead):
        assert log_std is not None
        return log_std.sum(-1) + 0.5 * math.log(2 * math.pi * math.e) * head.outputs
    logs = [torch.log_softmax(part, -1) for part in outputs.split(_sizes(head), -1)]
    each = [-(part.exp() * part).sum(-1).mean(-1) for part in logs]
    return each[0] if len(each) == 1 else torch.stack(each).sum(0)


def _sizes(head: Head) -> list[int]:
    return head.sizes if isinstance(head, MultiCategoricalHead) else [head.outputs]
