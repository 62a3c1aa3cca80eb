"""The command line: what it prints, where, and how it exits."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from rookery.cli.main import FIRST, build_parser, main
from rookery.cli.parser import Parser
from rookery.errors import BadValue, RestartLimit, WorkerDied
from rookery.tools import doctor, tune

WORLD_FILE = """
import gymnasium as gym
import numpy as np


class Quiet(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    fuel = 10**9

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.time += 1
        if self.time > self.fuel:
            raise ValueError("no fuel left")
        return np.zeros(2, np.float32), 1.0, self.time >= 50, False, {}


class Thirsty(Quiet):
    fuel = 3
"""


@pytest.fixture
def world(tmp_path: Path) -> str:
    path = tmp_path / "my_world.py"
    path.write_text(WORLD_FILE)
    return str(path)


def run(*words: str, timeout: float = 60) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "rookery", *words], capture_output=True, text=True, timeout=timeout)


def test_version():
    """`python -m rookery --version` names the version."""
    answer = run("--version")
    assert answer.returncode == 0
    assert answer.stdout.startswith("rookery 0.")


def test_no_command_shows_the_help(capsys):
    """Without a command the help is shown on standard error, with the status of a usage error."""
    assert main([]) == 2
    assert "bench" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "tune", "profile", "check", "doctor", "play"])
def test_every_command_has_help_with_an_example(command, capsys):
    """`rookery COMMAND --help` says what the command does and shows it in use."""
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    text = capsys.readouterr().out
    assert f"example: rookery {command}" in text
    assert "--json" in text


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser of each command, and of the commands within it."""
    yield parser.complete() if isinstance(parser, Parser) else parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from parsers(part)


def test_the_first_help_lists_every_command_once_in_a_group(capsys, monkeypatch):
    """Also those that a world brings, at any width; what it says to type first is understood."""
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert max(map(len, text.partition("\n\ntraining:")[2].splitlines())) <= 60
    names = [words[0] for line in text.splitlines() if (words := line.split()) and re.match(r"  [a-z]", line)]
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(name for name in names if name != "rookery") == sorted(commands.choices)
    for line in FIRST.splitlines()[1:-1]:
        build_parser().parse_args(shlex.split(re.split(r"   +", line.strip())[0])[1:])


@pytest.mark.parametrize("parser", [pytest.param(parser, id=parser.prog) for parser in parsers(build_parser())])
def test_help_is_whole_and_its_examples_work(parser):
    """Every option has its sentence, and the examples are commands that are understood."""
    assert parser.description and (parser.epilog or parser.prog == "rookery")
    assert all(action.help for action in parser._actions if action.metavar != "COMMAND")
    if parser.prog == "rookery":
        return
    for line in (line.strip().removeprefix("example: ") for line in parser.epilog.splitlines()):
        if line.startswith("rookery "):
            options = build_parser().parse_args(shlex.split(line)[1:])
            assert f"rookery {options.command}" in parser.prog


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["bench", "tune", "profile", "check"])
def test_unknown_env_is_one_line(command, capsys):
    """An unknown id gives one line with the nearest known ids, and status 2."""
    assert main([command, "Cartpole-v1"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("rookery: 'Cartpole-v1' is not a registered Gymnasium id; did you mean CartPole-v1")
    assert captured.err.count("\n") == 1


def test_missing_file_is_one_line(capsys):
    """A file that does not exist is named."""
    assert main(["tune", "nowhere.py:MyEnv"]) == 2
    assert capsys.readouterr().err == "rookery: 'nowhere.py:MyEnv': there is no file 'nowhere.py'\n"


@pytest.mark.slow
def test_missing_class_names_those_there_are(world, capsys):
    """A class that is not in the file is answered with the envs that are."""
    assert main(["check", f"{world}:Loud"]) == 2
    assert "envs in it: Quiet, Thirsty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "CartPole-v1", "--num-envs", "-3"], "num_envs should be a positive integer, got -3"),
        (["bench", "CartPole-v1", "--n-envs", "0"], "num_envs should be a positive integer, got 0"),
        (["bench", "CartPole-v1", "--against", "jax"], "against should be some of gymnasium, sb3, envpool, got 'jax'"),
        (["bench", "CartPole-v1", "--backend", "gpu"], "backend should be one of"),
        (["bench", "CartPole-v1", "--backend", ""], "backend should be one of"),
        (["bench", "CartPole-v1", "--workers", "9", "--against", "none"], "workers=9 is more than num_envs=8"),
        (["bench", "CartPole-v1", "--plot", "/nowhere/x.png"], "there is no folder '/nowhere'"),
        (["bench", "CartPole-v1", "--plot", "picture.doc"], "plot should name a file ending in one of"),
        (["bench", "CartPole-v1", "--plot", "FOLDER.png"], "FOLDER.png is a folder: name a file"),
        (["tune", "CartPole-v1", "--seconds", "0"], "seconds should be a positive number, got 0.0"),
        (["profile", "CartPole-v1", "--steps", "0"], "steps should be a positive integer, got 0"),
        (["check", "CartPole-v1", "--steps", "0"], "steps should be a positive integer, got 0"),
        (["check", "CartPole-v1", "--seed", "-1"], "seed should be an integer >= 0 and < 9223372036854775808, got -1"),
        (["play", "hockey", "--seed", "-1"], "seed should be an integer >= 0 and < 9223372036854775808, got -1"),
        (["check", __file__], "name the class in the file as well, such as"),
        (["trian", "CartPole-v1"], "unknown command trian; did you mean train?"),
        (["quux"], "unknown command quux; `rookery --help` lists all commands"),
        (["gameboy", "expolre"], "unknown command expolre; did you mean explore?"),
        (["--verison"], "unknown flag --verison; did you mean --version?"),
        (["tune", "CartPole-v1", "--second", "1"], "unknown flag --second; did you mean --seconds?"),
        (["gameboy", "info", "--rmo", "x"], "unknown flag --rmo; did you mean --rom?"),
        (["tune"], "the following arguments are required: ENV; `rookery tune --help` describes the command"),
        (["bench", "CartPole-v1", "--n-envs", "4", "--num-envs", "8"], "`--n-envs` = 4 and `--num-envs` = 8 are two"),
    ],
)
def test_bad_options_are_one_line(words, message, capsys, tmp_path, monkeypatch):
    """A value that cannot work is answered with what is valid, status 2, and no traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER.png").mkdir()
    assert main(words) == 2
    err = capsys.readouterr().err
    assert err.startswith("rookery: ")
    assert message in err
    assert err.count("\n") == 1


def test_failing_env_shows_its_own_traceback(world, capsys):
    """What the user's env raises is told in one line, then where it was raised; status 1."""
    assert main(["profile", f"{world}:Thirsty"]) == 1
    err = capsys.readouterr().err
    assert "raised ValueError: no fuel left" in err.splitlines()[0]
    assert "my_world.py" in err
    *_, raised, hint = err.splitlines()
    assert raised.strip() == "ValueError: no fuel left"
    assert hint == f"`rookery check {world}:Thirsty` looks for mistakes in it"


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["train", "check", "tune"])
@pytest.mark.parametrize("line", ["class MyEnv(gym.Env)", "from gymnasium import nothing_of_this_name", "1 / 0"])
def test_a_file_that_cannot_be_imported_is_shown_without_our_own_lines(command, line, tmp_path, capsys):
    """The traceback holds the user's file and neither rookery's nor the importer's."""
    path = tmp_path / "my_env.py"
    path.write_text(f"import gymnasium as gym\n{line}\n")
    assert main([command, f"{path}:MyEnv"]) == 1
    err = capsys.readouterr().err
    assert f'File "{path}", line 2' in err and line in err
    assert "rookery/engine" not in err and "importlib" not in err


