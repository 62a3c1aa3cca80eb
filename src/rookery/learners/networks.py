"""The networks all learners share: an encoder that reads any observation, and perceptrons on top."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear

from rookery.learners.image_space import SMALL_IMAGE
from rookery.learners.normalize import RunningNorm
from rookery.learners.observations import Leaf
from rookery.learners.one_thread import one_thread

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
Params = Sequence[tuple[Tensor, Tensor]]  # weights and biases, layer by layer


class ImagePlan(NamedTuple):
    """The convolutions for images whose shorter side is at least `side`: width, kernel and stride of each, and the
    number of features."""

    side: int
    convolutions: tuple[tuple[int, int, int], ...]
    features: int


# Large images shrink as in the classic network for Atari. That one would reduce an image of 36 x 40 to a single
# position, and lose where things are: smaller strides keep 5 x 6 positions, at half the width for the same cost.
IMAGE_PLANS = (
    ImagePlan(56, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    ImagePlan(24, ((16, 4, 2), (32, 4, 2), (32, 3, 1)), 256),
    ImagePlan(12, ((32, 3, 2), (64, 3, 1), (64, 3, 1)), 512),
    ImagePlan(0, ((32, 3, 1), (64, 3, 1), (64, 3, 1)), 512),
)
IMAGE_FLOOR = 0.01  # of a pixel's variance, black being 0 and white 1
VECTOR_FLOOR = 1e-8
IMAGES_AT_ONCE = 256  # for statistics, in double precision: 58 MB of 84 x 84 x 4
HUGE_LAYER = 1 << 25  # weights
Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


def orthogonal(layer: Layer, gain: float = math.sqrt(2)) -> Layer:
    """Orthogonal weights and zero biases, the same ones however many threads torch has."""
    if layer.weight.numel() < HUGE_LAYER:
        with one_thread():
            nn.init.orthogonal_(layer.weight, gain)
    else:  # takes minutes; so many random numbers in a row are nearly orthogonal to those of another
        nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(layer.weight[0].numel()))
    nn.init.zeros_(layer.bias)
    return layer


def forward_hidden(features: Tensor, layers: Params, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Features through hidden layers. It calls the operations itself: for batches of 64 rows, `nn.Sequential` spends
    half its time on calling modules."""
    for weight, bias in layers:
        features = activation(linear(features, weight, bias))
    return features


