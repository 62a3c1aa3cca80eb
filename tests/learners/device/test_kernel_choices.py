"""How kernels are launched: by sizes alone, so that no GPU is needed."""

from __future__ import annotations

import pytest
import torch

from rookery.learners.device import kernel_choices
from rookery.learners.device.kernel_shapes import HeadShape, NetShape

H200, RTX_4090 = 232_448, 101_376  # bytes on the chip


def net(inputs: int) -> NetShape:
    head = HeadShape("gaussian", outputs=8, actions=8, parts=(), starts=())
    return NetShape(inputs, (64, 64), head, "tanh", "bf16", True, 0, 1000, 2000, 3000)


@pytest.mark.parametrize(
    ("inputs", "number_bytes", "memory", "block"),
    [
        (17, 8, H200, 128),  # a half-cheetah
        (105, 8, H200, 64),  # an ant in double precision: two tiles of 128 rows would take 256 KB
        (105, 4, H200, 128),
        (105, 4, RTX_4090, 64),
        (105, 8, RTX_4090, 32),
    ],
)
def test_tiles_of_wide_observations_fit_on_the_chip(monkeypatch, inputs, number_bytes, memory, block):
    monkeypatch.setattr(kernel_choices, "chip_memory", lambda device: memory)
    monkeypatch.setattr(kernel_choices, "interpreting", lambda: False)
    monkeypatch.setattr(kernel_choices, "programs_of", lambda device: 132)
    launch = kernel_choices.evaluate_launch(net(inputs), 100_000, torch.device("cuda"), number_bytes)
    assert launch.block == block
