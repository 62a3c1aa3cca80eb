"""Networks that read one image: convolutions, residual convolutions, or its pixels as a vector."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rookery.learners.networks import orthogonal
from rookery.learners.normalize import RunningNorm
from rookery.learners.observations import Leaf

IMAGE_FLOOR = 0.01  # of a pixel's variance, black being 0 and white 1
VECTOR_FLOOR = 1e-8
RESIDUAL_WIDTHS, RESIDUAL_FEATURES = (16, 32, 32), 256
IMAGES_AT_ONCE = 256  # for statistics, in double precision: 58 MB of 84 x 84 x 4


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


class ImageInput(nn.Module):
    """One image as numbers near 0 to 1, normalised pixel by pixel."""

    features: int

    def __init__(self, leaf: Leaf, normalise: bool, floor: float) -> None:
        super().__init__()
        self.leaf = leaf
        self.norm = RunningNorm(math.prod(leaf.shape), floor) if normalise else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of `planes`. Sizes of layers follow from it by arithmetic: to pass an example
        through them on torch's meta device, where the size of a net is found out, imports its compiler for 1.4 s."""
        shape = self.leaf.shape
        if len(shape) == 2:
            return 1, *shape
        return (shape[-1], *shape[:-1]) if self.leaf.channels_last else shape

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


class ImageNet(ImageInput):
    """Convolutions for one image: three layers, with strides that fit its size.

    Normalised, each pixel is relative to its own mean. On a screen that is mostly scenery, two states differ in few
    pixels: an agent on a Game Boy learned from the screen after 60,000 steps, without after 300,000 or never.
    """

    def __init__(self, leaf: Leaf, normalise: bool = False) -> None:
        super().__init__(leaf, normalise, IMAGE_FLOOR)
        channels, *sides = self.shape
        plan = next(plan for plan in IMAGE_PLANS if min(sides) >= plan.side)
        self.features = plan.features
        layers = list[nn.Module]()
        for width, kernel, stride in plan.convolutions:
            layers += [orthogonal(nn.Conv2d(channels, width, kernel, stride)), nn.ReLU()]
            channels, sides = width, [(side - kernel) // stride + 1 for side in sides]
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.project = nn.Sequential(orthogonal(nn.Linear(channels * math.prod(sides), self.features)), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """Features of a batch of images."""
        return self.project(self.convolutions(self.normalised(image)))


class ResidualImageNet(ImageInput):
    """The residual network of IMPALA (Espeholt et al., 2018) for one image: three times a convolution, a pooling to
    half the size and two residual blocks."""

    def __init__(self, leaf: Leaf, normalise: bool = False) -> None:
        super().__init__(leaf, normalise, IMAGE_FLOOR)
        channels, *sides = self.shape
        stages = list[nn.Module]()
        for width in RESIDUAL_WIDTHS:
            stages += [_same_size(channels, width), HalvingPool(), ResidualBlock(width), ResidualBlock(width)]
            channels, sides = width, [(side + 1) // 2 for side in sides]
        self.stages = nn.Sequential(*stages, nn.ReLU(), nn.Flatten())
        self.features = RESIDUAL_FEATURES
        self.project = nn.Sequential(orthogonal(nn.Linear(channels * math.prod(sides), self.features)), nn.ReLU())

    def forward(self, image: Tensor) -> Tensor:
        """Features of a batch of images."""
        return self.of_planes(self.normalised(image))

    def of_planes(self, planes: Tensor) -> Tensor:
        """Features of a batch of images [batch, channels, height, width], normalised."""
        return self.project(self.stages(planes))


class ResidualBlock(nn.Module):
    """Two convolutions whose result is added to what they read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.change = nn.Sequential(nn.ReLU(), _same_size(width, width), nn.ReLU(), _same_size(width, width))

    def forward(self, planes: Tensor) -> Tensor:
        return planes + self.change(planes)


class HalvingPool(nn.Module):
    """The maximum of 3 x 3 pixels around every second one, rows first. torch's own pooling adds gradients in any order
    on a GPU: the same seed would not give the same numbers."""

    def forward(self, planes: Tensor) -> Tensor:
        for dim in (2, 3):
            around = torch.maximum(_shifted(planes, dim, -1), _shifted(planes, dim, 1))
            planes = _every_second(torch.maximum(planes, around), dim)
        return planes


def _shifted(planes: Tensor, dim: int, by: int) -> Tensor:
    """Each pixel's neighbour; the edge repeats, which changes no maximum."""
    size = planes.shape[dim]
    edge = planes.narrow(dim, 0 if by < 0 else size - 1, 1)
    inner = planes.narrow(dim, 0 if by < 0 else 1, size - 1)
    return torch.cat([edge, inner] if by < 0 else [inner, edge], dim)


def _every_second(planes: Tensor, dim: int) -> Tensor:
    return planes[:, :, ::2] if dim == 2 else planes[:, :, :, ::2]


def _same_size(channels: int, width: int) -> nn.Conv2d:
    return orthogonal(nn.Conv2d(channels, width, 3, padding=1))