@pytest.mark.few(1)
@pytest.mark.parametrize("command", ["train", "check", "tune"])
def test_a_missing_package_is_one_line_with_one_command(command, tmp_path, capsys):
    """By the name that it is installed by, and without a traceback."""
    path = tmp_path / "my_env.py"
    path.write_text("import gymnasium as gym\nimport nothing_of_this_name.part\n")
    assert main([command, f"{path}:MyEnv"]) == 2
    told = "rookery: my_env.py: the package nothing_of_this_name is not installed: pip install nothing_of_this_name\n"
    assert capsys.readouterr().err == told


def test_a_fault_of_our_own_is_shown_whole(monkeypatch, capsys):
    """Where no line of the user's was on the way, ours are what there is to report."""
    monkeypatch.setattr(doctor, "_start_methods", lambda: None)
    assert main(["doctor"]) == 1
    assert "rookery/tools/doctor.py" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [RestartLimit("env 0 failed again"), WorkerDied("killed"), BadValue("NaN")])
def test_an_env_that_fails_for_good_is_no_bad_input(failure, world, monkeypatch, capsys):
    """Status 1, as for what an env raises itself, and what to do about it."""

    def fail(*_):
        raise failure

    monkeypatch.setattr(tune, "tune", fail)
    assert main(["tune", f"{world}:Quiet"]) == 1
    first, hint = capsys.readouterr().err.splitlines()
    assert first == f"rookery: {failure}"
    assert hint == f"`rookery check {world}:Quiet` looks for mistakes in it"


