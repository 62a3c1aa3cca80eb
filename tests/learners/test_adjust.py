"""Options that change during a run: each takes effect, can be taken back, and is rejected where it could not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners import offpolicy_tools, scripted
from learners.offpolicy_tools import Centre, Corridor, arrays, assert_same
from rookery.errors import OptionError
from rookery.learners.algorithms.dqn import DQN
from rookery.learners.learner import Learner
from rookery.learners.registry import make_learner, option_classes

SEEN = spaces.Box(-3, 3, (1,), np.float32)
ACTIONS: dict[str, spaces.Space] = {
    "ppo": spaces.Discrete(2), "sac": spaces.Box(-2, 2, (1,), np.float32), "dqn": spaces.Discrete(2),
    "pqn": spaces.Discrete(2),
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "ppo": {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, "normalise_rewards": True},
    "sac": {"hidden": [8], "batch_size": 8, "start_steps": 8, "temperature": 0.2, "normalise_rewards": True},
    "dqn": {"hidden": [8], "batch_size": 8, "start_steps": 8, "updates_per_step": 0.5, "epsilon_steps": 100},
    "pqn": {"rollout_length": 6, "hidden": [8], "epochs": 2, "minibatches": 2, "epsilon_fraction": 0.9},
}
# Another value of each option that can change, and what must be so for it to matter.
OTHER: dict[str, dict[str, Any]] = {
    "learning_rate": {"learning_rate": 0.03},
    "learning_rate_schedule": {"learning_rate_schedule": "linear"},
    "gamma": {"gamma": 0.5},
    "max_grad_norm": {"max_grad_norm": 1e-3},
    "minibatches": {"minibatches": 3},
    "epochs": {"epochs": 5},
    "q_lambda": {"q_lambda": 0.1},
    "epsilon_fraction": {"epsilon_fraction": 0.6},
    "gae_lambda": {"gae_lambda": 0.1},
    "clip": {"clip": 1e-4},
    "clip_schedule": {"clip_schedule": "linear", "clip": 1e-3},
    "clip_values": {"clip_values": 1e-3},
    "entropy": {"entropy": 0.5},
    "value_weight": {"value_weight": 3.0},
    "target_kl": {"target_kl": 1e-12},
    "normalise_advantages": {"normalise_advantages": False},
    "batch_size": {"batch_size": 5},
    "updates_per_step": {"updates_per_step": 0.25},
    "updates_each": {"updates_each": "round"},
    "tau": {"tau": 0.5},
    "temperature": {"temperature": 0.7},
    "double": {"double": False},
    "loss": {"loss": "squared"},
    "importance_exponent": {"importance_exponent": 1.0},
    "importance_steps": {"importance_steps": 1},
    "priority_floor": {"priority_floor": 0.5},
    "target_every": {"target_every": 3},
    "epsilon_start": {"epsilon_start": 0.3},
    "epsilon_end": {"epsilon_end": 0.9},
    "epsilon_steps": {"epsilon_steps": 1},
    "epsilon_decay": {"epsilon_decay": 0.5},
    "epsilon_per_env": {"epsilon_per_env": True},
}
CASES = [
    (kind, name) for kind in SMALL for name in sorted(option_classes()[kind].adjustable - {"threads", "target_entropy"})
]


def make(kind: str, **options: Any) -> Learner:
    settings = option_classes()[kind](**{**SMALL[kind], **options})
    learner = make_learner(kind, SEEN, ACTIONS[kind], settings, 4, 0)
    learner.progress = 0.5
    return learner


def after_some_steps(learner: Learner) -> Any:
    if learner.on_policy:
        script = scripted.Script(SEEN, 4)
        for _ in range(3):
            scripted.play(learner, script, learner.options.rollout_length)
            learner.update()
    else:
        world = Corridor if isinstance(learner, DQN) else Centre
        offpolicy_tools.play(learner, world(4, 7, 0), 20)
        if isinstance(learner, DQN):  # one whose errors are large
            learner.policy.net.advantage.bias.data += torch.tensor([3.0, -3.0])
            offpolicy_tools.play(learner, world(4, 7, 1), 5)
    return learner.state()


def same(one: Any, two: Any) -> bool:
    first, second = arrays(one), arrays(two)
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """How learners end up that were never adjusted."""
    torch.set_num_threads(1)
    return {kind: after_some_steps(make(kind)) for kind in SMALL}


@pytest.mark.few(1)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_an_adjusted_option_is_as_if_given(plain: dict[str, Any], kind: str, name: str) -> None:
    """Bit for bit the learner that had it from the start, and not the one that never had it."""
    adjusted = make(kind)
    adjusted.adjust(OTHER[name])
    found = after_some_steps(adjusted)
    assert_same(found, after_some_steps(make(kind, **OTHER[name])))
    assert not same(found, plain[kind])


@pytest.mark.parametrize("kind", SMALL)
def test_the_runs_own_options_undo_it(plain: dict[str, Any], kind: str) -> None:
    """Named in full, they put everything back."""
    learner, own = make(kind), option_classes()[kind](**SMALL[kind]).model_dump()
    for kind_of_case, name in CASES:
        if kind_of_case == kind:
            learner.adjust(own | OTHER[name])
    learner.adjust(own)
    assert_same(after_some_steps(learner), plain[kind])


def test_without_written_gradients_too() -> None:
    """A recurrent PPO learns by torch's autograd, from the same options."""
    change = {"entropy": 0.5, "clip": 0.01, "learning_rate": 0.02, "epochs": 3}
    adjusted = make("ppo", recurrent=4)
    adjusted.adjust(change)
    assert_same(after_some_steps(adjusted), after_some_steps(make("ppo", recurrent=4, **change)))


