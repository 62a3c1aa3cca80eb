"""What a search varies: how it is written, what is rejected, and what is tried first."""

import optuna
import pytest

from rookery.config import RunConfig, build_config
from rookery.errors import ConfigError
from rookery.studies.space.default_spaces import OF_LEARNERS, default_space
from rookery.studies.space.dimensions import Constraint
from rookery.studies.space.samplers import make_sampler
from rookery.studies.space.space import SearchSpace, with_settings

optuna.logging.set_verbosity(optuna.logging.WARNING)


def config_with(space=None, **search):
    return build_config({"world": "CartPole-v1", "learner": "ppo", "search": {"space": space or {}, **search}})


def drawn(config, number, directions=("maximize",)):
    """The settings of the first trials of a study, told the value of `ppo.clip` or 0."""
    space = SearchSpace.of(config)
    study = optuna.create_study(directions=directions, sampler=make_sampler(config.search, space))
    found = []
    for _ in range(number):
        trial = study.ask()
        found.append(space.suggest(trial))
        study.tell(trial, [found[-1].get("ppo.clip", 0.0)] * len(directions))
    return found


def test_every_kind_of_value():
    config = config_with(
        {
            "ppo.learning_rate": {"log": [1e-5, 1e-3]}, "ppo": {"clip": {"uniform": [0.1, 0.4], "step": 0.1}},
            "ppo.epochs": {"int": [1, 9], "step": 2}, "ppo.minibatches": {"log_int": [1, 32]},
            "ppo.hidden": {"choice": [[8], [16, 16]]}, "ppo.activation": ["tanh", "relu"], "ppo.gamma": {"value": 0.9},
            "world_options.limit": [1, 2],
        }
    )  # fmt: skip
    for settings in drawn(config, 30):
        assert 1e-5 <= settings["ppo.learning_rate"] <= 1e-3
        assert settings["ppo.epochs"] in (1, 3, 5, 7, 9)
        assert settings["ppo.hidden"] in ([8], [16, 16])
        assert settings["ppo.gamma"] == 0.9
        trial = with_settings(config, settings)
        assert trial.ppo.hidden == settings["ppo.hidden"]
        assert trial.world_options["limit"] == settings["world_options.limit"]
        assert not trial.search.space


def test_a_key_counts_when_another_has_its_value():
    space = {
        "ppo.clip": {"uniform": [0.1, 0.2], "when": {"ppo.activation": "relu"}},
        "ppo.activation": {"choice": ["tanh", "relu"]},
    }
    found = drawn(config_with(space), 40)
    assert {("ppo.clip" in one, one["ppo.activation"]) for one in found} == {(True, "relu"), (False, "tanh")}


def test_options_count_for_their_own_learner_if_the_learner_varies():
    space = {"learner": ["ppo", "dqn"], "ppo.clip": [0.1, 0.2], "dqn.tau": [0.1, 0.2]}
    found = drawn(config_with(space), 20)
    assert {tuple(sorted(one)) for one in found} == {("learner", "ppo.clip"), ("dqn.tau", "learner")}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"ppo.clipp": [1]}, "no key `ppo.clipp`; did you mean ppo.clip"),
        ({"ppo.clip": {"logg": [1, 2]}}, "has no `logg`; did you mean log"),
        ({"ppo.clip": {"log": [0, 1]}}, "lower end > 0"),
        ({"ppo.clip": {"log": [2, 1]}}, "lower end comes first"),
        ({"ppo.clip": {"log": [1]}}, "two numbers"),
        ({"ppo.epochs": {"int": [1.5, 2]}}, "two integers"),
        ({"ppo.clip": {"log": [1, 2], "uniform": [1, 2]}}, "needs one of"),
        ({"ppo.clip": {"step": 1}}, "none of them"),
        ({"ppo.clip": 0.1}, "should be a table"),
        ({"ppo.clip": []}, "a list of values"),
        ({"ppo.clip": [0.1, 0.1]}, "a value twice"),
        ({"ppo.clip": {"uniform": [-1, 1]}}, "ppo.clip"),
        ({"ppo.activation": ["tanh", "tan"]}, "ppo.activation"),
        ({"ppo.clip": [0.1], "ppo": {"clip": [0.2]}}, "given twice"),
        ({"steps": [1, 2]}, "cannot vary"),
        ({"evaluation.episodes": [1, 2]}, "cannot vary"),
        ({"dqn.tau": [0.1]}, "no effect"),
        ({"learner": ["ppo", "dqn"], "sac.tau": [0.1]}, "never counts"),
        ({"ppo.clip": {"choice": [0.1], "when": {"ppo.gamma": 1}}}, "does not vary"),
        ({"ppo.clip": {"choice": [0.1], "when": {"ppo.activation": "x"}}, "ppo.activation": ["relu"]}, "never is"),
        (
            {"ppo.clip": {"choice": [0.1], "when": {"ppo.gamma": 0.9}},
             "ppo.gamma": {"choice": [0.9], "when": {"ppo.clip": 0.1}}},
            "a circle",
        ),
    ],
)  # fmt: skip
def test_a_wrong_space_is_refused_in_words(space, message):
    with pytest.raises(ConfigError, match=message):
        SearchSpace.of(config_with(space))


