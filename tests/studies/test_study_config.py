"""What all trials of a study share."""

from __future__ import annotations

import pytest

from rookery.config import build_config
from rookery.errors import OptionError
from rookery.studies.study_config import study_config, trial_config


def test_open_choices_are_made_once():
    base = study_config(build_config("CartPole-v1"))
    assert isinstance(base.num_envs, int) and base.backend == "kernel" and base.learner == "ppo"
    assert base.ppo.threads == 1


def test_a_continued_study_measures_nothing_again():
    base = study_config(build_config("CartPole-v1"), {"num_envs": 24, "backend": "kernel", "learner": "ppo"})
    assert base.num_envs == 24
    assert study_config(build_config("CartPole-v1", num_envs=8), {"num_envs": 24}).num_envs == 8


def test_runs_of_trials_are_quiet_and_keep_what_was_asked_for(tmp_path):
    base = study_config(build_config("CartPole-v1", monitor={"tensorboard": True}, checkpoints={"keep": 5}))
    config = trial_config(base, {"ppo.gamma": 0.9}, 3, tmp_path)
    assert (config.name, config.runs_dir, config.ppo.gamma) == ("trial-00003", str(tmp_path), 0.9)
    assert config.monitor.tensorboard and not config.monitor.plot and not config.monitor.verbose
    assert config.checkpoints.keep == 5 and config.search == build_config("CartPole-v1").search


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"num_envs": "adaptive"}, "trials do not compare"),
        ({"search": {"pruner": "median", "objectives": "value+seconds"}}, "compares one value"),
        ({"device": "cuda:0"}, "cuda"),
    ],
)
def test_what_cannot_be_searched_is_refused(keys, words):
    with pytest.raises(OptionError, match=words):
        study_config(build_config("CartPole-v1", **keys))