def test_a_learned_temperature_follows_another_target() -> None:
    """The target entropy of SAC can move; whether there is one cannot."""
    learner = make("sac", temperature="auto")
    learner.adjust({"target_entropy": -5.0})
    wanted = make("sac", temperature="auto", target_entropy=-5.0)
    assert_same(after_some_steps(learner), after_some_steps(wanted))
    with pytest.raises(OptionError, match=r"`temperature` cannot become 0[.]1 in a run that began with 'auto'"):
        learner.adjust({"temperature": 0.1})
    with pytest.raises(OptionError, match="`temperature` cannot become 'auto'"):
        make("sac").adjust({"temperature": "auto"})


def test_the_optimiser_gets_the_new_learning_rate() -> None:
    """At the next update, with its moments kept."""
    learner = make("dqn")
    after_some_steps(learner)
    moments = learner.adam.moments[0].clone()
    learner.adjust({"learning_rate": 0.5})
    assert torch.equal(learner.adam.moments[0], moments)
    learner.execution.updates_due = 1.0
    learner.update()
    assert learner.adam.learning_rate == 0.5


def test_the_configuration_stays_as_it_is() -> None:
    """A learner's options may be the configuration's own object."""
    options = option_classes()["dqn"](**SMALL["dqn"])
    learner = make_learner("dqn", SEEN, ACTIONS["dqn"], options, 4, 0)
    learner.adjust({"gamma": 0.5})
    assert (options.gamma, learner.options.gamma) == (0.99, 0.5)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("ppo", {"rollout_length": 12}, "`rollout_length` cannot change during a run; these can: batch_size, clip, "),
        ("sac", {"hidden": [9], "n_step": 3}, "`hidden` and `n_step` cannot change"),
        ("dqn", {"buffer_size": 10}, "`buffer_size` cannot change"),
        ("dqn", {"gama": 0.1}, "unknown option `gama`; did you mean `gamma`"),
        ("ppo", {"clip": -1.0}, r"`clip` cannot be -1\.0"),
        ("sac", {"batch_size": "many"}, "`batch_size` cannot be 'many'"),
    ],
)
def test_what_cannot_change_is_refused(kind: str, changes: dict[str, Any], message: str) -> None:
    """By name, with what can; and nothing is changed then."""
    learner = make(kind)
    before = learner.options
    with pytest.raises(OptionError, match=message):
        learner.adjust({"learning_rate": 0.01, **changes})
    assert learner.options is before