SLOW_GP = pytest.param("gp", marks=pytest.mark.slow)  # fits a model for every trial


@pytest.mark.few(1)
@pytest.mark.parametrize("sampler", ["tpe", "random", "cmaes", SLOW_GP, "grid"])
def test_constraints_hold_in_every_trial(sampler):
    space = {"ppo.epochs": {"int": [1, 8]}, "ppo.minibatches": {"int": [1, 8]}, "ppo.clip": [0.1, 0.2]}
    config = config_with(space, constraints=["ppo.epochs * ppo.minibatches <= 8", "ppo.clip < 0.5"], sampler=sampler)
    found = drawn(config, 25)
    assert all(one["ppo.epochs"] * one["ppo.minibatches"] <= 8 for one in found)
    assert len({tuple(one.items()) for one in found}) > 10


def test_constraints_see_the_rest_of_the_configuration():
    config = config_with({"ppo.minibatches": {"int": [1, 16]}}, constraints=["ppo.minibatches <= ppo.epochs"])
    assert {one["ppo.minibatches"] for one in drawn(config, 30)} <= {1, 2, 3, 4}


def test_impossible_constraints_end_with_a_sentence():
    config = config_with({"ppo.epochs": {"int": [1, 8]}}, constraints=["ppo.epochs > 100"])
    with pytest.raises(ConfigError, match="narrow the space"):
        drawn(config, 1)


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "ppo.clip <", "1 < 2", "open('x') == ppo.clip", "ppo.clip ** 99999", "[x for x in ppo.clip]"],
)
def test_a_constraint_is_arithmetic_and_nothing_else(text):
    with pytest.raises(ConfigError, match="cannot be used"):
        Constraint(text)


def test_constraints_compare_texts_lists_and_truth_values():
    settings = {"ppo.hidden": [64, 64], "ppo.activation": "relu", "dqn.double": True}
    assert Constraint("len(ppo.hidden) == 2 and sum(ppo.hidden) <= 128").holds(settings)
    assert Constraint('ppo.activation in ["relu", "tanh"]').holds(settings)
    assert Constraint("dqn.double == true and not ppo.activation == 'tanh'").holds(settings)
    with pytest.raises(ConfigError, match="cannot be computed"):
        Constraint("ppo.hidden < 3").holds(settings)


@pytest.mark.few(1)
@pytest.mark.parametrize("sampler", ["tpe", "random", "cmaes", SLOW_GP])
def test_a_study_that_was_interrupted_draws_what_it_would_have_drawn(sampler):
    """Each trial by a new sampler, as a new process would make it."""
    config = config_with({"ppo.clip": {"uniform": [0.1, 0.4]}, "ppo.gamma": {"uniform": [0.9, 0.99]}}, sampler=sampler)
    space, study = SearchSpace.of(config), optuna.create_study(direction="maximize")
    found = []
    for _ in range(14):
        study.sampler = make_sampler(config.search, space)
        trial = study.ask()
        found.append(space.suggest(trial))
        study.tell(trial, found[-1]["ppo.clip"])
    assert found == drawn(config, 14)
    assert found != drawn(config.model_copy(update={"search": config.search.model_copy(update={"seed": 1})}), 14)


@pytest.mark.parametrize("sampler", ["tpe", "cmaes", SLOW_GP])
def test_samplers_learn_from_what_they_are_told(sampler):
    found = drawn(
        config_with({"ppo.clip": {"uniform": [0.1, 0.9]}, "ppo.gamma": {"uniform": [0.9, 0.99]}}, sampler=sampler), 45
    )
    early, late = ([one["ppo.clip"] for one in part] for part in (found[:10], found[-10:]))
    assert sum(late) / 10 > sum(early) / 10


