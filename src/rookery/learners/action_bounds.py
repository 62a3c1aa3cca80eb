"""Continuous actions within bounds, as SAC and TD3 take them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import OptionError
from rookery.learners.action_tree import flat_space


class ActionBounds(nn.Module):
    """The bounds of continuous actions, for learners whose own actions lie between -1 and 1. Those of a Dict or Tuple
    are flat vectors (see `ActionTree`)."""

    bias: Tensor
    scale: Tensor

    def __init__(self, space: spaces.Space, learner: str) -> None:
        super().__init__()
        space = flat_space(space)
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            takes = "it takes a Box of floats, or a Dict or Tuple of these (DQN takes Discrete, PPO all of these)"
            raise OptionError(f"{learner} cannot act in {space}; {takes}")
        if not space.is_bounded():
            raise OptionError(f"{learner} needs actions with bounds, and {space} has none; PPO can do without")
        self.shape, self.size = space.shape, space.low.size
        # By NumPy: on the meta device, which tells how large nets are, torch imports 900 modules for arithmetic.
        with np.errstate(over="ignore"):
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
            bias, scale = (high + low) / 2, (high - low) / 2
        self.register_buffer("bias", torch.as_tensor(bias), persistent=False)
        self.register_buffer("scale", torch.as_tensor(scale), persistent=False)

    def to_env(self, actions: Tensor) -> Tensor:
        """From -1 to 1 into the bounds of the env."""
        return actions.reshape(-1, *self.shape) * self.scale + self.bias

    def numpy_to_env(self) -> Callable[[np.ndarray], np.ndarray]:
        """`to_env` for arrays."""
        bias, scale, shape = self.bias.cpu().numpy(), self.scale.cpu().numpy(), self.shape
        return lambda actions: actions.reshape(-1, *shape) * scale + bias
