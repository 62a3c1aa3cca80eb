"""Networks of the user's own, named "my_file.py:MyNet": an encoder of observations, or PPO's whole actor and critic.

An encoder is made with the observation space and has an attribute `features_dim`; it maps a batch of observations to
features [batch, features_dim], and the learner's own layers (`hidden`) follow. An actor-critic is made with both spaces
and has two methods or modules: `actor`, which gives the outputs of the action distribution [batch, outputs], and
`critic`, which gives values [batch] or [batch, 1]. Observations are tensors in the structure of the space.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.errors import OptionError
from rookery.learners.networks import Encoder
from rookery.learners.observations import MASK_KEY, Leaf
from rookery.learners.options import Options
from rookery.user_code import find_in_file


def make_encoder(observation_space: spaces.Space, leaves: Sequence[Leaf], options: Options) -> Encoder:
    """The encoder that the options name, or rookery's own."""
    if options.network is None:
        return Encoder(leaves, options.normalise_observations, options.images)
    network = _find(options)
    if _is_actor_critic(network):
        raise OptionError(f"network: {options.network} is an actor and critic, which only ppo can use; give an encoder")
    net = network(observation_space)
    width = getattr(net, "features_dim", None)
    if not isinstance(width, int) or width < 1:
        raise OptionError(f"network: {options.network} should have an integer `features_dim`, got {width!r:.40}")
    encoder = CustomEncoder(net, observation_space, width)
    _check_shape(options, encoder(_example(leaves)), width)
    return encoder


class CustomEncoder(Encoder):
    """A user's encoder with the interface of rookery's own."""

    def __init__(self, net: nn.Module, observation_space: spaces.Space, width: int) -> None:
        super().__init__((), normalise=False)
        self.net, self.width, self._space = net, width, observation_space
        self.is_trained = True

    def forward(self, leaves: Sequence[Tensor]) -> Tensor:
        return self.net(_structured(self._space, iter(leaves)))


class JointNetwork(nn.Module):
    """Actor and critic side by side: [batch, outputs + 1]. `OutputColumns` separates them again."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, observations: Any) -> Tensor:
        outputs: Tensor = self.net.actor(observations)  # type: ignore[operator]
        values: Tensor = self.net.critic(observations)  # type: ignore[operator]
        return torch.cat([outputs.flatten(1), values.reshape(len(outputs), 1)], 1)


class OutputColumns(nn.Module):
    """Some columns of what came before."""

    activation_name = ""  # no accelerator knows what is in a network of the user's own

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self._columns = slice(start, stop)

    def forward(self, features: Tensor) -> Tensor:
        return features[:, self._columns]


def make_actor_critic(
    observation_space: spaces.Space, action_space: spaces.Space, leaves: Sequence[Leaf], options: Any, outputs: int
) -> tuple[Encoder, nn.Module, nn.Module] | None:
    """Encoder, actor and critic of PPO from one network of the user's own; None if the options name no such network."""
    if options.network is None or not _is_actor_critic(network := _find(options)):
        return None
    if options.recurrent:
        raise OptionError(f"network: {options.network} is a whole actor and critic: `recurrent` has no place in it")
    net = network(observation_space, action_space)
    if not callable(getattr(net, "actor", None)) or not callable(getattr(net, "critic", None)):
        raise OptionError(f"network: {options.network} is made with two spaces, so it should have `actor` and `critic`")
    encoder = CustomEncoder(JointNetwork(net), observation_space, outputs + 1)
    _check_shape(options, encoder(_example(leaves)), outputs + 1)
    return encoder, OutputColumns(0, outputs), OutputColumns(outputs, outputs + 1)


def _find(options: Options) -> type[nn.Module]:
    name = str(options.network)
    found = find_in_file(name, "network")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise OptionError(f"network: {name} should be a class derived from torch.nn.Module, got {found!r:.60}")
    if options.normalise_observations:
        raise OptionError("`normalise_observations` is for rookery's own encoder: normalise inside your network")
    return found


def _is_actor_critic(network: type[nn.Module]) -> bool:
    """Whether it is made with both spaces."""
    parameters = list(inspect.signature(network).parameters.values())
    return len([p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]) == 2


def _check_shape(options: Options, result: Any, width: int) -> None:
    got = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
    if got != (2, width):
        raise OptionError(f"network: {options.network} should return shape (2, {width}) for a batch of 2, got {got}")


def _example(leaves: Sequence[Leaf]) -> list[Tensor]:
    return [leaf.blank(2) for leaf in leaves]


def _structured(space: spaces.Space, leaves: Iterator[Tensor], top: bool = True) -> Any:
    """Leaves in the structure of the space, without its mask."""
    if isinstance(space, spaces.Dict):
        keys = [key for key in space.spaces if not (top and key == MASK_KEY)]
        return {key: _structured(space[key], leaves, top=False) for key in keys}
    if isinstance(space, spaces.Tuple):
        return tuple(_structured(part, leaves, top=False) for part in space.spaces)
    return next(leaves)
