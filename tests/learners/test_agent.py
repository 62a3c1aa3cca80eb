"""Agents: batches in, actions out, in kind; what is random repeats by its seed; what is remembered can be forgotten."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.errors import BadValue, RookeryError, SpaceError, UsageError
from rookery.learners.agent import Agent
from rookery.learners.algorithms.ppo import ActorCritic
from rookery.learners.encoders import CustomEncoder
from rookery.learners.policy import make_leaves
from rookery.learners.registry import PPOOptions

PLAIN = spaces.Box(-1, 1, (3,))
MIXED = spaces.Dict(place=spaces.Discrete(4), speed=spaces.Box(-1, 1, (2,)), pair=spaces.Tuple((PLAIN, PLAIN)))
ROWS = np.random.default_rng(0).uniform(-1, 1, (6, 3)).astype(np.float32)


def agent_for(seen: spaces.Space = PLAIN, done: spaces.Space | None = None, **options: object) -> Agent:
    torch.manual_seed(0)
    done = done or spaces.Discrete(4)
    policy = ActorCritic(seen, done, PPOOptions(hidden=[16], **options))
    for p in policy.actor.parameters():
        p.data.mul_(50)  # a policy with opinions
    return Agent(policy, seen, done, torch.device("cpu"))


def mixed(rows: int) -> dict:
    random = np.random.default_rng(1)
    draw = lambda size: random.uniform(-1, 1, (rows, size)).astype(np.float32)  # noqa: E731
    return {"place": random.integers(4, size=rows), "speed": draw(2), "pair": (draw(3), draw(3))}


def test_arrays_give_arrays() -> None:
    """One action a row, as the env wants them."""
    actions = agent_for().act(ROWS)
    assert isinstance(actions, np.ndarray)
    assert (actions.shape, actions.dtype) == ((6,), np.int64)


def test_tensors_give_tensors() -> None:
    """The same actions as for arrays, without a gradient."""
    agent = agent_for()
    actions = agent.act(torch.from_numpy(ROWS), deterministic=True)
    assert isinstance(actions, torch.Tensor)
    assert not actions.requires_grad
    assert actions.tolist() == agent.act(ROWS, deterministic=True).tolist()


def test_lists_and_other_number_types_are_taken() -> None:
    """Lists of lists and double precision give the actions of the same numbers in an array."""
    agent = agent_for()
    expected = agent.act(ROWS, deterministic=True).tolist()
    assert agent.act(ROWS.tolist(), deterministic=True).tolist() == expected
    assert agent.act(ROWS.astype(np.float64), deterministic=True).tolist() == expected


def test_dicts_and_tuples_are_taken() -> None:
    """Nested observations, as arrays or tensors, are answered in kind."""
    agent, batch = agent_for(MIXED), mixed(5)
    actions = agent.act(batch, deterministic=True)
    assert isinstance(actions, np.ndarray) and actions.shape == (5,)
    tensors = {
        "pair": tuple(torch.from_numpy(x) for x in batch["pair"]),
        "place": torch.from_numpy(batch["place"]),
        "speed": torch.from_numpy(batch["speed"]),
    }
    answer = agent.act(tensors, deterministic=True)
    assert isinstance(answer, torch.Tensor)
    assert answer.tolist() == actions.tolist()


@pytest.mark.parametrize(
    "done",
    [
        spaces.Discrete(3, start=2),
        spaces.MultiDiscrete([2, 3], start=[1, 0]),
        spaces.MultiBinary(3),
        spaces.Box(-0.1, 0.1, (2,), np.float32),
    ],
    ids=str,
)
def test_actions_are_members_of_the_space(done: spaces.Space) -> None:
    """Random or not, each action is one the env takes."""
    agent = agent_for(done=done)
    for deterministic in (True, False):
        assert all(done.contains(action) for action in agent.act(ROWS, deterministic))


def test_deterministic_actions_repeat() -> None:
    """The best action is always the same, and does not depend on the rest of the batch."""
    agent = agent_for()
    first = agent.act(ROWS, deterministic=True)
    agent.act(ROWS)
    assert agent.act(ROWS, deterministic=True).tolist() == first.tolist()
    assert [int(agent.act(row[None], deterministic=True)[0]) for row in ROWS] == first.tolist()


def test_random_actions_repeat_by_their_seed() -> None:
    """The same seed gives the same series; going on gives other actions."""
    agent = agent_for(done=spaces.Box(-9, 9, (2,), np.float32))
    agent.seed(5)
    first, second = agent.act(ROWS), agent.act(ROWS)
    agent.seed(5)
    assert agent.act(ROWS).tolist() == first.tolist()
    assert second.tolist() != first.tolist()
    agent.seed(6)
    assert agent.act(ROWS).tolist() != first.tolist()


def test_acting_leaves_torchs_own_random_numbers_alone() -> None:
    """An agent has a stream of its own."""
    agent = agent_for()
    before = torch.get_rng_state()
    agent.act(ROWS)
    assert torch.equal(torch.get_rng_state(), before)


def test_act_batch_is_act() -> None:
    """The name that older trainers used, with the same parameters."""
    agent = agent_for()
    assert agent.act_batch(ROWS, True).tolist() == agent.act(ROWS, True).tolist()
    assert inspect.signature(Agent.act_batch) == inspect.signature(Agent.act)


@pytest.mark.parametrize("seen", [PLAIN, spaces.Discrete(3), MIXED, spaces.Box(0, 255, (16, 16, 3), np.uint8)], ids=str)
def test_a_single_observation_gives_a_single_action(seen: spaces.Space) -> None:
    """Its number of dimensions says that it is one; the action is that of a batch of one, as the env takes it."""
    for done in (spaces.Discrete(4), spaces.Box(-1, 1, (2,), np.float32)):
        agent = agent_for(seen, done)
        observation = seen.sample()
        action = agent.act(observation, deterministic=True)
        batch = _batch_of_one(observation)
        assert done.contains(action) and np.array_equal(action, agent.act(batch, deterministic=True)[0])
        assert done.contains(agent.act(observation))
    assert isinstance(agent_for().act(torch.from_numpy(ROWS[0])), torch.Tensor)
    assert agent_for().act(ROWS[0].tolist(), mask=[0, 0, 1, 0]) == 2


def _batch_of_one(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _batch_of_one(part) for name, part in observation.items()}
    if isinstance(observation, tuple):
        return tuple(_batch_of_one(part) for part in observation)
    return np.asarray(observation)[None]


def test_predict_is_that_of_stable_baselines() -> None:
    """The same parameters in the same order, and a state beside the actions."""
    agent = agent_for()
    names = list(inspect.signature(Agent.predict).parameters)
    assert names[1:5] == ["observation", "state", "episode_start", "deterministic"]
    actions, state = agent.predict(ROWS, deterministic=True)
    assert actions.tolist() == agent.act(ROWS, deterministic=True).tolist() and state is None
    action, _ = agent.predict(ROWS[0], deterministic=True)
    assert action == actions[0] and action.shape == ()
    agent.seed(3)
    sampled, _ = agent.predict(ROWS)
    agent.seed(3)
    assert sampled.tolist() == agent.act(ROWS).tolist()


def test_the_state_of_a_recurrent_agent_is_the_callers() -> None:
    """Given back it continues, and without it a new episode begins; what `act` remembers stays apart."""
    agent = recurrent()
    first, state = agent.predict(ROWS, deterministic=True)
    second, later = agent.predict(ROWS, state, np.zeros(6, bool), deterministic=True)
    assert agent.act(ROWS, deterministic=True).tolist() == first.tolist()  # `predict` left no memory
    assert agent.act(ROWS, deterministic=True).tolist() == second.tolist() != first.tolist()
    assert state.shape == later.shape == (6, 8)
    starts = np.array([True] + [False] * 5)
    third, _ = agent.predict(ROWS, state, starts, deterministic=True)
    assert third[0].tolist() == first[0].tolist() and third[1:].tolist() == second[1:].tolist()
    one, kept = agent.predict(ROWS[0], deterministic=True)
    assert one.tolist() == first[0].tolist()
    one, _ = agent.predict(ROWS[0], kept, False, deterministic=True)
    assert one.tolist() == second[0].tolist()


def test_an_agent_of_no_run_says_that_it_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs an agent of a run"):
        agent_for().save(tmp_path / "agent")


def test_a_wrong_shape_is_named() -> None:
    """The error names the part, what was wanted and what came; there is no hint where it would not help."""
    with pytest.raises(SpaceError, match=r"\(batch, 3\), or \(3,\) for one observation, got \(6, 4\)$"):
        agent_for().act(np.zeros((6, 4)))
    batch = mixed(5)
    batch["pair"] = (batch["pair"][0], np.zeros((5, 9)))
    with pytest.raises(SpaceError, match=r"pair\.1 should be of shape \(batch, 3\), got \(5, 9\)"):
        agent_for(MIXED).act(batch)


def test_nan_is_refused() -> None:
    """The network would turn it into some action."""
    bad = ROWS.copy()
    bad[4, 1] = np.nan
    with pytest.raises(BadValue, match=r"^observation\[4, 1\] is nan"):
        agent_for().act(bad)
    with pytest.raises(ValueError, match=r"^observation\[1\] is nan"):
        agent_for().predict(bad[4].tolist())
    batch = mixed(5)
    batch["pair"][1][2, 0] = np.nan
    with pytest.raises(BadValue, match=r"pair\.1\[2, 0\] is nan"):
        agent_for(MIXED).act(batch)


def test_a_network_of_ones_own_may_be_given_nan() -> None:
    agent = agent_for()
    agent.policy.encoder = CustomEncoder(torch.nn.Identity(), agent.observation_space, agent.policy.leaves, 3, False)
    bad = np.full((2, 3), np.nan)
    assert len(agent.act(bad)) == 2


@pytest.mark.parametrize("form", [torch.tensor, lambda x: torch.tensor(x).bfloat16(), np.float64, np.ndarray.tolist])
def test_nan_is_refused_in_every_form(form: Any) -> None:
    bad = ROWS.copy()
    bad[4, 1] = np.nan
    for call in (agent_for().act, agent_for().predict, agent_for().act_batch):
        with pytest.raises(BadValue, match=r"^observation\[4, 1\] is nan"):
            call(form(bad))


def test_nan_is_refused_in_a_large_batch() -> None:
    large = np.zeros((5_000, ROWS.shape[1]), np.float32)
    agent_for().act(large)
    large[4_000, 1] = np.nan
    with pytest.raises(BadValue, match=r"^observation\[4000, 1\] is nan"):
        agent_for().act(large)


def test_infinity_is_a_number() -> None:
    """Squares of large numbers are infinite too, and must not be taken for NaN."""
    agent_for().act(np.array([np.inf, -np.inf, 1e38], np.float32))


PICTURE, CHOICE = spaces.Box(0, 255, (16, 16, 3), np.uint8), spaces.Discrete(5, start=1)


@pytest.mark.parametrize(
    ("space", "given", "words"),
    [
        (None, "x", "should be numbers of shape (3,), or a batch of such, got 'x'"),
        (None, None, "got None"),
        (None, [[1, 2], [1]], "with equally many in each row"),
        (None, np.array(["a", "b", "c"]), "should be numbers"),
        (None, np.zeros(3, complex), "should be numbers"),
        (MIXED, "x", "should have a part 'place'"),
        (MIXED, None, "should have a part 'place'"),
        (MIXED, {"speed": [1, 2]}, "should have a part 'place'"),
        (PICTURE, np.full((16, 16, 3), np.nan), "observation[0, 0, 0] is nan"),
        (PICTURE, np.full((16, 16, 3), 0.5), "should be an integer from 0 to 255, got 0.5"),
        (PICTURE, np.full((16, 16, 3), 300), "should be an integer from 0 to 255, got 300"),
        (CHOICE, np.nan, "observation is nan"),
        (CHOICE, 0, "should be an integer from 1 to 5, got 0"),
        (CHOICE, [1, 6], "observation[1] should be an integer from 1 to 5, got 6"),
        (CHOICE, 1.5, "should be an integer from 1 to 5, got 1.5"),
    ],
)
def test_what_is_not_an_observation_is_refused(space: Any, given: Any, words: str) -> None:
    """By an error of rookery's own, which is a ValueError too."""
    agent = agent_for() if space is None else agent_for(space)
    with pytest.raises(RookeryError) as error:
        agent.act(given)
    assert words in str(error.value) and isinstance(error.value, ValueError)


