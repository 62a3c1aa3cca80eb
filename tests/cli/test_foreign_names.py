"""Names and numbers as people write them elsewhere: they work, or one sentence says what to write."""

from __future__ import annotations

import pytest

from rookery.cli.main import build_parser, main
from rookery.config import user_config
from rookery.errors import OptionError


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("--lr 0.01", "learning_rate", 0.01),
        ("--algo ppo", "learner", "ppo"),
        ("--algorithm sac", "learner", "sac"),
        ("--n-envs 4", "num_envs", 4),
        ("--total-timesteps 1e6", "steps", 1e6),
    ],
)
def test_flags_of_other_programs_are_flags_here(words, key, value):
    options = build_parser("train").parse_args(["train", "CartPole-v1", *words.split()])
    assert getattr(options, key) == value


@pytest.mark.parametrize(
    ("text", "steps"), [("1k", 1_000), ("500K", 500_000), ("1m", 10**6), ("2.5M", 2_500_000), ("1b", 10**9), ("7", 7)]
)
def test_numbers_may_be_written_in_thousands_and_millions(text, steps):
    assert user_config("CartPole-v1", [f"steps={text}"]).steps == steps


@pytest.mark.parametrize("text", ["1kk", "k", "1.0001k", "-1k", "1g"])
def test_what_is_no_number_of_steps_is_refused(text):
    with pytest.raises(Exception, match="steps"):
        user_config("CartPole-v1", [f"steps={text}"])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("train CartPole-v1 --gamma 0.9", "gamma=VALUE"),
        ("train CartPole-v1 --ent-coef 0.01", "--set ent_coef=VALUE"),
        ("train CartPole-v1 --n-steps 64", "--set n_steps=VALUE"),
        ("train CartPole-v1 --clip 0.1", "--set ppo.clip=VALUE"),
        ("list", "did you mean runs"),
        ("sweep", "did you mean search"),
        ("enjoy", "did you mean watch"),
        ("evaluate a", "did you mean eval"),
    ],
)
def test_other_names_are_answered_with_what_to_write(words, answer, capsys):
    assert main(words.split()) == 2
    assert answer in capsys.readouterr().err


def test_a_setting_that_is_suggested_works():
    for setting in ("gamma=0.9", "ent_coef=0.01", "n_steps=64", "ppo.clip=0.1"):
        assert user_config("CartPole-v1", [setting, "learner=ppo"])


def test_latest_is_suggested_too(tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert main(["eval", "lastest", "--runs-dir", str(tmp_path)]) == 2
    assert "did you mean latest" in capsys.readouterr().err


def test_a_run_that_cannot_change_names_the_way_to_a_new_one():
    from rookery.config.inputs import _refusal

    assert "--from RUN --set num_envs=" in _refusal("num_envs", "ppo")


def test_unknown_flags_of_commands_without_settings_stay_plain():
    with pytest.raises(OptionError, match="lists all flags"):
        build_parser("doctor").parse_args(["doctor", "--gamma", "1"])
