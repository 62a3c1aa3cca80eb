"""The sum tree on a device: what it samples, and that order and repetition change nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rookery.errors import CheckpointError
from rookery.learners.sumtree import BLOCK, UNIT, DeviceSumTree, SumTree

CPU = torch.device("cpu")


@pytest.mark.parametrize("capacity", [1, 7, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_it_samples_what_the_tree_on_the_host_samples(capacity: int) -> None:
    """Places, importance weights and the total."""
    rng = np.random.default_rng(capacity)
    places = rng.permutation(capacity)[: max(1, capacity // 2)]
    priorities = np.round(rng.exponential(1.0, len(places)) / UNIT + 1) * UNIT
    host, device = SumTree(capacity), DeviceSumTree(capacity, CPU)
    host.set(places, priorities)
    device.set(torch.from_numpy(places), torch.from_numpy(priorities))
    uniform = rng.random(64)
    wanted, found = host.sample(uniform), device.sample(torch.from_numpy(uniform))
    assert device.total == host.total and np.array_equal(found, wanted)
    weights = device.weights(found, torch.tensor(0.4, dtype=torch.float64))
    np.testing.assert_allclose(weights, host.weights(wanted, 0.4), rtol=1e-6)
    np.testing.assert_array_equal(device.priorities(places), host.priorities(places))


def test_the_greatest_of_a_place_that_is_named_twice_holds() -> None:
    """In whatever order they are written."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        tree = DeviceSumTree(600, CPU)
        tree.set(torch.tensor([5]), torch.tensor([9.0]))
        tree.set(torch.tensor([5, 5, 300])[order], torch.tensor([1.0, 2.0, 4.0])[order])
        assert tree.priorities(np.array([5, 300])).tolist() == [2.0, 4.0] and tree.total == 6.0


def test_new_places_get_the_greatest_priority() -> None:
    """And 1 if there is none."""
    tree = DeviceSumTree(4, CPU)
    tree.set_new(torch.tensor([0, 1]))
    assert tree.priorities(slice(0, 4)).tolist() == [1.0, 1.0, 0.0, 0.0]
    tree.set(torch.tensor([1]), torch.tensor([0.25]))
    tree.set(torch.tensor([0]), torch.tensor([0.5]))
    tree.set_new(torch.tensor([2]))
    assert tree.priorities(slice(0, 4)).tolist() == [0.5, 0.25, 0.5, 0.0]


def test_extremes_and_saved_priorities() -> None:
    """No priority becomes 0, none is too large for sums, and saved ones come back."""
    tree = DeviceSumTree(BLOCK + 2, CPU)
    tree.set(torch.tensor([0, BLOCK + 1]), torch.tensor([0.0, float("inf")]))
    assert tree.priorities(np.array([0])).tolist() == [UNIT]
    assert set(tree.sample(torch.rand(100)).tolist()) <= {0, BLOCK + 1}
    other = DeviceSumTree(BLOCK + 2, CPU)
    other.load(tree.priorities(slice(0, BLOCK + 2)))
    assert other.total == tree.total
    with pytest.raises(CheckpointError, match="do not fit 258 transitions"):
        other.load(np.zeros(300))
