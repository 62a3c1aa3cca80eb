"""The configuration of a trial: `rookery train` takes it as it is, whoever made the study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rookery.config import RunConfig, collect_config, resolve
from rookery.config.fields import fields
from rookery.errors import OptionError, StudyError
from rookery.studies.report.config_export import exported_config, guessed_learner, origin, translated, write_config
from rookery.studies.storage.study_view import StudyView, TrialView, VerifiedTrial

BASE = RunConfig(world="CartPole-v1", learner="ppo", steps=3000, num_envs=4, seed=7, search={"n_trials": 9})
SETTINGS = {"ppo.learning_rate": 0.00123, "ppo.hidden": [32, 32], "ppo.target_kl": None, "num_envs": 8}
# What rl_zoo3 stores for PPO, with the command that it records.
ZOO = {
    "batch_size_pow": 6, "n_steps_pow": 7, "one_minus_gamma": 0.02, "one_minus_gae_lambda": 0.05,
    "learning_rate": 0.0007, "ent_coef": 0.001, "clip_range": 0.2, "n_epochs": 10, "max_grad_norm": 0.8,
    "net_arch": "tiny", "activation_fn": "relu",
}  # fmt: skip
COMMAND = "python -m rl_zoo3.train --algo ppo --env CartPole-v1 -n 20000 -optimize --storage logs/demo.log"


def study(trial: TrialView, config: dict[str, Any] | None, **given: Any) -> StudyView:
    return StudyView("demo", given.pop("folder", None), "a.db", True, [trial], config, directions=(True,), **given)


def own_study(settings: dict[str, Any] = SETTINGS, **given: Any) -> StudyView:
    trial = TrialView(0, "finished", 3.0, (3.0,), settings, interval=(2.0, 4.0), params=settings)
    return study(trial, BASE.model_dump(mode="json"), **given)


def read(path: Path) -> RunConfig:
    return resolve(collect_config(path))


def test_a_round_trip_gives_the_settings_of_the_trial_and_the_rest_of_the_study(tmp_path: Path) -> None:
    found = read(write_config(exported_config(own_study()), tmp_path / "best.toml"))
    ppo = BASE.ppo.model_copy(update={"learning_rate": 0.00123, "hidden": [32, 32], "target_kl": None})
    wanted = BASE.model_copy(update={"ppo": ppo, "num_envs": 8, "search": RunConfig(world="x").search})
    assert found == wanted


def test_the_file_is_complete_and_commented() -> None:
    text = exported_config(own_study()).text
    searched = fields()["ppo.learning_rate"].description
    assert f"# Searched. {searched}\nlearning_rate = 0.00123\n" in text
    assert f"# {fields()['ppo.gamma'].description}\ngamma = " in text  # not searched, not given
    assert "Value when it was tuned: 3, 95 % interval 2 to 4" in text
    assert not {"[sac]", "[dqn]", "[td3]", "[search]"} & set(text.splitlines())
    assert all(len(line) <= 300 for line in text.splitlines())


def test_the_verified_trial_is_exported_and_another_on_request() -> None:
    trials = [TrialView(n, "finished", n * 1.0, (n * 1.0,), {"ppo.gamma": 0.9 + n / 100}) for n in range(3)]
    verified = {1: VerifiedTrial(1, 0.9, None, {"1000": 0.9})}
    made = StudyView("demo", None, "a.db", True, trials, BASE.model_dump(mode="json"), verified, (True,))
    assert exported_config(made).trial == 1
    assert "Value with 1 held-out seed: 0.9" in exported_config(made).text
    assert "gamma = 0.92\n" in exported_config(made, 2).text
    with pytest.raises(StudyError, match="no trial 9: it has 3 trials"):
        exported_config(made, 9)


def test_options_that_a_recipe_gave_come_from_the_run(tmp_path: Path) -> None:
    """A trial with another learner than the study's trained with options that only its run tells."""
    run = tmp_path / "runs" / "trial-00000-seed-0"
    run.mkdir(parents=True)
    used = RunConfig(world="CartPole-v1").dqn.model_copy(update={"gamma": 0.91, "tau": 0.5})
    (run / "config.json").write_text(json.dumps({"dqn": used.model_dump(mode="json")}))
    parts = {"seed-0": {"value": 1.0, "run": "runs/trial-00000-seed-0"}}
    trial = TrialView(0, "finished", 1.0, (1.0,), {"learner": "dqn", "dqn.gamma": 0.95}, parts)
    made = exported_config(study(trial, BASE.model_dump(mode="json"), folder=tmp_path))
    values = read(write_config(made, tmp_path / "made.toml"))
    assert (values.learner, values.dqn.gamma, values.dqn.tau) == ("dqn", 0.95, 0.5)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "best.toml"
    path.write_text("mine")
    with pytest.raises(OptionError, match="exists already; --force"):
        write_config(exported_config(own_study()), path)
    assert path.read_text() == "mine"
    write_config(exported_config(own_study()), path, overwrite=True)
    assert read(path).num_envs == 8
    with pytest.raises(OptionError, match=r"should end in \.toml"):
        write_config(exported_config(own_study()), tmp_path / "best.json")


