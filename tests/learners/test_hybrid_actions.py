"""Dict, Tuple and mixed actions: their parts, their masks, and what is learned in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.scripted import each_row
from rookery.errors import OptionError, SpaceError
from rookery.learners.action_spaces import ActionTree, mask_of
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.heads import head_for
from rookery.learners.learner import StepBatch
from rookery.learners.plain_spaces import from_tree, to_tree
from rookery.learners.registry import PPOOptions, SACOptions, TD3Options, make_learner, specs

SEEN = spaces.Box(-1, 1, (2,), np.float32)
ARM, FORCE = spaces.Discrete(3, start=1), spaces.Box(-2, 2, (2,), np.float32)
HYBRID = spaces.Dict(arm=ARM, force=FORCE, more=spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([2, 3]))))
BOXES = spaces.Dict(far=spaces.Box(-9, 0, (2, 1), np.float64), near=spaces.Tuple((spaces.Box(0, 1, (1,), np.float32),)))


def learner(space: spaces.Space = HYBRID, name: str = "ppo", **options: Any) -> Any:
    made = specs()[name].options(hidden=[8], **options)
    return make_learner(name, SEEN, space, made, 4, 0, torch.device("cpu"))


# --- the parts --------------------------------------------------------------------------------------------------------


def test_log_prob_and_entropy_are_sums() -> None:
    """Parts are independent: a joint action has the sum of what its parts have alone."""
    head, torch_rows = head_for(HYBRID, -0.5), torch.Generator().manual_seed(0)
    outputs = torch.randn(5, head.outputs, generator=torch_rows)
    actions = head.sample(outputs, head.sample_noise(5, generator=torch_rows))
    alone = [head_for(part.space, -0.5) for part in ActionTree(HYBRID).parts]
    pieces = outputs.split([part.outputs for part in alone], 1)
    columns = actions.split([1, 2, 2, 2], 1)
    pairs = [(h, o, a.reshape(5, *h.shape).to(h.dtype)) for h, o, a in zip(alone, pieces, columns, strict=True)]
    log_probs = sum(h.log_prob(o, a) for h, o, a in pairs)
    torch.testing.assert_close(head.log_prob(outputs, actions), log_probs)
    torch.testing.assert_close(head.entropy(outputs), sum(h.entropy(o) for h, o, _ in pairs))


def test_samples_have_the_probabilities_of_their_parts() -> None:
    """Each part is drawn by its own logits, whatever the others are."""
    head = head_for(spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(1), spaces.Box(-9, 9, (1,)))), 0.0)
    outputs = torch.tensor([0.0, 1.0, -1.0, 3.0]).expand(20_000, 4)
    drawn = head.sample(outputs, head.sample_noise(20_000, generator=torch.Generator().manual_seed(1)))
    expected = torch.tensor([torch.sigmoid(torch.tensor(1.0)), torch.sigmoid(torch.tensor(-1.0)), 3.0])
    torch.testing.assert_close(drawn.mean(0), expected, atol=0.03, rtol=0)
    assert head.mode(outputs)[0].tolist() == [1.0, 0.0, 3.0]


def test_the_parts_keep_their_types() -> None:
    """Numbers reach their parts in the dtype, shape and bounds of these; tensors give the same."""
    tree = ActionTree(spaces.Tuple((spaces.Box(0.0, 0.1, (1, 2), np.float64), spaces.Discrete(2, start=2**40))))
    flat = np.array([[0.1, -3.0, 1.0]], np.float32)
    force, arm = tree.nest(flat)
    assert tree.space.contains((force[0], arm[0]))
    assert (force.dtype, arm.tolist()) == (np.float64, [2**40 + 1])
    tensors = tree.nest(torch.from_numpy(flat))
    assert (tensors[0].dtype, tensors[0].shape, tensors[1].tolist()) == (torch.float64, (1, 1, 2), [2**40 + 1])


def test_spaces_survive_a_checkpoint() -> None:
    """What is written of a nested action space makes an equal one."""
    assert from_tree(to_tree(HYBRID)) == HYBRID
    assert list(from_tree(to_tree(HYBRID))) == list(HYBRID)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("recurrent", [None, 4])
def test_an_agent_acts_in_its_space(deterministic: bool, recurrent: int | None) -> None:
    """For arrays and for tensors, in batches of any size."""
    agent = learner(recurrent=recurrent).agent
    rows = np.random.default_rng(0).uniform(-1, 1, (5, 2)).astype(np.float32)
    assert all(HYBRID.contains(action) for action in each_row(agent.act(rows, deterministic), 5))
    agent.reset_memory()
    tensors = agent.act(torch.from_numpy(rows), deterministic=True)
    agent.reset_memory()
    arrays = agent.act(rows, deterministic=True)
    np.testing.assert_array_equal(tensors["more"][1], arrays["more"][1])
    np.testing.assert_array_equal(tensors["force"], arrays["force"])


# --- masks ------------------------------------------------------------------------------------------------------------

MASKS = {"arm": np.array([[0, 1, 0], [1, 0, 1]]), "more": ({}, np.array([[1, 0, 0, 0, 1], [0, 1, 1, 1, 1]]))}
FLAT = [[0, 1, 0, 1, 0, 0, 0, 1], [1, 0, 1, 0, 1, 1, 1, 1]]


def test_masks_of_parts_are_joined() -> None:
    """A Dict observation's mask: in the structure of the actions, in the order of their parts."""
    assert mask_of({"action_mask": MASKS}, None, HYBRID).tolist() == np.array(FLAT, bool).tolist()
    partly = {"arm": MASKS["arm"]}
    assert mask_of({"action_mask": partly}, None, HYBRID)[:, 3:].all()


