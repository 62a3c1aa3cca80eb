"""Networks whose weights are shared by all assets of a market: one perceptron reads each asset's own columns of an
observation, beside those of the account. What is learned from one asset is known of all, with fewer weights: a signal
that is worth as much for eight coins is learned from eight times the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery.errors import OptionError
from rookery.learners.encoders import Encoder, own_actor_critic
from rookery.learners.networks import MLP
from rookery.learners.observations import Leaf


def columns_by_asset(layout: Sequence[int], inputs: int) -> np.ndarray:
    """The columns that the net of each asset reads, [assets, columns], of observations with so many `inputs`.

    The layout is the option `asset_columns`: how many columns of the account come first; then, block after block, how
    many each asset has. A block has the columns of one asset after the other.

    >>> columns_by_asset([1, 1, 2], inputs=7)  # cash, two positions, and two features of both coins
    array([[0, 1, 3, 4],
           [0, 2, 5, 6]])
    """
    account, *widths = layout
    each = sum(widths)
    assets, rest = divmod(inputs - account, each) if each else (0, 0)
    if rest or assets < 1:
        raise OptionError(
            f"`asset_columns` = {list(layout)} does not fit observations of {inputs} numbers: after {account} of the "
            f"account, each asset has {each}"
        )
    columns, start = [np.tile(np.arange(account), (assets, 1))], account
    for width in widths:
        columns.append(start + np.arange(assets * width).reshape(assets, width))
        start += assets * width
    return np.hstack(columns)


def joined(outputs: Any) -> Any:
    """From the outputs of each asset [..., assets, outputs] to those of an action: the first of all assets, then the
    second, as worlds of several assets order them. For arrays and tensors."""
    return outputs.swapaxes(-1, -2).reshape(*outputs.shape[:-2], -1)


class SharedMLP(MLP):
    """A perceptron that is applied to each asset. An actor joins its outputs; a critic's value is the assets' mean."""

    columns: Tensor

    def __init__(
        self, columns: np.ndarray, hidden: Sequence[int], outputs: int, activation: str, gain: float, mean: bool
    ) -> None:
        super().__init__(columns.shape[1], hidden, outputs, activation, gain)
        self.register_buffer("columns", torch.from_numpy(columns), persistent=False)
        self._mean = mean

    def forward(self, features: Tensor) -> Tensor:
        """[batch, outputs of all assets], or [batch, 1]."""
        outputs = super().forward(features[..., self.columns])
        return outputs.mean(-2) if self._mean else joined(outputs)


def columns_of(actor: Any) -> np.ndarray | None:
    """What a shared actor reads for each asset; None for all others."""
    return actor.columns.cpu().numpy() if isinstance(actor, SharedMLP) else None


def make_actor_critic(
    observation_space: spaces.Space, action_space: spaces.Space, leaves: Sequence[Leaf], options: Any, outputs: int
) -> tuple[Encoder, Any, Any] | None:
    """Encoder, actor and critic of PPO from a network of the user's own, or with shared weights; None if the options
    say neither."""
    if options.share_weights:
        return _shared_actor_critic(action_space, leaves, options, outputs)
    return own_actor_critic(observation_space, action_space, leaves, options, outputs)


def _shared_actor_critic(
    action_space: spaces.Space, leaves: Sequence[Leaf], options: Any, outputs: int
) -> tuple[Encoder, SharedMLP, SharedMLP]:
    if options.asset_columns is None:
        raise OptionError(
            "`share_weights` needs `asset_columns`: which numbers of an observation are an asset's. The worlds of "
            "several assets in one account give them"
        )
    encoder = None if options.network else Encoder(leaves, options.normalise_observations)
    if encoder is None or options.recurrent or not encoder.is_vector:
        raise OptionError("`share_weights` needs observations that are one vector, and no `recurrent` or `network`")
    columns = columns_by_asset(options.asset_columns, encoder.width)
    each, rest = divmod(outputs, len(columns))
    if rest or not isinstance(action_space, spaces.Box):
        raise OptionError(
            f"`share_weights` needs a Box of actions, as many for each of {len(columns)} assets, got {action_space}"
        )
    actor = SharedMLP(columns, options.hidden, each, options.activation, gain=0.01, mean=False)
    return encoder, actor, SharedMLP(columns, options.critic_widths, 1, options.activation, gain=1.0, mean=True)
