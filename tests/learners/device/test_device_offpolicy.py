"""Off-policy learners on tensors: what they store, how they learn and continue. On a CPU captured work is called."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.device.tensor_worlds import as_tensors, play_tensors
from learners.offpolicy_tools import Batch, Centre, Corridor, assert_same, play
from rookery.learners.execution.choose import use_tensor_envs
from rookery.learners.execution.replay_device import ReplayDevice
from rookery.learners.learner import Learner
from rookery.learners.registry import DQNOptions, SACOptions, TD3Options, XQCOptions, make_learner

SEEN = spaces.Box(-2, 2, (1,))
SMALL = {"hidden": [16, 16], "start_steps": 24, "batch_size": 16, "buffer_size": 256, "updates_per_step": 0.5}
OPTIONS = {"sac": SACOptions, "td3": TD3Options, "dqn": DQNOptions, "xqc": XQCOptions}
KINDS = {
    "sac": {},
    "sac-pink": {"noise": "pink", "n_step": 2, "normalise_observations": True, "normalise_rewards": True},
    "td3": {"target_every": 3, "policy_delay": 3},
    "td3-redq": {"redq": True, "num_critics": 3, "policy_delay": 2, "updates_per_step": 2.0, "prioritised": True},
    "xqc": {"critic_hidden": [16, 12], "noise": "pink", "n_step": 2, "policy_delay": 2, "atoms": 11},
    "dqn": {"epsilon_steps": 60, "target_every": 5},
    "dqn-plain": {"n_step": 1, "prioritised": False, "epsilon_decay": 0.9, "epsilon_per_env": True, "double": False},
}


def learner_for(kind: str, tensors: bool = True, **options: Any) -> Learner:
    name = kind.partition("-")[0]
    actions = spaces.Discrete(2) if name == "dqn" else spaces.Box(-2, 2, (1,))
    settings = OPTIONS[name](**SMALL | KINDS[kind] | options)
    learner = make_learner(name, SEEN, actions, settings, 4, 7, "cpu")
    assert isinstance(learner, Learner)
    if tensors:
        use_tensor_envs(learner)
    return learner


def world_for(kind: str, seed: int = 0) -> Batch:
    return (Corridor if kind.startswith("dqn") else Centre)(4, 9, seed)


QUICK = "sac-pink", "td3-redq", "xqc", "dqn"  # the others add little to these
ALL = [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ALL)
def test_it_learns_and_continues_exactly(kind: str) -> None:
    """From a state in the middle, a second learner continues to the same numbers; the metrics have the usual names."""
    learner, envs = learner_for(kind), world_for(kind)
    seen = play_tensors(learner, envs, 20)
    other = learner_for(kind)
    other.load(learner.state())
    rng, position, age = envs.rng.bit_generator.state, envs.position.copy(), envs.age.copy()
    play_tensors(learner, envs, 15, seen)
    envs.rng.bit_generator.state, envs.position, envs.age = rng, position, age
    play_tensors(other, envs, 15, seen)
    assert learner.updates > 30
    assert_same(learner.state(), other.state())
    assert learner.update().keys() == set(learner.metric_names)
    assert all(np.isfinite(value) for value in learner.update().values())


@pytest.mark.push("dqn-plain")
@pytest.mark.parametrize("kind", [pytest.param("sac", marks=pytest.mark.slow), "td3", "xqc", "dqn-plain"])
def test_groups_of_updates_change_no_number(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates one by one, as without `accelerate`, or many at once: the same weights."""
    learners = []
    for sizes in ((16, 4), (64, 4), ()):
        monkeypatch.setattr("rookery.learners.execution.replay_device.SIZES", sizes)
        learner = learner_for(kind, start_steps=36, updates_per_step=7.25)
        play_tensors(learner, world_for(kind), 13)
        learners.append(learner)
    assert learners[0].updates > 100
    for other in learners[1:]:
        assert_same(learners[0].state(), other.state())