@pytest.mark.parametrize("dtype", [">f4", np.longdouble, np.float16, np.int8, np.uint16, bool])
def test_numbers_of_any_type_are_taken(dtype: Any) -> None:
    assert agent_for().act(np.ones((2, 3), dtype), deterministic=True).shape == (2,)


def test_repr_says_what_it_is() -> None:
    agent = agent_for()
    assert repr(agent) == "Agent(3 numbers -> 4 actions)"
    agent.learner, agent.world, agent.steps = "ppo", "CartPole-v1", 102_400
    assert repr(agent) == "Agent(ppo, CartPole-v1, 3 numbers -> 4 actions, 102,400 steps)"


def test_masks_hold() -> None:
    """Only allowed actions are taken, the mask being given or part of the observation, array or list."""
    agent = agent_for()
    only_two = np.array([[0, 0, 1, 0]] * 6)
    for mask in (only_two, only_two.tolist(), torch.from_numpy(only_two), only_two.astype(bool)):
        for deterministic in (True, False):
            assert agent.act(ROWS, deterministic, mask=mask).tolist() == [2] * 6
    seeing = agent_for(spaces.Dict(action_mask=spaces.MultiBinary(4), x=PLAIN))
    assert seeing.act({"action_mask": only_two.astype(np.int8), "x": ROWS}).tolist() == [2] * 6
    tensors = {"action_mask": torch.from_numpy(only_two), "x": torch.from_numpy(ROWS)}
    assert seeing.act(tensors).tolist() == [2] * 6


