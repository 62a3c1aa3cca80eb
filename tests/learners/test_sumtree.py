"""The sum tree: sums, draws, and no memory of how it came to be."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.learners.sumtree import SumTree


def random_tree(capacity: int, rng: np.random.Generator, rounds: int = 30) -> SumTree:
    tree = SumTree(capacity)
    for _ in range(rounds):
        places = rng.integers(capacity, size=rng.integers(1, 20))
        tree.set(places, rng.random(len(places)) * 10.0 ** rng.integers(-6, 6, len(places)))
    return tree


@pytest.mark.parametrize("capacity", [1, 2, 3, 64, 100, 1000])
def test_sums_and_the_largest_follow_the_leaves(capacity: int) -> None:
    """After any number of changes, what the tree says of the whole is what its leaves say."""
    tree = random_tree(capacity, np.random.default_rng(capacity))
    leaves = tree.priorities(slice(None))
    assert tree.total == pytest.approx(leaves.sum(), rel=1e-12)
    assert tree.largest == leaves.max()


@pytest.mark.parametrize("capacity", [1, 7, 256, 999])
def test_history_leaves_no_trace(capacity: int) -> None:
    """A tree built from its leaves alone is the same to the last bit."""
    tree = random_tree(capacity, np.random.default_rng(capacity), rounds=200)
    again = SumTree(capacity)
    again.load(tree.priorities(slice(None)).copy())
    assert np.array_equal(tree._sums, again._sums)
    assert np.array_equal(tree._peaks, again._peaks)
    assert tree.total == again.total


def test_loading_forgets_what_was_there() -> None:
    """Places beyond those that are loaded are empty afterwards."""
    tree = random_tree(50, np.random.default_rng(0))
    tree.load(np.array([1.0, 2.0]))
    assert tree.total == 3.0
    assert tree.largest == 2.0


def test_of_a_place_named_twice_the_last_priority_holds() -> None:
    """As if the two had been set one after the other."""
    tree = SumTree(4)
    tree.set(np.array([1, 1]), np.array([5.0, 2.0]))
    assert tree.total == tree.largest == 2.0


def test_draws_are_in_proportion() -> None:
    """Over many draws each place comes up as often as its priority says."""
    rng = np.random.default_rng(1)
    priorities = rng.random(37) ** 3
    tree = SumTree(37)
    tree.set(np.arange(37), priorities)
    drawn = np.concatenate([tree.sample(rng.random(64)) for _ in range(4000)])
    found = np.bincount(drawn, minlength=37) / len(drawn)
    assert np.abs(found - priorities / priorities.sum()).max() < 0.002


def test_a_batch_is_stratified() -> None:
    """With equal priorities, one draw falls into each equal share."""
    tree = SumTree(64)
    tree.set(np.arange(64), np.ones(64))
    assert tree.sample(np.random.default_rng(2).random(64)).tolist() == list(range(64))


def test_weights_undo_the_choice() -> None:
    """Fully with exponent 1: what is drawn three times as often counts a third."""
    tree = SumTree(4)
    tree.set(np.arange(4), np.array([1.0, 3.0, 0.5, 0.0]))
    assert tree.weights(np.array([0, 1, 1]), 1.0) == pytest.approx([1, 1 / 3, 1 / 3])
    assert tree.weights(np.array([0, 2]), 0.5) == pytest.approx([0.5**0.5, 1])


@pytest.mark.parametrize("seed", range(20))
def test_an_empty_place_is_never_drawn(seed: int) -> None:
    """Not even at the very ends, where rounding could carry a draw past the last priority."""
    rng = np.random.default_rng(seed)
    capacity = int(rng.integers(2, 300))
    filled = rng.choice(capacity, size=rng.integers(1, capacity), replace=False)
    tree = SumTree(capacity)
    tree.set(filled, rng.random(len(filled)) * 10.0 ** rng.integers(-8, 8, len(filled)) + 1e-12)
    for uniform in (np.zeros(50), np.full(50, np.nextafter(1.0, 0.0)), np.ones(50), rng.random(50)):
        assert np.isin(tree.sample(uniform), filled).all()
