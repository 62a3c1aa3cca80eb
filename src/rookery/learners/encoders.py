"""What reads observations: rookery's encoder of any space, and networks of the user's own, named "my_file.py:MyNet".

A user's encoder is made with the observation space and has an attribute `features_dim`; it maps a batch of observations
to features [batch, features_dim], and the learner's own layers (`hidden`) follow. Or it is PPO's whole actor and
critic, made with both spaces, with two methods or modules: `actor`, which gives the outputs of the action distribution
[batch, outputs], and `critic`, which gives values [batch] or [batch, 1]. Observations are tensors in the structure of
the space; with `normalise_observations`, vectors in it are normalised. `network_options` are further keyword arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from rookery.errors import OptionError
from rookery.learners.image_nets import FlatImage, ImageInput, ImageNet, LevelledImage, ResidualImageNet
from rookery.learners.learner_spec import Options
from rookery.learners.normalize import RunningNorm
from rookery.learners.observations import MASK_KEY, Leaf
from rookery.learners.plain_spaces import SMALL_IMAGE
from rookery.user_code import find_in_file

# By the option `images`. A run replaces "auto" by what suits its images; a learner by itself has convolutions.
IMAGE_NETS = {
    "auto": ImageNet, "cnn": ImageNet, "impala": ResidualImageNet, "flat": FlatImage, "levels": LevelledImage,
}  # fmt: skip


class Encoder(nn.Module):
    """Leaves of an observation to one row of features: vectors as they are, choices as one-hot, images through
    convolutions ("cnn", "impala"), as vectors of pixels ("flat"), or of levels of grey ("levels"). `normalise` shifts
    and scales vectors and images by running statistics."""

    def __init__(self, leaves: Sequence[Leaf], normalise: bool, images_as: str = "cnn") -> None:
        super().__init__()

        def net(leaf: Leaf, normalise: bool) -> ImageInput:
            kind = FlatImage if images_as == "levels" and not leaf.levels else IMAGE_NETS[images_as]
            return kind(leaf, normalise)

        self.vectors = [k for k, leaf in enumerate(leaves) if leaf.kind == "vector"]
        self.choices = [(k, leaf) for k, leaf in enumerate(leaves) if leaf.kind == "choice"]
        images = {str(k): net(leaf, normalise) for k, leaf in enumerate(leaves) if leaf.kind == "image"}
        self.images = nn.ModuleDict(images)
        width = sum(leaves[k].width for k in self.vectors)
        self.norm = RunningNorm(width) if normalise and width else None
        self.is_trained = bool(images) and images_as not in ("flat", "levels")  # whether it has parameters
        self.is_vector = len(leaves) == 1 and leaves[0].shape == (width,)  # as it is, or normalised
        self.is_identity = self.is_vector and self.norm is None
        self.width = width + sum(leaf.width for _, leaf in self.choices) + sum(net.features for net in images.values())

    def forward(self, leaves: Sequence[Tensor]) -> Tensor:
        """Features [batch, width]."""
        return self.joined(leaves, lambda net, image: net(image))

    def joined(self, leaves: Sequence[Tensor], of_image: Callable[[ImageInput, Tensor], Tensor]) -> Tensor:
        """The same, with another way to the features of an image."""
        if self.is_identity:
            return leaves[0]
        parts = []
        if self.vectors:
            vector = self.vector(leaves)
            parts.append(vector if self.norm is None else self.norm(vector))
        parts += [one_hot(leaves[k], leaf) for k, leaf in self.choices]
        parts += [of_image(net, leaves[int(k)]) for k, net in self.images.items()]  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def vector(self, leaves: Sequence[Tensor]) -> Tensor:
        """All vectors side by side."""
        flat = [leaves[k].flatten(1) if leaves[k].ndim > 1 else leaves[k].unsqueeze(1) for k in self.vectors]
        return flat[0] if len(flat) == 1 else torch.cat(flat, -1)

    def update_normalisers(self, leaves: Sequence[Tensor]) -> None:
        """Add a batch to the running statistics."""
        if self.norm is not None:
            self.norm.update(self.vector(leaves))
        for k, net in self.images.items():
            net.update_normalisers(leaves[int(k)])  # type: ignore[operator]

    def share_normalisers(self, other: Encoder) -> None:
        """Use the running statistics of another encoder of the same leaves, now and as they change."""
        self.norm = other.norm
        for mine, its in zip(self.images.values(), other.images.values(), strict=True):
            mine.norm = its.norm


def one_hot(values: Tensor, leaf: Leaf) -> Tensor:
    """
    >>> one_hot(torch.tensor([2, 0]), Leaf((), (), "choice", (3,), (0,)))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    columns = values.reshape(len(values), -1)
    parts = [
        functional.one_hot(columns[:, k] - start, size)
        for k, (size, start) in enumerate(zip(leaf.sizes, leaf.starts, strict=True))
    ]
    return torch.cat(parts, -1).float()


