"""Recorded steps in the replay buffer: the same transitions as when the learner makes these steps itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.offpolicy_tools import Batch, Centre, Corridor
from rookery.errors import DataError
from rookery.learners import registry
from rookery.learners.learner import Learner
from rookery.training.run.dataset_start import Steps, own_actions, store_steps

SEEN = spaces.Box(-2, 2, (1,), np.float32)
PUSH = spaces.Box(-2, 2, (1,), np.float32)
ONE = slice(0, 1)


class Edge(Centre):
    """Of which one falls off soon."""

    def move(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return super().move(actions)[0], np.abs(self.position) >= 0.8


def make(name: str = "sac", actions: spaces.Space = PUSH, seen: spaces.Space = SEEN, **options: Any) -> Learner:
    """That never learns."""
    small = {"hidden": [8], "batch_size": 8, "buffer_size": 400, "start_steps": 10**6, "gamma": 0.9}
    return registry.make_learner(name, seen, actions, registry.option_classes()[name](**{**small, **options}), 1)


def recorded(learner: Learner, envs: Batch, rounds: int) -> Steps:
    """What a learner does, which records it too."""
    rows: list[tuple[Any, ...]] = []
    seen = envs.observe()
    for _ in range(rounds):
        actions = learner.explore(seen, ONE)
        step = envs.step(actions)
        after = step.finals[1][0] if step.finals else step.observations[0]
        rows.append((seen[0], actions[0], step.rewards[0], after, step.terminated[0], step.truncated[0]))
        learner.record(ONE, step)
        seen = step.observations
    ended = np.flatnonzero([row[4] or row[5] for row in rows])[-1]
    return Steps(*(np.array(column) for column in zip(*rows[: ended + 1], strict=True)))


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sac": ("sac", {"n_step": 1}),
    "xqc": ("xqc", {"n_step": 3, "critic_hidden": [8], "normalise_observations": True}),
    "td3": ("td3", {"n_step": 5, "prioritised": True}),
    "dqn": ("dqn", {"n_step": 3, "normalise_rewards": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_they_are_the_transitions_of_steps_that_were_made(case: str) -> None:
    """To the bit, with ends of both kinds, in a long and a short last piece."""
    name, options = CASES[case]
    actions = spaces.Discrete(2) if name == "dqn" else PUSH
    world = Corridor(1, 6, 0) if name == "dqn" else Edge(1, 20, 0)
    live, other = make(name, actions, **options), make(name, actions, **options)
    steps = recorded(live, world, 150)
    assert steps.terminations.any() and steps.truncations.any()
    store_steps(other, steps)
    count = len(steps.rewards)
    assert other.replay.size == count and other.steps == other.updates_due == 0
    made, kept = (learner.replay.batch(torch.arange(count)) for learner in (live, other))
    for one, two in zip([*made.leaves, *made.next_leaves], [*kept.leaves, *kept.next_leaves], strict=True):
        assert torch.equal(one, two)
    assert torch.equal(made.actions, kept.actions)
    assert torch.equal(made.rewards, kept.rewards) and torch.equal(made.discounts, kept.discounts)
    if other.tree is not None:
        assert (other.tree.priorities(slice(0, count)) > 0).all()


def test_statistics_are_those_of_the_same_steps() -> None:
    """Of observations and of returns."""
    live, other = (make("xqc", critic_hidden=[8], normalise_observations=True) for _ in range(2))
    steps = recorded(live, Centre(1, 10, 0), 200)
    store_steps(other, steps)
    for one, two in zip(live.scale.statistics.buffers(), other.scale.statistics.buffers(), strict=True):
        torch.testing.assert_close(one, two)
    norms = [learner.policy.encoder.norm for learner in (live, other)]
    np.testing.assert_allclose(*(norm.mean.numpy() for norm in norms), atol=0.02)  # the first one and a last one differ
    assert float(other.scale.running) == 0.0


def test_goals_of_recorded_episodes_are_relabelled() -> None:
    goals = spaces.Dict(achieved_goal=SEEN, desired_goal=SEEN)
    learner = make(seen=goals, hindsight=2)
    learner.hindsight.compute_reward = lambda reached, goal, info: -(reached != goal)[:, 0].astype(float)
    path = np.arange(7, dtype=np.float32)[:, None] / 10
    seen, after = ({"achieved_goal": part, "desired_goal": np.full_like(part, 2)} for part in (path[:-1], path[1:]))
    ended = np.array([0, 0, 1, 0, 0, 1], np.bool_)
    store_steps(learner, Steps(seen, np.zeros((6, 1)), np.full(6, -1.0), after, ended & False, ended))
    batch = learner.replay.batch(torch.arange(18))
    assert learner.replay.size == 18 and (batch.rewards[:6] == -1).all()
    assert {*batch.leaves[1][6:12].unique().tolist()} <= {*path[1:4, 0].tolist()}  # the first episode's own places
    assert (batch.rewards[6:] == 0).any()


def test_actions_of_an_env_become_the_learners_own() -> None:
    both = spaces.Dict(arm=spaces.Box(0, 4, (2,), np.float32), leg=spaces.Box(-1, 1, (1,), np.float32))
    own = own_actions(make(actions=both), {"leg": np.array([[1.0]]), "arm": np.array([[0.0, 3.0]])})
    assert own.tolist() == [[-1.0, 0.5, 1.0]]
    assert own_actions(make("dqn", spaces.Discrete(2, start=5)), np.array([5, 6])).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": np.zeros((4, 3))}, ["observations", "(4, 1)", "(4, 3)"]),
        ({"actions": np.full((4, 1), 3.0)}, ["actions", "from -2 to 2", "3"]),
        ({"actions": np.zeros(4), "observations": {}}, ["observations", "actions", "(4, 1)", "(4,)"]),
        ({"rewards": np.full(4, np.nan)}, ["rewards", "finite"]),
        ({"next_observations": np.full((4, 1), np.inf)}, ["next_observations", "finite"]),
        ({"observations": np.full((4, 1), "a")}, ["observations", "finite numbers", "<U1"]),
    ],
)
def test_other_spaces_are_refused(changes: dict[str, Any], words: list[str]) -> None:
    """One error names all of them, and nothing is stored."""
    learner, zeros = make(), np.zeros((4, 1))
    flags = np.array([0, 0, 0, 1], np.bool_)
    with pytest.raises(DataError) as error:
        store_steps(learner, Steps(zeros, zeros, zeros[:, 0], zeros, flags & False, flags)._replace(**changes))
    assert all(word in str(error.value) for word in words)
    assert learner.replay.size == 0


def test_choices_beyond_a_space_are_refused() -> None:
    zeros, flags = np.zeros((2, 1)), np.array([0, 1], np.bool_)
    with pytest.raises(DataError, match="integers from 5 to 6"):
        store_steps(make("dqn", spaces.Discrete(2, start=5)), Steps(zeros, flags * 1, flags, zeros, flags, flags))
