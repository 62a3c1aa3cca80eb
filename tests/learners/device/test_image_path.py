"""The fast way of images through convolutions gives the features and gradients of the plain one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.image_nets import ImageNet, ResidualImageNet
from rookery.learners.kernels.gpu.image_path import image_features
from rookery.learners.observations import leaves_of

SHAPES = [(84, 84, 4), (4, 84, 84), (84, 84), (36, 40, 1), (3, 60, 61), (13, 17, 3), (12, 12, 3)]


def images(shape: tuple[int, ...], dtype: type = np.uint8, kind: type = ImageNet) -> tuple[ImageNet, torch.Tensor]:
    high = 255 if dtype is np.uint8 else 1.0
    (leaf,) = leaves_of(spaces.Box(0, high, shape, dtype))
    torch.manual_seed(1)
    net = kind(leaf)
    generator = torch.Generator().manual_seed(2)
    batch = torch.randint(0, 256, (3, *shape), generator=generator, dtype=torch.uint8)
    return net, batch if dtype is np.uint8 else batch.float() / 255


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "kind"), [*((shape, ImageNet) for shape in SHAPES), ((4, 84, 84), ResidualImageNet)])
def test_features_and_gradients_are_those_of_the_plain_net(shape, kind):
    net, batch = images(shape, kind=kind)
    direction = torch.randn(3, net.features, generator=torch.Generator().manual_seed(3))
    plain, fast = net(batch), image_features(net, batch, torch.float32)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4 * float(plain.detach().abs().max()))
    parameters = list(net.parameters())
    expected = torch.autograd.grad((plain * direction).sum(), parameters)
    for mine, its in zip(torch.autograd.grad((fast * direction).sum(), parameters), expected, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-3 * float(its.abs().max()))


def test_normalised_images_and_float_images():
    (leaf,) = leaves_of(spaces.Box(0, 255, (84, 84, 4), np.uint8))
    net = ImageNet(leaf, normalise=True)
    _, batch = images((84, 84, 4))
    net.update_normalisers(batch)
    torch.testing.assert_close(image_features(net, batch, torch.float32), net(batch), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@torch.no_grad()
def test_bf16_is_near():
    """Bytes are exact in bf16; what is lost is that of the products."""
    net, batch = images((84, 84, 4))
    plain, fast = net(batch), image_features(net, batch, torch.bfloat16)
    assert fast.dtype == torch.float32
    assert float((fast - plain).abs().mean()) < 0.01 * float(plain.abs().mean() + plain.std())