def test_a_gaussian_process_draws_after_its_first_trials():
    assert len(drawn(config_with({"ppo.clip": {"uniform": [0.1, 0.9]}}, sampler="gp"), 12)) == 12


def test_two_objectives():
    assert len(drawn(config_with({"ppo.clip": {"uniform": [0.1, 0.9]}}), 15, ("maximize", "minimize"))) == 15


@pytest.mark.slow
def test_a_grid_is_gone_through_once():
    space = {"ppo.clip": [0.1, 0.2, 0.3], "ppo.epochs": {"int": [1, 2]}, "ppo.gamma": {"value": 0.9}}
    config = config_with(space, sampler="grid")
    found = drawn(config, 6)
    assert SearchSpace.of(config).size == 6
    assert len({tuple(one.items()) for one in found}) == 6
    with pytest.raises(ConfigError, match="a range of real numbers"):
        make_sampler(config.search, SearchSpace.of(config_with({"ppo.clip": {"uniform": [0.1, 0.2]}})))
    large = config_with({f"ppo.{key}": {"int": [1, 999]} for key in ("epochs", "minibatches", "rollout_length")})
    with pytest.raises(ConfigError, match="more than 100,000"):
        SearchSpace.of(large).grid()
    assert SearchSpace.of(large).size == 999**3


def test_own_settings_come_first_and_then_those_that_are_known():
    config = config_with(
        {"ppo.clip": {"uniform": [0.3, 0.9]}, "ppo.hidden": [[64, 64], [8]]},
        enqueue=[{"ppo.clip": 0.5}, {"ppo": {"clip": 0.6, "hidden": [8]}}],
    )
    assert SearchSpace.of(config).first_trials(config) == [
        {"ppo.clip": 0.3, "ppo.hidden": "[64, 64]"},  # 0.2 is outside of the range
        {"ppo.clip": 0.5, "ppo.hidden": "[64, 64]"},
        {"ppo.clip": 0.6, "ppo.hidden": "[8]"},
    ]
    for wrong, message in (
        ({"ppo.gamma": 0.9}, "does not vary"),
        ({"ppo.hidden": [9]}, "none of"),
        ({"ppo.clip": "a"}, "number"),
    ):
        other = config_with({"ppo.clip": {"uniform": [0.3, 0.9]}, "ppo.hidden": [[64, 64], [8]]}, enqueue=[wrong])
        with pytest.raises(ConfigError, match=message):
            SearchSpace.of(other).first_trials(other)


def test_an_enqueued_trial_keeps_its_settings():
    config = config_with({"ppo.clip": {"uniform": [0.1, 0.9]}, "ppo.gamma": {"uniform": [0.9, 0.99]}})
    space = SearchSpace.of(config)
    study = optuna.create_study(sampler=make_sampler(config.search, space))
    study.enqueue_trial({"ppo.clip": 0.7})
    first, second = space.suggest(study.ask()), space.suggest(study.ask())
    assert first["ppo.clip"] == 0.7 and first["ppo.gamma"] != 0.99 and second["ppo.clip"] != 0.7


@pytest.mark.parametrize("learner", list(OF_LEARNERS))
def test_every_learner_has_a_space_that_holds_its_own_settings(learner):
    world = "Pendulum-v1" if learner in ("sac", "td3") else "CartPole-v1"
    config = RunConfig(world=world, learner=learner, num_envs=8, **{learner: {"learning_rate": 1e-6, "gamma": 0.97}})
    space = SearchSpace.of(config)
    (own,) = space.first_trials(config)
    assert own[f"{learner}.learning_rate"] == 1e-6 and own[f"{learner}.gamma"] == 0.97
    for settings in drawn(config, 10):
        assert with_settings(config, settings).learner == learner


def test_the_default_space_of_a_kernel_world_has_fewer_envs_and_shorter_rollouts_too():
    """A short run needs updates more than it needs envs."""
    config = RunConfig(world="CartPole-v1", learner="ppo", num_envs=16, backend="kernel", ppo={"rollout_length": 64})
    space = default_space(config)
    assert space["num_envs"]["choice"] == [2, 4, 8, 16]
    assert space["ppo.rollout_length"]["choice"] == [16, 32, 64, 128]
    assert "num_envs" not in default_space(config.model_copy(update={"backend": "process"}))