def test_masks_in_infos() -> None:
    """Infos have a column for each key, with `_key` beside it, or an object for each env; who gives none allows all."""
    given = np.array([True, False])
    infos = {"action_mask": {"arm": MASKS["arm"], "_arm": given}, "_action_mask": np.array([True, True])}
    found = mask_of(np.zeros(2), infos, HYBRID)
    assert found[:, :3].tolist() == [[False, True, False], [True, True, True]]
    rows = np.empty(3, object)
    rows[0] = {"arm": np.array([0, 1, 0]), "more": (None, (np.array([1, 0]), np.array([0, 0, 1])))}
    rows[2] = {"arm": None}
    found = mask_of(np.zeros(3), {"action_mask": rows, "_action_mask": np.array([True, False, True])}, HYBRID)
    assert found.tolist() == [np.array(FLAT[0], bool).tolist(), [True] * 8, [True] * 8]


def test_wrong_masks_are_named() -> None:
    """A part that is not there, and a mask of the wrong size."""
    with pytest.raises(SpaceError, match="'amr', but the parts of the actions are"):
        mask_of({"action_mask": {"amr": MASKS["arm"]}}, None, HYBRID)
    with pytest.raises(SpaceError, match=r"'arm' should have 3 entries.*got \(2, 2\)"):
        mask_of({"action_mask": {"arm": np.ones((2, 2))}}, None, HYBRID)
    with pytest.raises(SpaceError, match="8 entries in each env"):
        learner().agent.act(np.zeros((2, 2), np.float32), mask=np.ones((2, 3)))
    with pytest.raises(OptionError, match="no part of these is Discrete"):
        learner(BOXES).agent.act(np.zeros((2, 2), np.float32), mask=np.ones((2, 3)))


@pytest.mark.parametrize("mask", [np.array(FLAT, bool), MASKS], ids=["flat", "dict"])
def test_forbidden_choices_are_never_taken(mask: Any) -> None:
    """Neither sampled nor deterministic, with masks in either form."""
    agent = learner().agent
    for k in range(40):
        actions = agent.act(np.zeros((2, 2), np.float32), deterministic=k == 0, mask=mask)
        assert actions["arm"][0] == 2
        assert actions["arm"][1] in (1, 3)
        assert actions["more"][1][0].tolist() == [0, 2]


# --- learning ---------------------------------------------------------------------------------------------------------