def test_short_names_of_worlds_are_known_to_the_tools(monkeypatch):
    """What `rookery train` calls hockey is hockey to `rookery tune` too."""
    asked: list[str] = []
    result = SimpleNamespace(as_json=dict, print=lambda: None)
    monkeypatch.setattr(tune, "tune", lambda world, *_: asked.append(world) or result)
    assert main(["tune", "hockey"]) == main(["tune", "CartPole-v1"]) == 0
    assert asked == ["rookery/HockeyOne-v0", "CartPole-v1"]


def test_a_reader_that_leaves_is_no_failure(tmp_path):
    """As in `rookery runs | head -1`."""
    words = [sys.executable, "-m", "rookery", "runs", "--runs-dir", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full disk at hand")
def test_a_full_disk_is_a_failure(tmp_path):
    """Also if what is printed waits in a buffer until the command ends."""
    words = [sys.executable, "-m", "rookery", "runs", "--runs-dir", str(tmp_path)]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=buffered, text=True)
    assert done.returncode != 0 and "No space left" in done.stderr


def test_missing_matplotlib_names_the_extra(monkeypatch, capsys):
    """--plot without matplotlib says which extra to install, before measuring anything."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["bench", "CartPole-v1", "--plot", "x.png"]) == 2
    assert "pip install 'rookery[plot]'" in capsys.readouterr().err


def test_interrupt_is_quiet(monkeypatch, capsys):
    """Ctrl-C ends a command with status 130 and no words."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "doctor", interrupted)
    assert main(["doctor"]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.slow
def test_check_tells_good_from_bad_by_status(world, capsys):
    """`rookery check` exits 0 for a sound env and 1 for one with problems, which it names."""
    assert main(["check", f"{world}:Quiet"]) == 0
    assert "no problems in 200 steps" in capsys.readouterr().out
    assert main(["check", f"{world}:Thirsty", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert "ValueError: no fuel left" in report["problems"][0]


def test_bench_prints_a_table(world, capsys, monkeypatch):
    """`rookery bench` shows each side with its rate and how rookery compares."""
    monkeypatch.setenv("COLUMNS", "120")
    assert (
        main(["bench", f"{world}:Quiet", "--num-envs", "2", "--seconds", "0.1", "--against", "gymnasium,envpool"]) == 0
    )
    out = capsys.readouterr().out
    for side in ("rookery process", "rookery serial", "Gymnasium SyncVectorEnv", "Gymnasium AsyncVectorEnv"):
        assert side in out
    assert "as fast" in out
    assert "(auto)" in out


def test_json_goes_alone_to_standard_output(world, capfd):
    """With --json, standard output holds one JSON object and nothing else, of workers neither."""
    assert main(["profile", f"{world}:Quiet", "--steps", "50", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["steps"] == 50


@pytest.mark.slow
def test_doctor_tells_whether_workers_start(capsys):
    """`rookery doctor` starts a worker by each method and exits 0 when one works."""
    assert main(["doctor", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] is True
    states = {f["subject"]: f["state"] for f in answer["findings"]}
    assert states["workers by spawn"] == states["workers by forkserver"] == states["workers by fork"] == "ok"


def test_doctor_fails_where_no_worker_starts(monkeypatch, capsys):
    """`rookery doctor` exits 1 and says what remains when no start method works."""
    monkeypatch.setattr(doctor, "_start_problem", lambda method: "OSError: not permitted")
    assert main(["doctor"]) == 1
    assert "backend='serial' is what remains" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["check", "bench", "profile"])
def test_options_of_the_world(verb, capsys):
    """Verbs that look at an env take its options by --set, and no other keys."""
    short = {
        "check": ["--steps", "20"],
        "bench": ["--seconds", "0.1", "--against", "none"],
        "profile": ["--steps", "9"],
    }
    given = ["--set", "world_options.gravty=3"]
    assert main([verb, "rookery/CartPole-v1", *short[verb], *given]) in (1, 2)  # a check reports it as a problem
    assert "no parameter 'gravty'; did you mean 'gravity'" in "".join(capsys.readouterr())
    assert main([verb, "rookery/CartPole-v1", "--set", "steps=3"]) == 2
    assert "takes options of the world only" in capsys.readouterr().err
