"""The five commands of examples/crypto_5m: they are understood, their configuration is valid, and they work."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.cli.main import build_parser
from rookery.config import build_config
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.studies.space.space import SearchSpace
from rookery.studies.trials.plans import plan_for

FOLDER = Path(__file__).parents[1] / "examples" / "crypto_5m"
README = (FOLDER / "README.md").read_text()
COMMANDS = [shlex.split(line) for line in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[0].splitlines()]
CONFIG = "examples/crypto_5m/config.toml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example in it."""
    (tmp_path / "examples").mkdir()
    shutil.copytree(FOLDER, tmp_path / "examples" / "crypto_5m")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_five_commands_and_all_are_understood(folder: Path) -> None:
    assert [(words[0], words[1]) for words in COMMANDS] == [
        ("rookery", verb) for verb in ("data", "search", "study", "deploy", "paper")
    ]
    for words in COMMANDS:
        build_parser().parse_args(words[1:])


def test_other_commands_in_the_text_are_understood() -> None:
    commands = [shlex.split(found)[1:] for found in re.findall(r"`(rookery (?!COMMAND)[^`]+)`", README)]
    assert commands and all(build_parser().parse_args(words) for words in commands)


def test_links_lead_somewhere() -> None:
    assert all((FOLDER / link.partition("#")[0]).is_file() for link in re.findall(r"\]\(([^)]+)\)", README))


def test_the_configuration_is_valid_for_the_bars_of_the_first_command(folder: Path) -> None:
    options = build_parser().parse_args(COMMANDS[0][1:])
    made = synthesise(
        options.assets, options.bars, options.timeframe, seed=options.seed, signal=options.signal, kind="crypto"
    )
    (folder / "data").mkdir()
    write(made, folder / options.out)
    config = build_config(CONFIG)
    assert Path(config.world_options["data"]) == Path(options.out)
    space = SearchSpace.of(config)
    assert len(space.keys) == 7 and len(space.first_trials(config)) == 1
    assert len(plan_for(config).first_parts(config.model_copy(update={"name": "trial-00000"}))) == 6


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_lead_from_bars_to_a_paper_account(folder: Path) -> None:
    """As the page has them, with fewer trials."""
    fewer = {"--n-trials": "3"}
    for words in COMMANDS:
        given = [fewer.get(before, word) for before, word in zip(["", *words], words, strict=False)]
        assert run(folder, given[1:]) is not None
    study = json.loads(run(folder, ["study", "crypto_5m", "--json"]))
    assert study["finished"] == 3 and study["failed"] == 0
    assert "equal bit for bit" in run(folder, ["paper", "deployed/crypto_5m", "--check"])
    assert (folder / "deployed" / "crypto_5m" / "paper").is_dir()


def run(folder: Path, words: list[str]) -> str:
    """What a command prints; it must end well."""
    done = subprocess.run([sys.executable, "-m", "rookery", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