class Bandit:
    """One step: name the arm that is seen, and pull it with the force that belongs to it."""

    action_space = spaces.Dict(arm=spaces.Discrete(3, start=1), force=spaces.Box(-2, 2, (1,), np.float32))
    observation_space = spaces.Box(0, 1, (3,), np.float32)

    def __init__(self, num_envs: int) -> None:
        self.random, self.num_envs = np.random.default_rng(0), num_envs
        self.observe()

    def observe(self) -> np.ndarray:
        self.target = self.random.integers(3, size=self.num_envs)
        return np.eye(3, dtype=np.float32)[self.target]

    def rewards(self, actions: Any) -> np.ndarray:
        return (actions["arm"] == self.target + 1) - np.abs(actions["force"][:, 0] - (self.target - 1))


@pytest.mark.slow
def test_ppo_learns_a_hybrid_bandit() -> None:
    """Both parts are learned: the best score is 1, guessing both gives about -0.9."""
    options = PPOOptions(rollout_length=8, epochs=4, hidden=[16], learning_rate=2e-2, log_std=-0.5, gamma=0.5)
    ppo, bandit, rows = PPO(Bandit.observation_space, Bandit.action_space, options, 32), Bandit(32), slice(0, 32)
    seen, over, never = bandit.observe(), np.ones(32, bool), np.zeros(32, bool)
    for _ in range(25 * 8):
        rewards = bandit.rewards(ppo.explore(seen, rows))
        last, seen = seen, bandit.observe()
        ppo.record(rows, StepBatch(seen, rewards, over, never, (np.arange(32), list(last))))
        if ppo.ready():
            ppo.update()
    assert bandit.rewards(ppo.agent.act(seen, deterministic=True)).mean() > 0.6


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_sac_and_td3_act_in_dicts_of_boxes(name: str) -> None:
    """They see one flat Box, envs get the parts; they continue exactly and refuse what is not a Box."""
    kinds = {"sac": SACOptions, "td3": TD3Options}
    sizes = {"batch_size": 8, "start_steps": 8, "buffer_size": 64}
    one, two = (learner(BOXES, name, **sizes) for _ in range(2))
    assert isinstance(one.options, kinds[name])
    rows, random = slice(0, 4), np.random.default_rng(0)

    def play(who: Any, seed: int) -> list[Any]:
        random, done = np.random.default_rng(seed), []
        for _ in range(6):
            seen = random.uniform(-1, 1, (4, 2)).astype(np.float32)
            done.append(who.explore(seen, rows))
            never = np.zeros(4, bool)
            who.record(rows, StepBatch(seen, random.normal(size=4), never, never))
            who.update()
        return done

    for actions in play(one, 1):
        assert all(BOXES.contains(action) for action in each_row(actions, 4))
    assert one.updates > 0
    two.load(one.state())
    for mine, other in zip(play(one, 2), play(two, 2), strict=True):
        np.testing.assert_array_equal(mine["far"], other["far"])
        np.testing.assert_array_equal(mine["near"][0], other["near"][0])
    acted = one.agent.act(random.uniform(-1, 1, (3, 2)).astype(np.float32), deterministic=True)
    assert all(BOXES.contains(action) for action in each_row(acted, 3))
    with pytest.raises(OptionError, match="PPO all of these"):
        learner(HYBRID, name)


def test_the_registry_knows_who_acts_where() -> None:
    """PPO in any nesting of the four plain kinds, SAC and TD3 in bounded boxes, DQN in a Discrete alone."""
    able = {
        "hybrid": (HYBRID, ["ppo"]),
        "boxes": (BOXES, ["ppo", "sac", "td3", "xqc"]),
        "unbounded": (spaces.Tuple((spaces.Box(-np.inf, np.inf, (1,)),)), ["ppo"]),
        "whole numbers": (spaces.Dict(a=spaces.Box(0, 9, (1,), np.int64), b=FORCE), []),
        "empty": (spaces.Dict(), []),
        "text": (spaces.Dict(a=ARM, b=spaces.Text(3)), []),
    }
    for space, names in able.values():
        assert [name for name in ("ppo", "sac", "dqn", "td3", "xqc") if specs()[name].supports(space)] == names