def recurrent() -> Agent:
    return agent_for(done=spaces.Box(-9, 9, (2,), np.float32), recurrent=8)


def best(agent: Agent, rows: np.ndarray, **kwargs: object) -> list:
    return agent.act(rows, deterministic=True, **kwargs).tolist()


def test_a_recurrent_agent_remembers_and_forgets() -> None:
    """The same observation is answered differently the second time, and as at first after `forget`."""
    agent = recurrent()
    first = best(agent, ROWS)
    assert best(agent, ROWS) != first
    agent.reset_memory()
    assert best(agent, ROWS) == first


def test_starts_reset_the_memory_of_their_rows_alone() -> None:
    """Rows that begin an episode answer as at first; the others go on."""
    agent, other = recurrent(), recurrent()
    first = best(agent, ROWS)
    best(other, ROWS)
    going_on = best(other, ROWS)
    starts = np.array([True, False, False, True, False, False])
    second = best(agent, ROWS, starts=starts)
    for row, began in enumerate(starts):
        assert second[row] == pytest.approx((first if began else going_on)[row], abs=1e-6)


def test_another_batch_size_begins_anew() -> None:
    """Memories belong to rows: with other rows there are none."""
    agent = recurrent()
    first = best(agent, ROWS)
    best(agent, ROWS[:2])
    assert best(agent, ROWS) == first


def test_without_a_core_nothing_is_remembered() -> None:
    """`starts` and `forget` are harmless then."""
    agent = agent_for()
    first = best(agent, ROWS)
    agent.reset_memory()
    assert best(agent, ROWS, starts=np.ones(6, bool)) == first


def test_an_empty_observation_is_refused() -> None:
    """Where there is nothing to see, or nothing but the mask, there is nothing to learn from."""
    for space in (spaces.Dict(), spaces.Dict(action_mask=spaces.MultiBinary(2))):
        with pytest.raises(SpaceError, match="nothing to observe"):
            make_leaves(space)
