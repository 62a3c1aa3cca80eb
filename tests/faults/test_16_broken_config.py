"""Fault 16: a broken config is answered with the key and the nearest valid one, before any process starts."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from rookery.cli.main import main
from rookery.config import collect_config, resolve
from rookery.errors import ConfigError

# An answer takes 1.7 times the CPU time of importing what it needs from others (0.55 s against 0.32 s on a quiet
# machine); both sides are measured here, as one machine is three times slower than another.
TIMES_THE_IMPORTS = 4

# A file's name, its text, and what its message must hold: the key or line, and what is right.
BROKEN = {
    # keys
    "misspelt key": ("toml", 'wrld = "CartPole-v1"', ["`wrld`", "did you mean `world`?"]),
    "misspelt option": ("toml", 'world = "a"\nlerning_rate = 1e-3', ["`lerning_rate`", "`ppo.learning_rate`"]),
    "misspelt in its section": ("toml", 'world = "a"\n[ppo]\nclp = 0.1', ["`ppo.clp`", "`ppo.clip`"]),
    "misspelt section": ("json", '{"world": "a", "evaluaton": {"every": 5}}', ["`evaluaton`", "`evaluation`"]),
    "in no section": ("toml", 'world = "a"\nclip_values = 0.9', ["`clip_values`", "`ppo.clip_values`"]),
    "in another's section": (
        "yaml",
        "world: a\nppo: {updates_per_step: 3}",
        ["`ppo.updates_per_step`", "`sac.updates_per_step`"],
    ),
    "with a hyphen": ("toml", 'world = "a"\nnum-envs = 8', ["`num-envs`", "did you mean `num_envs`?"]),
    "like nothing": (
        "toml",
        'world = "a"\n[monitor]\nxyzzy = 1',
        ["`monitor.xyzzy`", "panel, episodes, system, tensorboard"],
    ),
    "no world": ("toml", "steps = 5", ["`world` is missing", "CartPole-v1"]),
    # values
    "no envs": ("toml", 'world = "a"\nnum_envs = 0', ["`num_envs`", 'an integer >= 1, "auto" or "adaptive"']),
    "a word for a number": ("yaml", "world: a\nsteps: many", ["`steps`", "an integer > 0, got 'many'"]),
    "half a step": ("json", '{"world": "a", "steps": 10.5}', ["`steps`", "an integer > 0, got 10.5"]),
    "a truth for a number": ("json", '{"world": "a", "steps": true}', ["`steps`", "an integer > 0, got True"]),
    "a text for a truth": ("toml", 'world = "a"\ntwin = "yes"', ["`compiled`", "true or false, got 'yes'"]),
    "an unknown learner": ("toml", 'world = "a"\nlearner = "pppo"', ["`learner`", '"td3", "pqn" or "xqc"']),
    "an unknown backend": ("toml", 'world = "a"\nbackend = "gpu"', ["`backend`", '"cuda" or "tensor", got \'gpu\'']),
    "an unknown device": ("yaml", "world: a\ndevice: gpu0", ["`device`", '"cuda:N"', "got 'gpu0'"]),
    "a discount above 1": ("toml", 'world = "a"\nsac.gamma = 1.5', ["`sac.gamma`", "> 0 and <= 1, got 1.5"]),
    "infinity": ("toml", 'world = "a"\nppo.clip = inf', ["`ppo.clip`", "a finite number > 0, got inf"]),
    "a list with a word": (
        "json",
        '{"world": "a", "ppo": {"hidden": [64, "x"]}}',
        ["`ppo.hidden`", "integers"],
    ),
    "a number for a section": ("toml", 'world = "a"\nppo = 3', ["`ppo`", "with the keys", "got 3"]),
    "no episodes": ("toml", 'world = "a"\nevaluation.episodes = 0', ["`evaluation.episodes`", ">= 1, got 0"]),
    "a name outside": ("toml", 'world = "a"\nname = "../x"', ["`name`", "a folder name", "got '../x'"]),
    # several together
    "two names": ("toml", 'world = "a"\nnum_envs = 4\nn_envs = 8', ["`n_envs` = 8", "`num_envs` = 4", "two names"]),
    "adaptive groups": ("yaml", "world: a\nnum_envs: adaptive\ngroups: 2", ["`groups` = 2", "adaptive"]),
    # the file itself
    "broken TOML": ("toml", 'world = "a"\nsteps = = 5', ["not valid TOML", "line 2"]),
    "broken JSON": ("json", '{"world": "a",\n "steps": }', ["not valid JSON", "line 2"]),
    "broken YAML": ("yaml", "world: a\n  steps: 5", ["not valid YAML", "line 2"]),
    "no mapping": ("yaml", "- world", ["should hold keys with values", "a list"]),
    "a key twice": ("json", '{"world": "a", "seed": 1, "seed": 2}', ["`seed` twice"]),
    "another language": ("ini", "world = a", [".toml, .json, .yaml"]),
    "no text": ("toml", b"\xff\xfe\x00\x01", ["not UTF-8 text"]),
}
SHELL = ("misspelt key", "misspelt option", "no envs", "several", "broken TOML", "broken YAML")
BROKEN["several"] = (
    "toml", 'world = "a"\nsteps = -1\n[sac]\nbuffersize = 5', ["2 problems", "`steps`", "`sac.buffer_size`"],
)  # fmt: skip


def written(folder: Path, case: str) -> Path:
    suffix, content, _ = BROKEN[case]
    file = folder / f"run.{suffix}"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize("case", BROKEN)
def test_the_message_names_file_key_and_remedy(tmp_path: Path, case: str) -> None:
    """One ConfigError, quickly, and no process is started for it."""
    file = written(tmp_path, case)
    children = psutil.Process().children()
    with pytest.raises(ConfigError) as caught:
        resolve(collect_config(str(file)))
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    for part in BROKEN[case][2]:
        assert part in message
    assert psutil.Process().children() == children


@pytest.mark.slow
@pytest.mark.parametrize("case", SHELL)
def test_the_command_exits_with_2_at_once(tmp_path: Path, imports: float, case: str) -> None:
    """The message is all there is: on standard error, without a traceback, and no run's folder is left."""
    file = written(tmp_path, case)
    answer, seconds = in_shell(tmp_path, "train", file.name)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith(f"rookery: {file.name}: ")
    assert "Traceback" not in answer.stderr
    for part in BROKEN[case][2]:
        assert part in answer.stderr
    assert seconds <= TIMES_THE_IMPORTS * imports
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["CartPole-v1", "--num-envs", "-3"], ["`num_envs`", "got -3"]),
        (["CartPole-v1", "--set", "ppo.clpi=1"], ["--set ppo.clpi=1", "`ppo.clip`"]),
        (["CartPole-v1", "--set", "ppo"], ["KEY=VALUE"]),
        (["CartPol-v1"], ["'CartPol-v1'", "did you mean CartPole-v1"]),
        (["nowhere.toml"], ["nowhere.toml: there is no such file"]),
        (["nowhere.py:MyEnv"], ["there is no file 'nowhere.py'"]),
    ],
)
def test_flags_are_checked_as_files_are(words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is wrong on the command line is told the same way. That such a command is quick is tested above."""
    assert main(["train", *words]) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in parts), said
    assert said.count("\n") == 1


def test_nothing_heavy_is_loaded_for_a_mistake(tmp_path: Path) -> None:
    """What takes long to import comes after the check, and no process is started before it."""
    written(tmp_path, "misspelt key")
    code = (
        "import sys, subprocess, os\n"
        "def forbidden(*_, **__): raise AssertionError('a process was started')\n"
        "subprocess.Popen.__init__ = os.fork = os.posix_spawn = forbidden\n"
        "from rookery.cli.main import main\n"
        "status = main(['train', 'run.toml'])\n"
        "print(status, {'torch', 'numba', 'rich', 'matplotlib'} & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert answer.stdout == "2 set()\n", answer.stderr


@pytest.fixture(scope="module")
def imports() -> float:
    """CPU seconds of importing the libraries that a check of a configuration needs."""
    return timed([sys.executable, "-c", "import gymnasium, pydantic"], Path.cwd())[1]


def in_shell(folder: Path, *words: str) -> tuple[subprocess.CompletedProcess, float]:
    """What a command answers, and how many seconds of CPU time it took."""
    return timed([sys.executable, "-m", "rookery", *words], folder)


def timed(command: list[str], folder: Path) -> tuple[subprocess.CompletedProcess, float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return answer, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