class MLP(nn.Module):
    """A perceptron; `gain` scales the initial weights of its last layer."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, activation: str, gain: float = 1.0) -> None:
        super().__init__()
        widths = [inputs, *hidden, outputs]
        gains = [math.sqrt(2)] * len(hidden) + [gain]
        layers = [orthogonal(nn.Linear(a, b), gain) for a, b, gain in zip(widths[:-1], widths[1:], gains, strict=True)]
        self.layers = nn.ModuleList(layers)
        self.activation_name, self.activation = activation, ACTIVATIONS[activation]
        self.layer_params = [(layer.weight, layer.bias) for layer in layers]

    def forward(self, features: Tensor) -> Tensor:
        """[batch, outputs]"""
        *hidden, last = self.layer_params
        return linear(forward_hidden(features, hidden, self.activation), *last)


class Encoder(nn.Module):
    """Leaves of an observation to one row of features: vectors as they are, choices as one-hot, images through
    convolutions ("cnn"), as vectors of pixels ("flat"), or of levels of grey ("levels"). `normalise` shifts and scales
    vectors and images by running statistics."""

    def __init__(self, leaves: Sequence[Leaf], normalise: bool, images_as: str = "cnn") -> None:
        super().__init__()
        flat = images_as in ("flat", "levels")

        def net(leaf: Leaf, normalise: bool) -> ImageInput:
            kind = LevelledImage if images_as == "levels" and leaf.levels else FlatImage if flat else ImageNet
            return kind(leaf, normalise)

        self.vectors = [k for k, leaf in enumerate(leaves) if leaf.kind == "vector"]
        self.choices = [(k, leaf) for k, leaf in enumerate(leaves) if leaf.kind == "choice"]
        images = {str(k): net(leaf, normalise) for k, leaf in enumerate(leaves) if leaf.kind == "image"}
        self.images = nn.ModuleDict(images)
        width = sum(leaves[k].width for k in self.vectors)
        self.norm = RunningNorm(width) if normalise and width else None
        self.is_trained = bool(images) and not flat  # whether it has parameters
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


class ImageInput(nn.Module):
    """One image as numbers near 0 to 1, normalised pixel by pixel."""

    features: int

    def __init__(self, leaf: Leaf, normalise: bool, floor: float) -> None:
        super().__init__()
        self.leaf = leaf
        self.norm = RunningNorm(math.prod(leaf.shape), floor) if normalise else None

    def planes(self, image: Tensor) -> Tensor:
        """[batch, channels, height, width], as numbers near 0 to 1."""
        if len(self.leaf.shape) == 2:
            image = image.unsqueeze(1)
        elif self.leaf.channels_last:
            image = image.movedim(-1, 1)
        return image.float() / 255.0 if self.leaf.byte else image

    def normalised(self, image: Tensor) -> Tensor:
        """The same, relative to the running statistics."""
        planes = self.planes(image)
        return planes if self.norm is None else self.norm(planes.flatten(1)).view(planes.shape)

    def update_normalisers(self, images: Tensor) -> None:
        """Add a batch to the running statistics."""
        if self.norm is not None:
            for some in images.split(IMAGES_AT_ONCE):
                self.norm.update(self.planes(some).flatten(1))


class FlatImage(ImageInput):
    """All pixels of one small image as a vector, scaled as vectors are: a pixel that is rarely on counts as much as
    others. Convolutions would lose where things are."""

    def __init__(self, leaf: Leaf, normalise: bool) -> None:
        super().__init__(leaf, normalise, VECTOR_FLOOR)
        self.features = math.prod(leaf.shape)
        self.register_buffer("flat", torch.ones(1))  # tells a checkpoint of it from one of a vector

    def forward(self, image: Tensor) -> Tensor:
        """The pixels of a batch of images."""
        return self.normalised(image).flatten(1)


class LevelledImage(ImageInput):
    """A small image of greys as a vector: for each pixel and level, whether the pixel reaches it."""

    levels: Tensor

    def __init__(self, leaf: Leaf, normalise: bool) -> None:
        super().__init__(leaf, False, VECTOR_FLOOR)
        self.features = math.prod(leaf.shape) * len(leaf.levels)
        self.norm = RunningNorm(self.features, VECTOR_FLOOR) if normalise else None
        self.register_buffer("levels", torch.tensor(leaf.levels, dtype=torch.uint8))

    def planes(self, image: Tensor) -> Tensor:
        """[batch, pixels and levels], as 0 or 1."""
        return (image.flatten(1).unsqueeze(-1) >= self.levels).flatten(1).float()

    def forward(self, image: Tensor) -> Tensor:
        """The levels of a batch of images."""
        return self.normalised(image)


def all_images_small(leaves: Sequence[Leaf]) -> bool:
    """Whether every image has a side below 12 pixels."""
    images = [leaf for leaf in leaves if leaf.kind == "image"]
    return all(min(leaf.shape[:2] if leaf.channels_last else leaf.shape[-2:]) < SMALL_IMAGE for leaf in images)


class ImageNet(ImageInput):
    """Convolutions for one image: three layers, with strides that fit its size.

    Normalised, each pixel is relative to its own mean. On a screen that is mostly scenery, two states differ in few
    pixels: an agent on a Game Boy learned from the screen after 60,000 steps, without after 300,000 or never.
    """

    def __init__(self, leaf: Leaf, normalise: bool = False) -> None:
        super().__init__(leaf, normalise, IMAGE_FLOOR)
        shape = self.planes(torch.zeros(1, *leaf.shape)).shape
        plan = next(plan for plan in IMAGE_PLANS if min(shape[2:]) >= plan.side)
        self.features = plan.features
        channels, layers = shape[1], list[nn.Module]()
        for width, kernel, stride in plan.convolutions:
            layers += [orthogonal(nn.Conv2d(channels, width, kernel, stride)), nn.ReLU()]
            channels = width
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        flat = self.convolutions(torch.zeros(1, *shape[1:])).shape[1]
        self.project = nn.Sequential(orthogonal(nn.Linear(flat, self.features)), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """Features of a batch of images."""
        return self.project(self.convolutions(self.normalised(image)))


class EnsembleMLP(nn.Module):
    """Several perceptrons with one output each as a single network: weights [count, inputs, outputs], so that a layer
    of all of them is one batched product."""

    def __init__(self, count: int, inputs: int, hidden: Sequence[int], activation: str) -> None:
        super().__init__()
        members = [MLP(inputs, hidden, 1, activation).layers for _ in range(count)]
        weights = [torch.stack([layer.weight.detach().T for layer in layers]) for layers in zip(*members, strict=True)]
        self.weights = nn.ParameterList(weights)
        self.biases = nn.ParameterList([torch.zeros(count, 1, weight.shape[2]) for weight in weights])
        self.activation = ACTIVATIONS[activation]
        self._layers = list(zip(self.weights, self.biases, strict=True))

    def forward(self, features: Tensor, members: slice | Tensor | None = None) -> Tensor:
        """The output of each member, or of some, for features [batch, inputs], as [members, batch]."""
        layers = (
            self._layers if members is None else [(weight[members], bias[members]) for weight, bias in self._layers]
        )
        *hidden, (weight, bias) = layers
        values = features.expand(len(weight), *features.shape)
        for inner_weight, inner_bias in hidden:
            values = self.activation(torch.baddbmm(inner_bias, values, inner_weight))
        return torch.baddbmm(bias, values, weight).squeeze(-1)


class Critics(nn.Module):
    """An ensemble of critics over the actor's encoder, which only the critics' loss trains."""

    def __init__(self, count: int, encoder: Encoder, actions: int, hidden: Sequence[int], activation: str) -> None:
        super().__init__()
        self.encoder = encoder
        self.ensemble = EnsembleMLP(count, encoder.width + actions, hidden, activation)

    def forward(self, features: Tensor, actions: Tensor, members: slice | Tensor | None = None) -> Tensor:
        """The values of actions by each critic, or by some, [members, batch]."""
        return self.ensemble(torch.cat([features, actions], -1), members)


def with_params_from(module: nn.Module, flat: Tensor) -> nn.Module:
    """A copy of a module whose parameters are views of one vector, without gradients: the vector that an optimizer
    trains, for a copy that always has the newest weights, or a clone of it, for a target network."""
    other, start = copy.deepcopy(module), 0
    for p in other.parameters():
        p.requires_grad_(False)
        p.data = flat[start : start + p.numel()].view(p.shape)
        start += p.numel()
    return other
