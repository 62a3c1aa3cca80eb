"""Rollouts that are filled with rows of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.learners.algorithms.ppo import PPO
from rookery.learners.registry import PPOOptions
from rookery.learners.remote_steps import RowFiller, WaitingRows

LENGTH = 3


def learner(envs: int = 4) -> PPO:
    options = PPOOptions(rollout_length=LENGTH, hidden=[4])
    return PPO(spaces.Box(-2, 2, (2,)), spaces.Discrete(3), options, envs)


def part(value: int, rows: int, **more: Any) -> dict[str, Any]:
    """A part in which everything of row k is `value` + k."""
    numbers = value + np.arange(rows)
    steps = np.tile(numbers, (LENGTH, 1))
    flags = {name: steps % 2 == 0 for name in ("terminated", "ended", "starts")}
    return {
        "observation0": np.repeat(steps[..., None], 2, -1), "last0": np.repeat(numbers[:, None], 2, -1),
        "actions": steps, "outputs": np.repeat(steps[..., None], 3, -1), "rewards": steps, "log_probs": -steps,
        **flags, **more,
    }  # fmt: skip


def test_rows_go_to_the_places_of_their_envs() -> None:
    """In any order; the rollout is full with the last one."""
    owner = learner()
    rollout, filler = owner.rollout, RowFiller(owner.rollout)
    assert filler.place(WaitingRows(part(12, 2), np.array([2, 3]), 0)) == 2 and not filler.is_full
    assert filler.place(WaitingRows(part(10, 2), np.array([0, 1]), 0)) == 2 and filler.is_full
    assert rollout.full and owner.ready()
    assert rollout.rewards.tolist() == [[10, 11, 12, 13]] * LENGTH
    assert rollout.log_probs is not None and rollout.log_probs.tolist() == [[-10, -11, -12, -13]] * LENGTH
    assert rollout.ended.tolist() == [[True, False, True, False]] * LENGTH
    assert rollout.last[0].tolist() == [[k, k] for k in (10, 11, 12, 13)]


def test_a_fast_collector_takes_the_places_of_others() -> None:
    """And what has no room is in the next rollout."""
    owner = learner()
    rollout, filler = owner.rollout, RowFiller(owner.rollout)
    filler.place(WaitingRows(part(10, 3), np.arange(3), 0))
    waiting = WaitingRows(part(20, 3), np.arange(3), 1)
    assert filler.place(waiting) == 1 and filler.is_full and waiting.count == 2
    assert rollout.rewards[0].tolist() == [10, 11, 12, 20]
    rollout.clear()
    following = RowFiller(rollout)
    assert following.place(waiting) == 2 and waiting.count == 0
    assert rollout.rewards[0].tolist()[1:3] == [21, 22] and not rollout.full


def test_last_observations_go_with_their_rows() -> None:
    """Only those of rows that were placed, at their places."""
    owner = learner()
    filler = RowFiller(owner.rollout)
    filler.place(WaitingRows(part(0, 3), np.arange(3), 0))
    finals = {
        "final_steps": np.array([1, 2]),
        "final_envs": np.array([0, 1]),
        "final_leaf0": np.array([[5.0, 6], [7, 8]]),
    }
    waiting = WaitingRows(part(20, 2, **finals), np.arange(2), 0)
    filler.place(waiting)
    ((step, places, leaves),) = owner.rollout.finals
    assert (step, places.tolist(), leaves[0].tolist()) == (1, [3], [[5, 6]])
    owner.rollout.clear()
    RowFiller(owner.rollout).place(waiting)
    ((step, places, leaves),) = owner.rollout.finals
    assert (step, places.tolist(), leaves[0].tolist()) == (2, [1], [[7, 8]])


def test_masks_go_with_their_rows() -> None:
    """Other rows have none, and may do everything."""
    owner = learner()
    masks = np.zeros((LENGTH, 2, 3), bool)
    masks[:, 1, 2] = True
    RowFiller(owner.rollout).place(WaitingRows(part(0, 2, masks=masks), np.array([2, 3]), 0))
    assert owner.rollout.masks is not None
    assert owner.rollout.masks[0].tolist() == [[True] * 3, [True] * 3, [False] * 3, [False, False, True]]
