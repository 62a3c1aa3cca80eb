"""Every kind of policy PPO can have: it acts as it will judge itself, stays finite, and continues exactly."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.scripted import Script, arrays_of, each_row, play
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.registry import PPOOptions

VECTOR = spaces.Box(-2, 2, (3,))
BOTH = {"normalise_observations": True, "normalise_rewards": True}
HYBRID = spaces.Dict(
    arm=spaces.Discrete(3, start=1),
    force=spaces.Box(-1, 1, (2, 1), np.float64),
    more=spaces.Tuple((spaces.MultiBinary(2), spaces.MultiDiscrete([[2, 3]], start=[[0, 5]]))),
)
DICT = spaces.Dict(a=VECTOR, b=spaces.Tuple((spaces.Discrete(4), spaces.MultiBinary(2))), c=spaces.Box(0, 5, ()))


@dataclass(frozen=True)
class Variant:
    """Spaces and options of a learner; `masks` are the sizes of masked choices."""

    seen: spaces.Space = field(default_factory=lambda: VECTOR)
    done: spaces.Space = field(default_factory=lambda: spaces.Discrete(3))
    masks: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def learner(self, num_envs: int = 4, seed: int = 0, **more: Any) -> PPO:
        settings = {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, **self.options, **more}
        return PPO(self.seen, self.done, PPOOptions(**settings), num_envs, seed)

    def script(self, num_envs: int = 4, seed: int = 0) -> Script:
        return Script(copy.deepcopy(self.seen), num_envs, seed, self.masks)


VARIANTS = {
    "discrete": Variant(),
    "discrete from 5": Variant(done=spaces.Discrete(3, start=5)),
    "multi-discrete": Variant(done=spaces.MultiDiscrete([2, 3, 4], start=[1, 0, -1])),
    "multi-binary": Variant(done=spaces.MultiBinary([2, 2])),
    "continuous": Variant(done=spaces.Box(-1, 1, (2,), np.float32), options={"log_std": -0.5}),
    "continuous matrix": Variant(done=spaces.Box(-1, 1, (2, 2), np.float32)),
    "hybrid": Variant(done=HYBRID),
    "tuple": Variant(done=spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)))),
    "masked hybrid": Variant(done=HYBRID, masks=(3, 2, 3)),
    "recurrent hybrid": Variant(seen=DICT, done=HYBRID, masks=(3, 2, 3), options={"recurrent": 5, **BOTH}),
    "discrete observations": Variant(seen=spaces.Discrete(5, start=1)),
    "dict": Variant(seen=DICT),
    "bytes": Variant(seen=spaces.Box(0, 255, (8, 9, 3), np.uint8)),
    "normalised": Variant(options=BOTH),
    "normalised dict": Variant(seen=DICT, options=BOTH),
    "masked": Variant(masks=(3,)),
    "masked multi-discrete": Variant(done=spaces.MultiDiscrete([2, 3]), masks=(2, 3)),
    "recurrent": Variant(options={"recurrent": 5}),
    "recurrent, all else": Variant(seen=DICT, masks=(3,), options={"recurrent": 5, **BOTH}),
    "recurrent continuous": Variant(done=spaces.Box(-1, 1, (2,), np.float32), options={"recurrent": 5}),
    "assets": Variant(
        done=spaces.Box(-1, 1, (2,), np.float32), options={"share_weights": True, "asset_columns": [1, 1], **BOTH}
    ),
    "careful": Variant(
        options={
            "target_kl": 0.01,
            "clip_values": 0.2,
            "entropy": 0.01,
            "learning_rate_schedule": "linear",
            "clip_schedule": "linear",
            "normalise_advantages": False,
        }
    ),
    "no hidden layers": Variant(options={"hidden": []}),
}
variants = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())


def weights(learner: PPO) -> torch.Tensor:
    return learner.adam.flat.detach().clone()


def whole_state(learner: PPO) -> dict[str, np.ndarray]:
    """All arrays of a state by their path."""
    found: dict[str, np.ndarray] = {}

    def walk(tree: Any, path: str) -> None:
        if isinstance(tree, dict):
            for key, part in tree.items():
                walk(part, f"{path}/{key}")
        else:
            found[path] = np.asarray(tree)

    walk(learner.state(), "")
    return found


def assert_same(one: PPO, other: PPO) -> None:
    """Everything there is to save is equal, bit for bit."""
    first, second = whole_state(one), whole_state(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.tobytes() == second[name].tobytes(), name


@variants
def test_two_updates_leave_finite_weights(variant: Variant) -> None:
    """Actions lie in their space and obey the mask; weights move and stay finite, and so do the metrics."""
    learner, script = variant.learner(), variant.script()
    for _ in range(2):
        before = weights(learner)
        for actions in play(learner, script, 6):
            assert all(variant.done.contains(action) for action in each_row(actions, 4))
        assert learner.ready()
        metrics = learner.update()
        assert set(metrics) == {"kl", "policy", "value", "entropy", "gradient"}
        assert all(np.isfinite(value) for value in metrics.values())
        assert torch.isfinite(weights(learner)).all()
        assert not torch.equal(weights(learner), before)
        assert not learner.ready()
    assert learner.updates == 2


@variants
def test_the_policy_judges_its_actions_as_when_it_chose_them(variant: Variant) -> None:
    """With unchanged weights, the update's log-probabilities are the rollout's: the ratio is 1 for every action. This
    holds after an update, when normalisers and memories are under way, and whatever the order of minibatches."""
    learner, script = variant.learner(), variant.script()
    play(learner, script, 6)
    learner.update()
    play(learner, script, 6)
    samples, rows = learner.evaluate_rollout(), 0
    for part in learner.rollout.minibatches(samples, learner.minibatches, learner.generator):
        _, (log_ratio, *_) = learner.loss(part, 0.2)
        torch.testing.assert_close(log_ratio, torch.zeros_like(log_ratio), atol=2e-5, rtol=0)
        rows += len(log_ratio)
    assert rows == 24
    assert (samples["log_probs"] < 0).any()


@variants
def test_the_first_minibatch_sees_no_divergence(variant: Variant) -> None:
    """One epoch of one minibatch moves from where the rollout was: its KL is 0."""
    learner, script = variant.learner(epochs=1, minibatches=1), variant.script()
    play(learner, script, 6)
    assert learner.update()["kl"] == pytest.approx(0.0, abs=1e-6)


@variants
def test_two_groups_learn_what_one_learns(variant: Variant) -> None:
    """Envs stepped in two groups of different sizes, in turns, give the same actions and the same weights."""
    whole, divided = variant.learner(), variant.learner()
    scripts = variant.script(), variant.script()
    for _ in range(2):
        one = play(whole, scripts[0], 6)
        two = play(divided, scripts[1], 6, [slice(0, 1), slice(1, 4)])
        for actions, others in zip(one, two, strict=True):
            for mine, other in zip(arrays_of(actions), arrays_of(others), strict=True):
                np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)
        whole.update()
        divided.update()
    torch.testing.assert_close(weights(whole), weights(divided), rtol=1e-3, atol=1e-5)


@pytest.mark.few(7)
@pytest.mark.parametrize("steps", [0, 4, 6])
@variants
def test_a_saved_learner_goes_on_exactly(variant: Variant, steps: int) -> None:
    """Saved before, within and at the end of a rollout, and loaded into a learner with other weights and data behind
    it: after two more updates everything is bit-equal."""
    learner, script = variant.learner(), variant.script()
    play(learner, script, 6)
    learner.update()
    play(learner, script, steps)
    other = variant.learner(seed=1)
    play(other, variant.script(seed=1), 3)
    other.load(learner.state())
    assert_same(learner, other)
    continued = copy.deepcopy(script)
    for one, feed in ((learner, script), (other, continued)):
        play(one, feed, 6 - steps)
        one.update()
        play(one, feed, 6)
        one.update()
        play(one, feed, 2)
    assert_same(learner, other)
    assert torch.equal(weights(learner), weights(other))


@variants
def test_the_same_seed_gives_the_same_learner(variant: Variant) -> None:
    """Two learners with one seed agree bit for bit; another seed gives another."""
    one, two, other = (variant.learner(seed=seed) for seed in (3, 3, 4))
    assert not torch.equal(weights(one), weights(other))
    for learner in (one, two, other):
        torch.rand(7)  # whatever else draws in between
        play(learner, variant.script(), 6)
        learner.update()
    assert_same(one, two)
    assert not torch.equal(weights(one), weights(other))


@pytest.mark.parametrize("name", ["discrete", "continuous", "masked", "recurrent, all else", "careful"])
@pytest.mark.parametrize(("num_envs", "length"), [(1, 6), (1, 1), (5, 1), (3, 5)])
def test_odd_sizes_are_learned_from(name: str, num_envs: int, length: int) -> None:
    """One env, one step, and minibatches that do not divide evenly give finite weights."""
    variant = VARIANTS[name]
    learner = variant.learner(num_envs, rollout_length=length, minibatches=4)
    script = variant.script(num_envs)
    for _ in range(2):
        play(learner, script, length)
        learner.update()
    assert torch.isfinite(weights(learner)).all()
