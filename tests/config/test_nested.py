"""Mistakes in the lists and tables of a configuration: which one is wrong, and what would be right there."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rookery.cli.main import main
from rookery.config import check, collect_config, resolve
from rookery.config.sections import Opponent, Phase
from rookery.config.validation import check_phases
from rookery.errors import ConfigError

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key of a phase": (
        {"phases": [{}, {"name": "defence", "episods": 3}]},
        'phases[1] ("defence"): unknown key `episods`; did you mean `episodes`?',
    ),
    "a key like none": ({"phases": [{"xyz": 1}]}, "phases[0]: unknown key `xyz`; the keys there are name, epi"),
    "a value of a phase": (
        {"phases": [{}, {"name": "defence", "episodes": 0}]},
        "`phases[1].episodes` should be an integer >= 1, got 0",
    ),
    "no list": ({"phases": 3}, "`phases` should be a list of tables, [[phases]] in TOML, got 3"),
    "no table": ({"phases": [3]}, "`phases[0]` should be a table with the keys name, episodes,"),
    "a key of an opponent": (
        {"phases": [{"name": "a", "opponents": [{"who": "x"}, {"who": "x", "wieght": 2}]}]},
        'phases[0] ("a").opponents[1]: unknown key `wieght`; did you mean `weight`?',
    ),
    "a value of an opponent": (
        {"opponents": [{"who": "x", "weight": -2}]}, "`opponents[0].weight` should be a number > 0, got -2",
    ),
    "a value of a lone opponent": (
        {"opponents": {"who": 3}}, "`opponents[0].who` should be a non-empty string, got 3",
    ),
    "an opponent without a name": (
        {"phases": [{"name": "a", "opponents": [{"weight": 2}]}]}, 'phases[0] ("a").opponents[0]: `who` is missing',
    ),
    "nobody": ({"phases": [{"opponents": [""]}]}, "`phases[0].opponents[0].who` should be a non-empty string"),
    "a key of a mixture": (
        {"phases": [{"mixture": [{"mode": "x"}]}]},
        "phases[0].mixture[0]: unknown key `mode`; the keys there are options, weight",
    ),
    "a value of a mixture": (
        {"phases": [{"mixture": [{}, {"weight": "x"}]}]},
        "`phases[0].mixture[1].weight` should be a number > 0, got 'x'",
    ),
    "a key of a shaped reward": (
        {"phases": [{"name": "a", "shaping": {"touch": {"strat": 2}}}]},
        'phases[0] ("a").shaping.touch: unknown key `strat`; did you mean `start`?',
    ),
    "a value of a shaped reward": (
        {"phases": [{"shaping": {"touch": {"hold": -1}}}]},
        "`phases[0].shaping.touch.hold` should be an integer >= 0, got -1",
    ),
    "no shaped reward": (
        {"phases": [{"shaping": {"touch": "much"}}]},
        "`phases[0].shaping.touch` should be a table with the keys start, final, hold, fall, got 'much'",
    ),
    "a condition's key": ({"phases": [{"until": {"win_rate": 0.5, "game": 3}}]}, "phases[0].until: unknown key `game`"),
    "no condition": ({"phases": [{"until": 0.5}]}, "`phases[0].until` should be a table with the keys win_rate, games"),
    "a share of the league": ({"league": {"win_rate": 1.0}}, "should be a number > 0 and < 1, got 1.0"),
    "nobody in the league": ({"league": {"pfsp": 0, "random": 0, "baseline": 0}}, "should be > 0"),
    "an option no learner has": (
        {"phases": [{"name": "a", "learner": {"gama": 0.5}}]},
        'phases[0] ("a").learner: unknown option `gama`; did you mean `gamma`?',
    ),
    "an option of another learner": (
        {"learner": "dqn", "phases": [{"learner": {"entropy": 0.5}}]}, "phases[0].learner: unknown option `entropy`",
    ),
    "an option that cannot change": (
        {"learner": "dqn", "phases": [{"learner": {"hidden": [3]}}]},
        "phases[0].learner: `hidden` cannot change during a run; these can: batch_size,",
    ),
    "a temperature that is learned": (
        {"learner": "sac", "phases": [{"learner": {"temperature": 0.1}}]},
        "phases[0].learner: `temperature` cannot become 0.1 in a run that began with 'auto'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_the_message_leads_to_the_mistake(case: str) -> None:
    """By number and name, with the nearest key or what is valid; not with the whole list."""
    given, wanted = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        check({"world": "a", **given})
    assert wanted in str(caught.value)


def test_values_are_tidied_there_too() -> None:
    """1e3 episodes, "none" for nothing, whole objects and short forms."""
    given = {
        "phases": [
            {"episodes": 1e3, "until": "none", "learner": {"target_kl": "none", "epochs": 2.0}, "shaping": {"t": 3}},
            Phase(name="two", steps=5, opponents=[Opponent(who="self")]),
        ],
        "opponents": {"who": "weak", "weight": 2},
    }
    config = resolve(collect_config("a", learner="ppo", **given))
    one, two = config.phases
    assert (one.episodes, one.until, one.learner) == (1000, None, {"target_kl": None, "epochs": 2})
    assert (one.shaping["t"].start, two.opponents[0].who, config.opponents[0].weight) == (3.0, "self", 2.0)
    assert type(one.episodes) is type(one.learner["epochs"]) is int


def test_phases_are_checked_again_once_the_learner_is_known() -> None:
    """With "auto" it could be any."""
    config = resolve(collect_config("a", phases=[{"name": "x", "learner": {"entropy": 0.1}}]))
    check_phases(config)
    check_phases(config.model_copy(update={"learner": "ppo"}))
    with pytest.raises(ConfigError, match=r'phases\[0\] \("x"\)\.learner: unknown option `entropy`'):
        check_phases(config.model_copy(update={"learner": "sac"}))


def test_a_resolved_config_with_phases_survives_being_written_and_read() -> None:
    """What a run records is a configuration again."""
    phases = [{"until": {"win_rate": 0.5}, "shaping": {"t": 1}, "mixture": [{}]}, {"steps": 3, "opponents": ["a", "b"]}]
    config = resolve(collect_config("a", phases=phases, league={"size": 3}))
    assert resolve(config.model_dump(mode="json")) == config


def test_every_key_as_toml(capsys: pytest.CaptureFixture[str]) -> None:
    """What `rookery train --help-config` prints is a file that can be used."""
    assert main(["train", "--help-config"]) == 0
    content = tomllib.loads(capsys.readouterr().out)
    assert resolve(collect_config(content)) == resolve({"world": "CartPole-v1"})