def test_a_study_without_a_finished_trial_says_so() -> None:
    empty = StudyView("demo", None, "a.db", True, [TrialView(0, "running")], BASE.model_dump(mode="json"))
    with pytest.raises(StudyError, match="no trial of demo has finished"):
        exported_config(empty)


def test_studies_of_rl_zoo3_are_translated(tmp_path: Path) -> None:
    trial = TrialView(0, "finished", 3.0, (3.0,), ZOO, params=ZOO)
    attributes = {"command": COMMAND, "n_envs": "8", "n_timesteps": "100000.0"}
    exported = exported_config(study(trial, None, attributes=attributes))
    found = read(write_config(exported, tmp_path / "best.toml"))
    assert (found.world, found.learner, found.steps, found.num_envs) == ("CartPole-v1", "ppo", 20000, 8)
    ppo = found.ppo
    assert (ppo.batch_size, ppo.rollout_length, ppo.gamma, ppo.gae_lambda) == (64, 128, 0.98, 0.95)
    assert (ppo.learning_rate, ppo.entropy, ppo.clip, ppo.epochs) == (0.0007, 0.001, 0.2, 10)
    assert (ppo.max_grad_norm, ppo.hidden, ppo.activation) == (0.8, [64], "relu")
    assert exported.notes == ()


def test_what_has_no_equal_is_named() -> None:
    params = {"learning_rate": 0.001, "use_sde": True, "log_std_init": -1.0, "one_minus_gamma": 0.01, "train_freq": 8}
    values, notes = translated({**params, "subsample_steps": 2, "ortho_init": False}, "sac")
    assert values["sac"]["learning_rate"] == 0.001
    assert (values["sac"]["gamma"], values["sac"]["updates_per_step"]) == (0.99, 0.5)
    assert [note.split("`")[1] for note in notes] == ["use_sde", "log_std_init", "ortho_init"]
    assert "state-dependent exploration" in notes[0]


def test_dqn_and_td3_of_rl_zoo3() -> None:
    dqn = {"exploration_final_eps": 0.1, "exploration_fraction": 0.2, "target_update_interval": 100, "net_arch": "big"}
    values, notes = translated(dqn, "dqn", 10_000)
    assert values == {"dqn": {"epsilon_end": 0.1, "epsilon_steps": 2000, "hidden": [400, 300]}}
    assert "target_every" in notes[0]
    assert translated({"noise_type": "normal", "noise_std": 0.2}, "td3") == ({"td3": {"exploration_noise": 0.2}}, [])
    assert guessed_learner(dqn) == "dqn"
    assert guessed_learner({"clip_range": 0.2}) == "ppo"
    assert guessed_learner({"x": 1}) is None


def test_a_study_of_optuna_needs_a_world() -> None:
    trial = TrialView(0, "finished", 3.0, (3.0,), {"lr": 0.01}, params={"lr": 0.01})
    with pytest.raises(StudyError, match="give --world"):
        exported_config(study(trial, None))
    with pytest.raises(StudyError, match="give --learner ppo"):
        exported_config(study(trial, None), world="CartPole-v1")
    text = exported_config(study(trial, None), world="CartPole-v1", learner="ppo").text
    assert "learning_rate = 0.01\n" in text
    with pytest.raises(OptionError, match="studies of others"):
        exported_config(own_study(), world="CartPole-v1")


def test_the_origin_of_other_commands() -> None:
    assert origin({}) == {}
    assert origin({"command": "python 'unfinished"}) == {}
    assert origin({"command": "train.py --env A-v0 --algo tqc"}) == {"world": "A-v0", "learner": "tqc"}
