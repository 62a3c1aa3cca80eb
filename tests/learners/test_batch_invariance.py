"""What an agent does in one env does not depend on the envs beside it: not on their number, nor on its place."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.errors import SpaceError
from rookery.learners.agent import Agent
from rookery.learners.frozen_policy import freeze
from rookery.learners.observations import choices_in
from rookery.learners.registry import make_learner, make_policy, option_classes

VECTOR = spaces.Box(-np.inf, np.inf, (7,), np.float32)
IMAGE = spaces.Box(0, 255, (16, 16, 3), np.uint8)
MIXED = spaces.Dict(eye=spaces.Box(0, 1, (12, 12, 1), np.float32), place=spaces.Discrete(5, start=2), speed=VECTOR)
BOX, FEW = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4, start=1)
MANY = 64
SMALL, ODD = {"hidden": [16, 12]}, {"hidden": [50, 37]}  # ODD leaves a rest beside vector instructions
CASES = {
    "ppo, box": ("ppo", VECTOR, BOX, SMALL),
    "ppo, normalised": ("ppo", VECTOR, BOX, {**SMALL, "normalise_observations": True}),
    "ppo, assets": ("ppo", VECTOR, BOX, {**ODD, "share_weights": True, "asset_columns": [1, 2]}),
    "ppo, discrete": ("ppo", VECTOR, FEW, {"activation": "relu"}),
    "ppo, several choices": ("ppo", VECTOR, spaces.MultiDiscrete([3, 2]), ODD),
    "ppo, switches": ("ppo", VECTOR, spaces.MultiBinary(3), SMALL),
    "ppo, other activations": ("ppo", VECTOR, BOX, {**ODD, "activation": "silu"}),
    "ppo, recurrent": ("ppo", VECTOR, BOX, {**ODD, "recurrent": 21}),
    "ppo, a number": ("ppo", spaces.Discrete(9), BOX, SMALL),
    "ppo, image": ("ppo", IMAGE, BOX, SMALL),
    "ppo, dict": ("ppo", MIXED, BOX, {**SMALL, "activation": "elu"}),
    "ppo, mixed actions": ("ppo", VECTOR, spaces.Dict(push=BOX, pick=FEW), SMALL),
    "sac": ("sac", VECTOR, BOX, SMALL),
    "sac, image": ("sac", IMAGE, BOX, SMALL),
    "td3": ("td3", VECTOR, BOX, ODD),
    "xqc": ("xqc", VECTOR, BOX, ODD),
    "xqc, dict": ("xqc", MIXED, BOX, SMALL),
    "dqn": ("dqn", VECTOR, FEW, SMALL),
    "pqn": ("pqn", VECTOR, FEW, SMALL),
    "pqn, several choices": ("pqn", MIXED, spaces.MultiDiscrete([3, 2]), {**ODD, "activation": "tanh"}),
    "dqn, dict": ("dqn", MIXED, FEW, {**SMALL, "activation": "gelu"}),
}


def agent_for(case: str) -> Agent:
    learner, seen, done, options = CASES[case]
    torch.manual_seed(3)
    policy = make_policy(learner, seen, done, option_classes()[learner](**options))
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return Agent(policy, seen, done, torch.device("cpu"))


def some_rows(batch: Any, rows: Any) -> Any:
    return {name: part[rows] for name, part in batch.items()} if isinstance(batch, dict) else batch[rows]


def as_bytes(actions: Any, rows: Any = slice(None)) -> bytes:
    parts = actions.values() if isinstance(actions, dict) else [actions]
    return b"".join(part[rows].tobytes() for part in parts)


def observations_of(space: spaces.Space, count: int) -> Any:
    space.seed(1)
    samples = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        return {name: np.stack([sample[name] for sample in samples]) for name in space}
    return np.stack(samples)


def sizes_for(agent: Agent) -> Any:
    images = getattr(agent.policy.encoder, "is_trained", False)
    return (1, 2, 9, 31, MANY) if images else range(1, MANY + 1)


@pytest.mark.parametrize("case", CASES)
def test_deterministic_actions_do_not_depend_on_the_batch(case: str) -> None:
    """Bit by bit, for every size of the batch from 1 to 64, and for another order of the rows."""
    agent = agent_for(case)
    batch = observations_of(agent.observation_space, MANY)
    together = agent.act(batch, deterministic=True)
    for size in sizes_for(agent):
        agent.reset_memory()
        last = slice(MANY - size, MANY)
        assert as_bytes(agent.act(some_rows(batch, last), deterministic=True)) == as_bytes(together, last), size
    agent.reset_memory()
    order = np.random.default_rng(0).permutation(MANY)
    assert as_bytes(agent.act(some_rows(batch, order), deterministic=True)) == as_bytes(together, order)


@pytest.mark.parametrize("case", CASES)
def test_sampled_actions_and_memories_do_not_depend_on_the_batch(case: str) -> None:
    """With the same noise, memory and mask, in a frozen copy and in the policy itself."""
    agent = agent_for(case)
    policy, batch = agent.policy, observations_of(agent.observation_space, MANY)
    noise = policy.sample_noise(MANY, torch.Generator().manual_seed(1)).numpy()
    memory = np.random.default_rng(2).normal(size=(MANY, policy.memory_size)).astype(np.float32)
    allowed = np.random.default_rng(3).random((MANY, 4)) < 0.5
    allowed[:, 1] = True
    frozen = freeze(policy)

    def answers(rows: Any) -> tuple[bytes, bytes]:
        kept = memory[rows] if policy.memory_size else None
        mask = allowed[rows] if isinstance(agent.action_space, spaces.Discrete) else None
        actions, remembered = frozen(some_rows(batch, rows), noise[rows], kept, mask)
        return actions, np.zeros(len(actions)) if remembered is None else remembered

    actions, remembered = answers(slice(None))
    for size in (1, 2, 5, 31, 33, 48):
        for rows in (slice(0, size), slice(MANY - size, MANY)):
            some, kept = answers(rows)
            assert some.tobytes() == actions[rows].tobytes(), size
            assert kept.tobytes() == remembered[rows].tobytes(), size


EXPLORED = ["ppo, box", "ppo, normalised", "ppo, discrete", "ppo, several choices"]


@pytest.mark.parametrize(
    ("case", "masked"), [(case, False) for case in EXPLORED] + [(case, True) for case in EXPLORED[2:]]
)
def test_what_is_explored_does_not_depend_on_the_batch(case: str, masked: bool) -> None:
    """A learner that acts for some envs at a time does what one does that acts for all of them, bit by bit."""
    name, seen, done, options = CASES[case]
    learners = [make_learner(name, seen, done, option_classes()[name](**options), MANY, 5) for _ in range(2)]
    assert all(learner.accelerator.acts_by_row for learner in learners)
    batch, mask = observations_of(seen, MANY), masks_for(done, MANY) if masked else None
    together = learners[0].explore(batch, slice(0, MANY), mask)
    places = [0, 1, 3, 20, MANY]
    parts = [
        learners[1].explore(batch[a:b], slice(a, b), None if mask is None else mask[a:b]) for a, b in pairwise(places)
    ]
    assert np.concatenate(parts).tobytes() == together.tobytes()
    whole, joined = (learner.rollout.outputs[0].numpy().tobytes() for learner in learners)
    assert whole == joined


def masks_for(space: spaces.Space, rows: int) -> np.ndarray:
    """Some actions of each choice are allowed, others in each row."""
    allowed = np.random.default_rng(3).random((rows, choices_in(space) or 0)) < 0.5
    allowed[:, [0, -1]] = True
    return allowed


@pytest.mark.parametrize("case", ["ppo, discrete", "ppo, several choices"])
def test_what_is_explored_with_masks_is_what_torch_explores(case: str) -> None:
    """Compiled or not, to float tolerance; and a wrong mask is rejected by both."""
    name, seen, done, options = CASES[case]
    learners = [
        make_learner(name, seen, done, option_classes()[name](**options, accelerate=fast), MANY, 5)
        for fast in (True, False)
    ]
    batch, mask = observations_of(seen, MANY), masks_for(done, MANY)
    actions = [learner.explore(batch, slice(0, MANY), mask) for learner in learners]
    assert learners[0].accelerator.explore(batch, slice(0, MANY), mask) is not None
    np.testing.assert_array_equal(*actions)
    fast, plain = (learner.rollout for learner in learners)
    torch.testing.assert_close(fast.outputs[0], plain.outputs[0])
    assert torch.equal(fast.masks[0], plain.masks[0]) and not fast.masks[0].all()
    for learner in learners:
        with pytest.raises(SpaceError, match="`action_mask` should have"):
            learner.explore(batch, slice(0, MANY), mask[:, 1:])


def test_masks_hold_in_every_form() -> None:
    """The compiled pass and torch allow the same actions."""
    for case in ("ppo, discrete", "dqn", "dqn, dict"):
        agent = agent_for(case)
        batch, mask = observations_of(agent.observation_space, 6), np.zeros((6, 4), bool)
        mask[np.arange(6), np.arange(6) % 4] = True
        for deterministic in (True, False):
            assert agent.act(batch, deterministic, mask=mask).tolist() == [1, 2, 3, 4, 1, 2]


def test_learning_changes_what_the_agent_does() -> None:
    """An agent acts with its policy's present weights, though the compiled pass has a copy of them."""
    agent = agent_for("sac")
    batch = observations_of(agent.observation_space, 3)
    before = agent.act(batch, deterministic=True)
    with torch.no_grad():
        next(agent.policy.net.parameters()).mul_(2.0)
    assert not np.array_equal(agent.act(batch, deterministic=True), before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("case", CASES)
def test_on_a_gpu_too(case: str) -> None:
    """Tensors on the device, for several sizes of the batch."""
    agent = agent_for(case)
    agent = Agent(agent.policy.to("cuda"), agent.observation_space, agent.action_space, torch.device("cuda"))
    batch = observations_of(agent.observation_space, 300)
    together = agent.act(batch, deterministic=True)
    for size in (1, 5, 48, 64, 257):
        agent.reset_memory()
        last = slice(300 - size, 300)
        assert as_bytes(agent.act(some_rows(batch, last), True)) == as_bytes(together, last)
