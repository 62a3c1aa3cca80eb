"""An agent: the part of a learner that acts. It takes batches of observations and returns actions."""

from __future__ import annotations

import math
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import SpaceError
from rookery.learners.frozen_policy import forward_pass
from rookery.learners.observations import choices_in, mask_of, split
from rookery.learners.policy import Policy


class Agent:
    """Plays. `act` takes a batch of observations, as arrays or tensors, and returns actions of the same kind.

    A recurrent agent has a memory: `starts` marks the rows that begin a new episode (all do when the size of the batch
    changes, or after `reset_memory()`).
    """

    deterministic = True  # whether to show it with deterministic actions rather than sampled ones

    def __init__(
        self, policy: Policy, observation_space: spaces.Space, action_space: spaces.Space, device: torch.device
    ) -> None:
        self.policy, self.device = policy, device
        self.observation_space, self.action_space = observation_space, action_space
        self._choices = choices_in(action_space)
        self._generator = torch.Generator(device).manual_seed(0)
        self._memory: Tensor | None = None

    def seed(self, seed: int) -> None:
        """Fix the random choices that follow."""
        self._generator.manual_seed(seed)

    def reset_memory(self) -> None:
        """Start new episodes: a recurrent agent's memory becomes zero."""
        self._memory = None

    forget = reset_memory  # its name in earlier versions

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = False, *, mask: Any = None, starts: Any = None) -> Any:
        """Actions for a batch of observations; `mask` [batch, actions] allows some of them only. The action of a row
        depends on that row alone, bit for bit, whatever the size of the batch."""
        leaves = split(self.policy.leaves, observations, self.device)
        self._check(leaves)
        mask = mask_of(observations) if mask is None else mask
        if mask is not None:
            mask = torch.as_tensor(mask, device=self.device).bool()
            self.check_mask(mask, len(leaves[0]))
        noise = None if deterministic else self.policy.sample_noise(len(leaves[0]), self._generator)
        memory = self._recall(len(leaves[0]), starts)
        actions, self._memory = forward_pass(self.policy).on_tensors(leaves, noise, memory, mask)
        as_tensors = isinstance(next(_arrays(observations)), Tensor)
        return actions if as_tensors else actions.cpu().numpy()

    act_batch = act

    def check_mask(self, mask: Any, rows: int) -> None:
        """Refuse a mask whose size does not fit the discrete actions of so many envs. A policy without discrete actions
        refuses masks itself."""
        if self._choices is not None and math.prod(mask.shape) != rows * self._choices:
            raise SpaceError(
                f"`action_mask` should have {self._choices} entries in each env, one for each choice in "
                f"{self.action_space}: here shape {(rows, self._choices)} in all, got {tuple(mask.shape)}"
            )

    def _recall(self, rows: int, starts: Any) -> Tensor | None:
        size = self.policy.memory_size
        if not size:
            return None
        if self._memory is None or len(self._memory) != rows:
            return torch.zeros(rows, size, device=self.device)
        if starts is None:
            return self._memory
        return self._memory.masked_fill(torch.as_tensor(starts, device=self.device).bool().unsqueeze(1), 0.0)

    def _check(self, leaves: list[Tensor]) -> None:
        for leaf, values in zip(self.policy.leaves, leaves, strict=True):
            if values.ndim == 0 or values.shape[1:] != leaf.shape:
                hint = "; act() takes a batch: observation[None] makes one of one" if values.shape == leaf.shape else ""
                wanted = f"({', '.join(['batch', *map(str, leaf.shape)])})"
                raise SpaceError(f"{leaf.name} should be of shape {wanted}, got {tuple(values.shape)}{hint}")


def _arrays(observations: Any) -> Any:
    if isinstance(observations, dict):
        observations = observations.values()
    elif not isinstance(observations, tuple):
        yield observations
        return
    for part in observations:
        yield from _arrays(part)
