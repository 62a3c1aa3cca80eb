"""`rookery convert`: the same configuration in another kind of file."""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path

import pytest

from rookery.cli import exchange_verbs
from rookery.config import collect_config, resolve
from rookery.config.inputs import convert, to_toml
from rookery.errors import ConfigError, OptionError

CONFIGS = Path(__file__).parents[2] / "configs"
OLD = sorted(CONFIGS.glob("*.json"))


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    exchange_verbs.add_convert(parser.add_subparsers())
    options = parser.parse_args(["convert", *words])
    return options.run(options)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_an_old_file_means_the_same_in_toml(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also when that is converted once more."""
    new, again = tmp_path / "new.toml", tmp_path / "again.toml"
    assert run(str(path), str(new)) == 0
    assert run(str(new), str(again)) == 0
    assert capsys.readouterr().out == f"{new}\n{again}\n"
    wanted = resolve(collect_config(path))
    assert resolve(collect_config(new)) == wanted
    assert resolve(collect_config(again)) == wanted


@pytest.mark.parametrize("path", sorted(CONFIGS.iterdir()), ids=lambda path: path.name)
def test_every_example_can_be_toml(path: Path) -> None:
    """Whatever it was."""
    text = convert(path)
    assert text.startswith(f"# Converted from {path.name} by `rookery convert`.\n")
    assert resolve(collect_config(tomllib.loads(text))) == resolve(collect_config(path))


def test_only_what_differs_is_written() -> None:
    """A file for people."""
    text = convert(CONFIGS / "curriculum_simple.json")
    assert text.count("[[phases]]") == 3
    assert "gamma" not in text and "[ppo]" not in text and "steps =" not in text.replace("start_steps =", "")
    assert max(map(len, text.splitlines())) <= 120


def test_it_is_printed_where_no_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """As TOML."""
    run(str(OLD[0]))
    text = capsys.readouterr().out
    assert resolve(collect_config(tomllib.loads(text))) == resolve(collect_config(OLD[0]))
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
        ("a.yaml", "the file name should end in .toml"),
        ("a.json", "the file name should end in .toml"),
        ("nowhere/a.toml", "cannot be written"),
    ):
        with pytest.raises(OptionError, match=message):
            run(str(OLD[0]), str(tmp_path / target))
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