@pytest.mark.parametrize("n_step", [1, 2, 3])
def test_it_stores_the_transitions_of_the_plain_buffer(n_step: int) -> None:
    """The same ones, with the same returns and discounts, in another order."""
    options = {"n_step": n_step, "start_steps": 1000}
    envs = Corridor(4, 5, 3)
    plain, device = learner_for("dqn", False, **options), learner_for("dqn", **options)
    seen = envs.observe()
    for _ in range(25):
        actions = np.asarray(plain.explore(seen, slice(0, 4)))
        device.explore(torch.from_numpy(seen), slice(0, 4))
        device.n_step_buffer._put("actions", torch.from_numpy(actions))  # both did the same
        step = envs.step(actions)
        plain.record(slice(0, 4), step)
        device.record(slice(0, 4), as_tensors(envs, step))
        seen = step.observations

    def stored(learner: Learner) -> Counter[tuple[float, ...]]:
        arrays = learner.replay.state()["arrays"]
        columns = [
            arrays[name].reshape(len(arrays["outcomes"]), -1) for name in ("leaf0", "actions", "next0", "outcomes")
        ]
        return Counter(tuple(row) for row in np.concatenate(columns, 1).astype(np.float32).tolist())

    assert device.replay.size == 4 * (25 - n_step + 1)
    assert stored(device) <= stored(plain)


def test_uniform_sampling_reaches_every_transition_and_no_other() -> None:
    """The number of transitions is a tensor: what is not filled is never sampled."""
    learner = learner_for("sac", start_steps=1000)
    play_tensors(learner, world_for("sac"), 3)
    found = learner.replay.sample_indices(500, learner.generator)
    assert set(found.tolist()) == set(range(12))
    learner.clear_replay()
    assert learner.replay.places.tolist() == [0, 0] and not learner.replay.size


@pytest.mark.slow
def test_arrays_with_updates_of_a_device() -> None:
    """Envs that return arrays fill the same buffer, as with a learner on a GPU."""
    for kind in QUICK:
        learner = learner_for(kind, tensors=False)
        learner.execution = ReplayDevice(learner)
        play(learner, world_for(kind), 20)
        assert learner.updates and learner.replay.places.tolist()[0] == learner.replay.size
        other = learner_for(kind, tensors=False)
        other.execution = ReplayDevice(other)
        other.load(learner.state())
        assert_same(learner.state(), other.state())


def test_a_changed_option_holds_from_then_on() -> None:
    """Constants of captured work are captured again."""
    one, other = learner_for("dqn-plain"), learner_for("dqn-plain")
    for learner in (one, other):
        play_tensors(learner, world_for("dqn"), 15)
    kind = one.round_kind
    one.adjust({"tau": 1.0, "gamma": 0.5})
    assert one.round_kind != kind and one.n_step_buffer.gamma == 0.5
    one.execution.updates_due = 1.0
    one.update()
    np.testing.assert_array_equal(one.target_weights, one.adam.flat.data)
    assert other.options.tau != 1.0


def test_masks_of_the_next_actions_are_stored() -> None:
    """After an episode's end all are allowed, or what the final observation says."""
    learner = learner_for("dqn-plain", start_steps=0)
    mask = torch.tensor([[True, False]] * 4)
    envs, rows = world_for("dqn"), slice(0, 4)
    seen = torch.from_numpy(envs.observe())
    for _ in range(12):
        learner.execution.before_round()
        actions = learner.explore(seen, rows, mask)
        assert actions.tolist() == [0] * 4
        step = as_tensors(envs, envs.step(actions.numpy()))._replace(mask=mask)
        learner.record(rows, step)
        seen = step.observations
    arrays = learner.replay.state()["arrays"]
    ended = arrays["masks"].all(1)
    assert 0 < ended.sum() < len(ended) and (arrays["masks"][~ended] == [True, False]).all()
