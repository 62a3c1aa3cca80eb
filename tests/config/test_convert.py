"""`rookery convert`: the same configuration in another kind of file."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import pytest

from rookery.cli import exchange_verbs
from rookery.config import collect_config, resolve
from rookery.config.convert import converted, to_toml
from rookery.errors import ConfigError, OptionError

CONFIGS = Path(__file__).parents[2] / "configs"
OLD = sorted(CONFIGS.glob("*.json"))


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    exchange_verbs.add_commands(parser.add_subparsers())
    options = parser.parse_args(["convert", *words])
    return options.run(options)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_there_and_back(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON to TOML to JSON: each means the same."""
    new, back = tmp_path / "new.toml", tmp_path / "back.json"
    assert run(str(path), str(new)) == 0
    assert run(str(new), str(back)) == 0
    assert capsys.readouterr().out == f"{new}\n{back}\n"
    wanted = resolve(collect_config(path))
    assert resolve(collect_config(new)) == wanted
    assert resolve(collect_config(back)) == wanted
    assert set(json.loads(back.read_text())) == {"curriculum", "hyperparameters", "training", "agent"}


@pytest.mark.parametrize("path", sorted(CONFIGS.iterdir()), ids=lambda path: path.name)
def test_every_example_can_be_toml(path: Path) -> None:
    """Whatever it was."""
    text = converted(path, ".toml")
    assert text.startswith(f"# Converted from {path.name} by `rookery convert`.\n")
    assert resolve(collect_config(tomllib.loads(text))) == resolve(collect_config(path))


def test_only_what_differs_is_written() -> None:
    """A file for people."""
    text = converted(CONFIGS / "curriculum_simple.json", ".toml")
    assert text.count("[[phases]]") == 3
    assert "gamma" not in text and "[ppo]" not in text and "steps =" not in text.replace("start_steps =", "")
    assert max(map(len, text.splitlines())) <= 120


def test_it_is_printed_where_no_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """TOML from JSON, and JSON from TOML."""
    run(str(OLD[0]))
    text = capsys.readouterr().out
    assert resolve(collect_config(tomllib.loads(text))) == resolve(collect_config(OLD[0]))
    (tmp_path / "a.toml").write_text(text)
    run(str(tmp_path / "a.toml"))
    assert resolve(collect_config(json.loads(capsys.readouterr().out))) == resolve(collect_config(OLD[0]))
    run(str(OLD[0]), "--json")
    assert json.loads(capsys.readouterr().out) == {"path": None, "text": text}


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """Unless it must be."""
    target = tmp_path / "new.toml"
    target.write_text("mine")
    with pytest.raises(OptionError, match="exists already; --force overwrites it"):
        run(str(OLD[0]), str(target))
    assert target.read_text() == "mine"
    run(str(OLD[0]), str(target), "--force")
    assert resolve(collect_config(target)) == resolve(collect_config(OLD[0]))


def test_what_cannot_be_converted_is_told(tmp_path: Path) -> None:
    """And leaves no file behind."""
    for target, message in (
        ("a.yaml", "the file name should end in .toml or .json"),
        ("nowhere/a.toml", "cannot be written"),
    ):
        with pytest.raises(OptionError, match=message):
            run(str(OLD[0]), str(tmp_path / target))
    with pytest.raises(
        ConfigError, match=r"(?s)cartpole.toml: .*an old curriculum file cannot express this: a run without"
    ):
        run(str(CONFIGS / "cartpole.toml"), str(tmp_path / "a.json"))
    with pytest.raises(ConfigError, match="there is no such file"):
        run(str(tmp_path / "none.json"))
    assert list(tmp_path.iterdir()) == []


def test_toml_says_all_there_is(tmp_path: Path) -> None:
    """Odd keys and texts, nothing, nested tables and lists."""
    given = collect_config(
        {
            "world": 'a "b"\\\n\x7fü', "name": None, "world_options": {"odd key": [1, 2.5, True], "t": {"x": {}}},
            "dqn": {"max_grad_norm": None, "learning_rate": 1e-05}, "opponents": ["weak"],
            "phases": [{"until": {"win_rate": 0.5}, "shaping": {"a b": 1.0, "c": 2.0}}, {"learner": {"gamma": 0.5}}],
        }
    )  # fmt: skip
    again = tomllib.loads(to_toml(given))
    assert resolve(collect_config(again)) == resolve(given)
    with pytest.raises(ConfigError, match="TOML has no null"):
        to_toml(collect_config({"world": "a", "world_options": {"x": None}}))
