"""An agent: the part of a learner that acts. It takes batches of observations and returns actions."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import BadValue, SpaceError, UsageError
from rookery.learners.action_tree import action_tree, row_of
from rookery.learners.custom_network import CustomEncoder
from rookery.learners.frozen_policy import forward_pass
from rookery.learners.masks import flat_mask, mask_of
from rookery.learners.observations import choices_in, split
from rookery.learners.policy import Policy


class Agent:
    """Plays. `act` takes a batch of observations, or a single one, as arrays or tensors, and returns actions of the
    same kind.

    A recurrent agent has a memory: `starts` marks the rows that begin a new episode (all do when the size of the batch
    changes, or after `reset_memory()`).
    """

    deterministic = True  # whether to show it with deterministic actions rather than sampled ones
    writer: Callable[[Agent, Path], Path] | None = None  # what `save` does; agents of runs have it

    def __init__(
        self, policy: Policy, observation_space: spaces.Space, action_space: spaces.Space, device: torch.device
    ) -> None:
        self.policy, self.device = policy, device
        self.observation_space, self.action_space = observation_space, action_space
        self._choices, self._tree = choices_in(action_space), action_tree(action_space)
        self._generator = torch.Generator(device).manual_seed(0)
        self._memory: Tensor | None = None

    def seed(self, seed: int) -> None:
        """Fix the random choices that follow."""
        self._generator.manual_seed(seed)

    def reset_memory(self) -> None:
        """Start new episodes: a recurrent agent's memory becomes zero."""
        self._memory = None

    forget = reset_memory  # its name in earlier versions

    def act(self, observations: Any, deterministic: bool = False, *, mask: Any = None, starts: Any = None) -> Any:
        """Actions for a batch of observations, or the action for a single one; `mask` [batch, actions] allows some of
        them only. The action of a row depends on that row alone, bit for bit, whatever the size of the batch."""

        def recall(rows: int) -> Tensor:
            known = self._memory if self._memory is not None and len(self._memory) == rows else None
            return self._memory_for(rows, known, starts)

        actions, self._memory = self._act(observations, deterministic, mask, recall)
        return actions

    act_batch = act

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, np.ndarray | None]:
        """Actions and the next state, as Stable-Baselines3 has it. The state of a recurrent agent is given back to the
        next call, with `episode_start` for the rows that begin a new episode; of others it is None. What `act`
        remembers is not used, and not changed."""

        def recall(rows: int) -> Tensor:
            known = None if state is None else torch.as_tensor(state, device=self.device).reshape(rows, -1)
            return self._memory_for(rows, known, episode_start)

        actions, memory = self._act(observation, deterministic, action_masks, recall)
        return actions, None if memory is None else memory.cpu().numpy()

    @torch.no_grad()
    def _act(
        self, observations: Any, deterministic: bool, mask: Any, recall: Callable[[int], Tensor]
    ) -> tuple[Any, Tensor | None]:
        """Actions, and the next memory of a recurrent agent."""
        leaves = split(self.policy.leaves, observations, self.device)
        single = all(x.shape == leaf.shape for leaf, x in zip(self.policy.leaves, leaves, strict=True))
        leaves = [values.unsqueeze(0) for values in leaves] if single else leaves
        self._check(leaves)
        as_tensors = isinstance(next(_arrays(observations)), Tensor)
        # A GPU's tensors would have to be waited for; and a network of the user's own may know what to do with NaN.
        if not as_tensors and not isinstance(getattr(self.policy, "encoder", None), CustomEncoder):
            self._refuse_nan(leaves, single)
        rows = len(leaves[0])
        mask = mask_of(observations, action_space=self.action_space) if mask is None else mask
        if mask is not None:
            mask = flat_mask(self.action_space, mask) if isinstance(mask, (dict, tuple)) else mask
            mask = torch.as_tensor(mask, device=self.device).bool()
            self.check_mask(mask, rows)
            mask = mask.reshape(rows, -1)
        noise = None if deterministic else self.policy.sample_noise(rows, self._generator)
        memory = recall(rows) if self.policy.memory_size else None
        actions, memory = forward_pass(self.policy).on_tensors(leaves, noise, memory, mask)
        actions = self.nested(actions) if as_tensors else self.as_arrays(actions)
        return row_of(actions, 0) if single else actions, memory

    def save(self, path: str | Path) -> Path:
        """Write the agent to a folder, which `rookery.load(path)` reads: weights, normalisation and spaces, without
        what only the learner needs. It can also be an opponent, such as `--opponent path`. An agent that is there is
        replaced. Returns the path."""
        if self.writer is None:
            raise UsageError("save() needs an agent of a run: from rookery.train, rookery.resume or rookery.load")
        return self.writer(self, Path(path))

    def as_arrays(self, actions: Tensor) -> Any:
        """The policy's actions as the env takes them: an array, or a Dict or Tuple of arrays."""
        return self.nested(actions.cpu().numpy())

    def nested(self, actions: Any) -> Any:
        """The same for a policy's actions that are arrays, or stay tensors."""
        return actions if self._tree is None else self._tree.nest(actions)

    def check_mask(self, mask: Any, rows: int) -> None:
        """Refuse a mask whose size does not fit the discrete actions of so many envs. A policy without discrete actions
        refuses masks itself."""
        if self._choices is not None and math.prod(mask.shape) != rows * self._choices:
            raise SpaceError(
                f"`action_mask` should have {self._choices} entries in each env, one for each choice in "
                f"{self.action_space}: here shape {(rows, self._choices)} in all, got {tuple(mask.shape)}"
            )

    def _memory_for(self, rows: int, known: Tensor | None, starts: Any) -> Tensor:
        """The memory of so many rows: zero where it is not known, or an episode starts."""
        if known is None:
            return torch.zeros(rows, self.policy.memory_size, device=self.device)
        if starts is None:
            return known
        return known.masked_fill(torch.as_tensor(starts, device=self.device).bool().reshape(-1, 1), 0.0)

    def _check(self, leaves: list[Tensor]) -> None:
        for leaf, values in zip(self.policy.leaves, leaves, strict=True):
            if values.ndim == 0 or values.shape[1:] != leaf.shape:
                wanted = f"({', '.join(['batch', *map(str, leaf.shape)])})"
                single = f", or {leaf.shape} for one observation" if len(self.policy.leaves) == 1 else ""
                raise SpaceError(f"{leaf.name} should be of shape {wanted}{single}, got {tuple(values.shape)}")

    def _refuse_nan(self, leaves: list[Tensor], single: bool) -> None:
        for leaf, values in zip(self.policy.leaves, leaves, strict=True):
            if not values.is_floating_point():
                continue
            least = np.minimum.reduce(values.cpu().numpy(), axis=None, initial=math.inf)  # quicker than torch
            if math.isnan(least):
                first = values.isnan().nonzero()[0].tolist()
                raise BadValue(f"{leaf.name}{first[1:] if single else first} is nan: an agent needs numbers to act on")


def _arrays(observations: Any) -> Any:
    if isinstance(observations, dict):
        observations = observations.values()
    elif not isinstance(observations, tuple):
        yield observations
        return
    for part in observations:
        yield from _arrays(part)