def all_images_small(leaves: Sequence[Leaf]) -> bool:
    """Whether every image has a side below 12 pixels."""
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    return all(min(leaf.shape[:2] if leaf.channels_last else leaf.shape[-2:]) < SMALL_IMAGE for leaf in images)


# --- networks of the user's own ---------------------------------------------------------------------------------------


def make_encoder(observation_space: spaces.Space, leaves: Sequence[Leaf], options: Options) -> Encoder:
    """The encoder that the options name, or rookery's own."""
    if options.network is None:
        return Encoder(leaves, options.normalise_observations, options.images)
    network = _find(options)
    if _is_actor_critic(network, options):
        raise OptionError(f"network: {options.network} is an actor and critic, which only ppo can use; give an encoder")
    net = _made(options, network, observation_space)
    width = getattr(net, "features_dim", None)
    if not isinstance(width, int) or width < 1:
        raise OptionError(f"network: {options.network} should have an integer `features_dim`, got {width!r:.40}")
    encoder = CustomEncoder(net, observation_space, leaves, width, options.normalise_observations)
    _check_shape(options, encoder(_example(leaves)), width)
    return encoder


class CustomEncoder(Encoder):
    """A user's encoder with the interface of rookery's own. It gets images and choices as they are, and vectors
    normalised, where that is wanted."""

    def __init__(
        self, net: nn.Module, space: spaces.Space, leaves: Sequence[Leaf], width: int, normalise: bool
    ) -> None:
        super().__init__([leaf for leaf in leaves if leaf.kind == "vector"] if normalise else (), normalise)
        self.vectors = [k for k, leaf in enumerate(leaves) if leaf.kind == "vector"]
        self.widths = [leaves[k].width for k in self.vectors]
        self.net, self.width, self._space = net, width, space
        self.is_trained, self.is_vector, self.is_identity = True, False, False

    def forward(self, leaves: Sequence[Tensor]) -> Tensor:
        return self.net(_structured(self._space, iter(self.normalised(leaves))))

    def normalised(self, leaves: Sequence[Tensor]) -> Sequence[Tensor]:
        """The leaves as the user's network gets them."""
        if self.norm is None:
            return leaves
        found = list(leaves)
        parts = self.norm(self.vector(leaves)).split(self.widths, -1)
        for k, part in zip(self.vectors, parts, strict=True):
            found[k] = part.reshape(leaves[k].shape)
        return found


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
    layer_params: Sequence[tuple[Tensor, Tensor]] = ()

    def __init__(self, start: int, stop: int) -> None:
        super().__init__()
        self._columns = slice(start, stop)

    def forward(self, features: Tensor) -> Tensor:
        return features[:, self._columns]


def own_actor_critic(
    observation_space: spaces.Space, action_space: spaces.Space, leaves: Sequence[Leaf], options: Any, outputs: int
) -> tuple[Encoder, OutputColumns, OutputColumns] | None:
    """Encoder, actor and critic of PPO from one network of the user's own; None if the options name no such network."""
    if options.network is None or not _is_actor_critic(network := _find(options), options):
        return None
    if options.recurrent:
        raise OptionError(f"network: {options.network} is a whole actor and critic: `recurrent` has no place in it")
    net = _made(options, network, observation_space, action_space)
    if not callable(getattr(net, "actor", None)) or not callable(getattr(net, "critic", None)):
        raise OptionError(f"network: {options.network} is made with two spaces, so it should have `actor` and `critic`")
    joint = JointNetwork(net)
    encoder = CustomEncoder(joint, observation_space, leaves, outputs + 1, options.normalise_observations)
    _check_shape(options, encoder(_example(leaves)), outputs + 1)
    return encoder, OutputColumns(0, outputs), OutputColumns(outputs, outputs + 1)


def _find(options: Options) -> type[nn.Module]:
    name = str(options.network)
    found = find_in_file(name, "network")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise OptionError(f"network: {name} should be a class derived from torch.nn.Module, got {found!r:.60}")
    return found


def _made(options: Options, network: type[nn.Module], *spaces: spaces.Space) -> nn.Module:
    given = options.network_options
    try:
        inspect.signature(network).bind(*spaces, **given)
    except TypeError as error:
        known = ", ".join(list(inspect.signature(network).parameters)[len(spaces) :]) or "none"
        raise OptionError(f"network: {options.network}: {error}; its `network_options` are: {known}") from None
    return network(*spaces, **given)


def _is_actor_critic(network: type[nn.Module], options: Options) -> bool:
    """Whether it is made with both spaces, beside its options."""
    parameters = [p for name, p in inspect.signature(network).parameters.items() if name not in options.network_options]
    return len([p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]) == 2


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
