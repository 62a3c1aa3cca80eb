"""Configurations of older trading trainers: they are read as they are, and mistakes are named by their own names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from rookery.config import build_config, collect_config
from rookery.config.trading_config import is_trading
from rookery.errors import ConfigError
from rookery.training.resolve.world_choice import find

CONFIG: dict[str, Any] = {
    "algorithm": "DQN",
    "environment": {
        "observation_feature_cols": ["rsi_14", "ema_10", "ema_20"],
        "initial_balance": 100000,
        "action_type": "discrete",
    },
    "training": {"total_timesteps": 500000},
}


def refusal(content: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        build_config(content)
    return str(caught.value)


def with_training(**keys: Any) -> dict[str, Any]:
    return {**CONFIG, "training": {**CONFIG["training"], **keys}}


def test_as_a_dict() -> None:
    config = build_config(CONFIG)
    assert (config.world, config.learner, config.steps) == ("forex", "dqn", 500_000)
    assert config.world_options == CONFIG["environment"]


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_as_a_file(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"config{suffix}"
    path.write_text(yaml.safe_dump(CONFIG) if suffix == ".yaml" else json.dumps(CONFIG))
    assert build_config(str(path)) == build_config(CONFIG)
    path.write_text(yaml.safe_dump({**CONFIG, "algorithm": "DQM"}))
    assert str(path) in refusal(str(path))


@pytest.mark.parametrize("algorithm", ["PPO", "SAC", "dqn", "Td3"])
def test_algorithms(algorithm: str) -> None:
    assert build_config({**CONFIG, "algorithm": algorithm}).learner == algorithm.lower()


def test_continuous_learners_get_continuous_actions() -> None:
    """By the registry's spec of the world; an action type that is given is kept, and refused where it does not fit."""
    config = build_config({"algorithm": "SAC", "environment": {}})
    assert find(config.world, learner=config.learner).env_kwargs == {"action_type": "continuous"}
    given = build_config({**CONFIG, "algorithm": "SAC"}).world_options
    assert find("forex", learner="sac", options=given).env_kwargs["action_type"] == "discrete"


def test_names_of_stable_baselines_in_training() -> None:
    config = build_config(with_training(learning_rate=1e-4, batch_size=64, exploration_final_eps=0.02, gpu=1))
    assert (config.dqn.learning_rate, config.dqn.batch_size, config.dqn.epsilon_end) == (1e-4, 64, 0.02)
    assert config.device == "cuda:1"


@pytest.mark.parametrize("section", ["hyperparameters", "algorithm_params", "agent"])
def test_hyperparameters_of_the_learner(section: str) -> None:
    assert build_config({**CONFIG, section: {"learning_starts": 77}}).dqn.start_steps == 77
    named = {**CONFIG, "algorithm": {"name": "DQN", "learning_starts": 77}}
    assert build_config(named).dqn.start_steps == 77


@pytest.mark.parametrize("place", ["environment", "training", "vectorized", "data", None, "training.vectorized"])
def test_symbols_and_folder_in_plausible_places(place: str | None) -> None:
    given = {"symbols": "EURUSD, GBPUSD", "data_dir": "data/forex"}
    config = json.loads(json.dumps(CONFIG))
    target = config
    for part in place.split(".") if place else ():
        target = target.setdefault(part, {})
    target |= given
    options = build_config(config).world_options
    assert (options["symbols"], options["data_dir"]) == (["EURUSD", "GBPUSD"], "data/forex")


@pytest.mark.parametrize("place", ["environment", "training", "vectorized", "vectorized_training", "vec_env"])
def test_number_of_envs_in_plausible_places(place: str) -> None:
    config = json.loads(json.dumps(CONFIG))
    config[place] = {**config.get(place, {}), "n_envs": 6, "use_shared_memory": False}
    assert build_config(config).num_envs == 6


def test_vectorised_training_that_is_switched_off() -> None:
    assert build_config({**CONFIG, "vectorized": {"enabled": False, "n_envs": 8}}).num_envs == 1


def test_current_keys_beside_the_sections() -> None:
    config = build_config({**CONFIG, "seed": 3, "evaluation": {"episodes": 7}, "world": "crypto"}, num_envs=5)
    assert (config.seed, config.evaluation.episodes, config.world, config.num_envs) == (3, 7, "crypto", 5)


def test_overrides_and_keywords_win() -> None:
    config = build_config(CONFIG, ["world_options.initial_balance=5"], steps=10)
    assert (config.world_options["initial_balance"], config.steps) == (5, 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**CONFIG, "algorithm": "A2C"}, "`algorithm` should be one of PPO, SAC, DQN, TD3, PQN, XQC, got 'A2C'"),
        (with_training(total_timestep=5), "training: unknown key `total_timestep`; did you mean `total_timesteps`"),
        ({**CONFIG, "enviroment": {}}, "unknown key `enviroment`; did you mean `environment`"),
        ({**CONFIG, "training": [1]}, "`training` should be a table"),
        ({**CONFIG, "vectorized": {"n_env": 4}}, "vectorized: unknown key `n_env`; did you mean `n_envs`"),
        ({**CONFIG, "n_envs": 3, "vectorized": {"n_envs": 4}}, "`n_envs` is given twice, as 3 and 4"),
        (with_training(total_timesteps="many"), "`steps` should be"),
    ],
)
def test_mistakes(content: dict[str, Any], message: str) -> None:
    assert message in refusal(content)


def test_all_mistakes_at_once() -> None:
    text = refusal({"algorithm": "A2C", "environment": {}, "training": {"foo": 1, "bar": 2}})
    assert all(part in text for part in ("A2C", "`foo`", "`bar`"))


def test_other_configurations_are_left_alone() -> None:
    assert not is_trading({"world": "CartPole-v1", "ppo": {"clip": 0.1}})
    assert not is_trading({"curriculum": {"phases": []}, "training": {}, "algorithm": "DQN"})
    assert collect_config({"world": "CartPole-v1", "algorithm": "PPO"}) == {"world": "CartPole-v1", "learner": "ppo"}
    assert "world" in refusal({"algorithm": "PPO"})
