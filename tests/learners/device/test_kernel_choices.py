"""How kernels are launched: by sizes alone, so that no GPU is needed."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from rookery.learners.kernels.gpu import kernel_choices
from rookery.learners.kernels.gpu.kernel_shapes import HeadShape, NetShape


@pytest.mark.parametrize(("hidden", "first"), [((64, 64), 128), ((256, 256), 64)])
def test_later_launches_have_fewer_and_smaller_tiles(
    monkeypatch: pytest.MonkeyPatch, hidden: tuple[int, int], first: int
) -> None:
    """The last one is the smallest that there is."""
    monkeypatch.setattr(kernel_choices, "interpreting", lambda: False)
    monkeypatch.setattr(kernel_choices, "programs_of", lambda device: 132)
    head = HeadShape("gaussian", outputs=8, actions=8, parts=(), starts=())
    net = NetShape(105, hidden, head, "tanh", "bf16", True, 0, 1000, 2000, 3000)
    launches = kernel_choices.evaluate_launches(net, 100_000, torch.device("cuda"))
    sizes = [(launch.block, launch.stages) for launch in launches]
    assert sizes[0] == (first, 3) and sizes[-1] == (16, 1)
    assert all(later[0] * later[1] < earlier[0] * earlier[1] for earlier, later in pairwise(sizes))
