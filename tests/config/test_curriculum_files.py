"""Curriculum files of hockey trainers as people have them (tests/data/curricula)."""

from __future__ import annotations

from pathlib import Path

import pytest

import rookery
from rookery.config import build_config
from rookery.errors import ConfigError

FILES = Path(__file__).parents[1] / "data" / "curricula"
AGENTS = {
    "curriculum_base": "dqn", "curriculum_redq_td3": "td3", "curriculum_sac": "sac", "curriculum_sac_archive": "sac",
    "curriculum_simple": "sac", "curriculum_td3": "td3", "curriculum_test": "dqn", "curriculum_test_per": "dqn",
}  # fmt: skip
REFUSED = {"curriculum_tdmpc2_mixed_opponents": "`agent.type` = 'TDMPC2' cannot be trained here"}


def test_no_file_is_forgotten() -> None:
    grids = {"hyperparameter_base"}  # lists of values, for a search
    assert {file.stem for file in FILES.iterdir()} == {*AGENTS, *REFUSED, *grids}


@pytest.mark.parametrize(("name", "learner"), AGENTS.items())
def test_a_file_is_read(name: str, learner: str) -> None:
    """Its learner, phases and opponents are those of rookery."""
    config = build_config(FILES / f"{name}.json")
    assert config.learner == learner and config.phases and config.has_curriculum


def test_what_redq_becomes() -> None:
    """The file's own values win over those of the option `redq`."""
    td3 = build_config(FILES / "curriculum_redq_td3.json").td3
    assert (td3.redq, td3.num_critics, td3.min_critics, td3.updates_per_step) == (True, 10, 2, 20.0)
    assert (td3.policy_delay, td3.target_mode, td3.prioritised, td3.tau) == (20, "min", True, pytest.approx(0.005))


@pytest.mark.parametrize(("name", "words"), REFUSED.items())
def test_what_is_refused_in_one_sentence(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(FILES / f"{name}.json")
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_a_file_runs(tmp_path: Path, name: str) -> None:
    """A few hundred steps, with updates from the start."""
    learner = AGENTS[name]
    quick = {"start_steps": 64, "hidden": [16, 16], "batch_size": 32}
    result = rookery.train(
        FILES / f"{name}.json", num_envs=4, steps=256, runs_dir=tmp_path, **{learner: quick},
        evaluation={"episodes": 1, "every": 256}, monitor={"panel": False, "plot": False, "tensorboard": False},
    )  # fmt: skip
    assert result.total_steps >= 256
