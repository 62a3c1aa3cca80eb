"""What a rollout keeps, group by group, and how it starts over."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.heads import CategoricalHead
from rookery.learners.observations import leaves_of
from rookery.learners.rollout import Rollout, _in_order

CPU = torch.device("cpu")
LEAVES = leaves_of(spaces.Box(-99, 99, (1,)))
QUIET = np.zeros(2, np.bool_)


def empty(length: int = 3, envs: int = 4, memory: int = 0) -> Rollout:
    rollout = Rollout(LEAVES, CategoricalHead(spaces.Discrete(2)), length, envs, memory, CPU)
    rollout.begin(torch.zeros(length, envs, 2), torch.zeros(envs, memory))
    return rollout


def step(rollout: Rollout, rows: slice, seen: float, ends: dict[int, bool] | None = None) -> None:
    """Two envs make a step; `ends` says which places ended, and whether by truncation."""
    t, ends = rollout.steps_made(rows), ends or {}
    features = torch.full((2, rollout.first_memory.shape[1]), seen)
    rollout.store(t, rows, [torch.full((2, 1), seen)], torch.zeros(2, 2), torch.ones(2), features)
    terminated, truncated = QUIET.copy(), QUIET.copy()
    for place, cut in ends.items():
        (truncated if cut else terminated)[place] = True
    places = np.array(sorted(place for place, cut in ends.items() if cut), np.int64)
    finals = (places, [torch.tensor([[100.0 + seen + k] for k in places])]) if len(places) else None
    rollout.store_outcome(rows, np.full(2, seen), terminated, truncated, finals)


FIRST, SECOND = slice(0, 2), slice(2, 4)


def test_groups_have_clocks_of_their_own() -> None:
    """A rollout is full when every group has made all its steps, in whatever order."""
    rollout = empty()
    for _ in range(3):
        step(rollout, FIRST, 1.0)
    assert (rollout.steps_made(FIRST), rollout.steps_made(SECOND), rollout.full) == (3, 0, False)
    for _ in range(3):
        assert not rollout.full
        step(rollout, SECOND, 2.0)
    assert rollout.full
    assert rollout.rewards.tolist() == [[1.0, 1.0, 2.0, 2.0]] * 3
    assert rollout.observations[0][:, :, 0].tolist() == rollout.rewards.tolist()


def test_ends_are_marked_and_followed_by_starts() -> None:
    """An end at step t makes a start at t + 1, for that env alone; only truncated ones keep their last observation."""
    rollout = empty()
    step(rollout, SECOND, 5.0, {0: False, 1: True})
    assert rollout.ended.nonzero().tolist() == [[0, 2], [0, 3]]
    assert rollout.terminated.nonzero().tolist() == [[0, 2]]
    assert rollout.starts.nonzero().tolist() == [[1, 2], [1, 3]]
    ((t, envs, leaves),) = rollout.finals
    assert (t, envs.tolist(), leaves[0].tolist()) == (0, [3], [[106.0]])


def test_an_end_at_the_last_step_starts_nothing() -> None:
    """The next rollout's first step has its memory reset instead."""
    rollout = empty(length=1)
    step(rollout, FIRST, 1.0, {0: True})
    assert not rollout.starts.any()
    assert rollout.ended[0, 0]


def test_clearing_leaves_nothing_behind() -> None:
    """Flags, finals, masks and clocks of one rollout do not reach the next."""
    rollout = empty()
    rollout.store_mask(0, FIRST, np.array([[True, False], [False, True]]))
    for rows in (FIRST, SECOND):
        step(rollout, rows, 1.0, {0: True, 1: False})
    rollout.clear()
    assert not any(flags.any() for flags in (rollout.ended, rollout.terminated, rollout.starts))
    assert rollout.masks is not None and rollout.masks.all()
    assert (rollout.finals, rollout.steps_made(FIRST), rollout.full, rollout.noise) == ([], 0, False, None)


def test_a_half_filled_rollout_survives() -> None:
    """State and load give the same arrays, flags, finals and clocks; between rollouts there is nothing to keep."""
    rollout, other = empty(memory=2), empty(memory=2)
    rollout.store_mask(0, SECOND, np.array([[True, False], [False, True]]))
    step(rollout, SECOND, 5.0, {0: False, 1: True})
    other.load(rollout.state())
    assert (other.steps_made(FIRST), other.steps_made(SECOND)) == (0, 1)
    for name, value in rollout.tensors().items():
        assert torch.equal(other.tensors()[name], value), name
    ((t, envs, leaves),) = other.finals
    assert (t, envs.tolist(), leaves[0].tolist()) == (0, [3], [[106.0]])
    rollout.clear()
    assert rollout.state() == {}
    other.load({})
    assert (other.steps_made(SECOND), other.noise) == (0, None)


def test_a_state_is_a_copy() -> None:
    """Filling on does not reach what was saved."""
    rollout = empty()
    step(rollout, FIRST, 1.0)
    saved = rollout.state()
    step(rollout, FIRST, 2.0)
    assert saved["arrays"]["rewards"][1].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert saved["clocks"] == {"0": 1}


@pytest.mark.parametrize("shape", [(6, 4, 4, 3), (6, 2, 3, 3), (6, 5, 8)])
@pytest.mark.parametrize("axis", [0, 1])
def test_images_are_shuffled_as_all_else(shape, axis) -> None:
    """Also where their bytes are moved eight at a time."""
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    order = torch.tensor([1, 0])
    assert torch.equal(_in_order(images, axis, order), images.index_select(axis, order))
    turned = images.transpose(-1, -2)
    assert torch.equal(_in_order(turned, axis, order), turned.index_select(axis, order))
