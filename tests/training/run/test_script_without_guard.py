"""A script with classes of its own and no main guard trains; another process that needs a class of it does not train
again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from torch import nn

from rookery.errors import OptionError, UsageError
from rookery.gate import allow_given
from rookery.learners.algorithms.ppo import PPOOptions
from rookery.training.run.out_of_memory import LearnerSize, enough_memory, learner_size
from rookery.user_code import find_in_file

SCRIPT = """
import gymnasium as gym
import rookery
from torch import nn

class Features(nn.Module):
    features_dim = 8

    def __init__(self, observation_space):
        super().__init__()
        self.layers = nn.Linear(observation_space.shape[0], 8)

    def forward(self, observations):
        return self.layers(observations)

class Halved(gym.RewardWrapper):
    def reward(self, reward):
        return reward / 2

def warm_up(progress):
    return min(1, 10 * progress)

class MyEnv(gym.Wrapper):
    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

print("runs")
options = dict(num_envs=2, steps=64, runs_dir="runs", monitor={"verbose": False})
"""
OWN_CODE = 'ppo={"network": Features, "learning_rate_schedule": warm_up, "rollout_length": 16}, wrappers=[Halved]'


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, text=True, capture_output=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        pytest.param('backend="serial"', marks=pytest.mark.slow),  # nothing that the next one does not do
        'backend="process", start_method="spawn"',
        pytest.param('backend="process", start_method="forkserver"', marks=pytest.mark.slow),
        pytest.param('backend="process", start_method="fork"', marks=pytest.mark.slow),
    ],
)
def test_own_classes_need_no_guard_to_train(how, tmp_path):
    """World, wrapper, network and schedule are taken from the running script, which runs once."""
    (tmp_path / "script.py").write_text(f"{SCRIPT}\nrookery.train(MyEnv, {OWN_CODE}, {how}, **options)\n")
    done = run(tmp_path, "script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("runs\n") == 1


LOADS = """
import rookery
print(rookery.load("one").predict([0.0, 0.0, 0.0, 0.0], deterministic=True))
"""


@pytest.mark.slow
def test_another_process_takes_what_is_defined_above_the_call(tmp_path):
    """A resumed run, an evaluation and another script import the script for its classes; it does not train again."""
    below = 'print("trained")\nraise SystemExit("not reached by others")\n'
    train = f'rookery.train("CartPole-v1", {OWN_CODE}, backend="serial", name="one", **options)'
    (tmp_path / "script.py").write_text(f"{SCRIPT}\ntry:\n    {train}\nexcept Exception:\n    raise\n{below}")
    (tmp_path / "loads.py").write_text(LOADS)
    assert "not reached" in run(tmp_path, "script.py").stderr
    for words in (
        ("-m", "rookery", "resume", "one", "--steps", "128"),
        ("-m", "rookery", "eval", "one", "--episodes", "2"),
        ("loads.py",),
    ):
        done = run(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        assert "trained" not in done.stdout
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == ["one"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("import rookery\nrookery.train('CartPole-v1')\nclass Net: pass\n", "below its call of rookery.train"),
     ("class Other: pass\n", "no class or function 'Net'")],
)  # fmt: skip
def test_a_class_that_is_not_there_is_an_error(text, message, tmp_path):
    (tmp_path / "late.py").write_text(text)
    allow_given(f"{tmp_path}/late.py:Net")
    with pytest.raises(OptionError, match=message):
        find_in_file(f"{tmp_path}/late.py:Net", "network")


def test_a_script_gets_its_own_arguments(tmp_path, monkeypatch):
    """Not those of the command that imports it."""
    lines = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--width', type=int, default=8)"
    (tmp_path / "parses.py").write_text(f"{lines}\nWIDTH = parser.parse_args().width\ndef width(): return WIDTH\n")
    monkeypatch.setattr(sys, "argv", ["rookery", "eval", "latest", "--episodes", "3"])
    allow_given(f"{tmp_path}/parses.py:width")
    assert find_in_file(f"{tmp_path}/parses.py:width", "network")() == 8
    assert sys.argv[0] == "rookery"


def test_a_module_is_not_imported_twice(tmp_path, monkeypatch):
    (tmp_path / "nets_of_test.py").write_text("class Net:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import nets_of_test  # type: ignore[import-not-found]

    allow_given(f"{tmp_path}/nets_of_test.py:Net")
    assert find_in_file(f"{tmp_path}/nets_of_test.py:Net", "network") is nets_of_test.Net
    monkeypatch.delitem(sys.modules, "nets_of_test")
    allow_given(f"{tmp_path}/nets_of_test.py:Net")
    assert find_in_file(f"{tmp_path}/nets_of_test.py:Net", "network") is not nets_of_test.Net


# --- errors that are not about memory ---------------------------------------------------------------------------

BOX, CHOICE = gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2)


class WrongShape(nn.Module):
    features_dim = 8

    def __init__(self, observation_space: Any) -> None:
        super().__init__()
        self.layers = nn.Linear(7, 8)

    def forward(self, observations: Any) -> Any:
        return self.layers(observations)


class ReadsWeights(WrongShape):
    def __init__(self, observation_space: Any) -> None:
        super().__init__(observation_space)
        self.layers = nn.Linear(4, 8)
        self.scale = self.layers.weight.max().item()


@pytest.mark.parametrize("net", [WrongShape, ReadsWeights])
def test_a_network_that_cannot_be_counted_is_not_too_large(net):
    """The real error, if there is one, follows when the network is made with memory."""
    name = f"{__file__}:{net.__name__}"
    allow_given(name)
    options = PPOOptions(network=name)
    assert learner_size("ppo", BOX, CHOICE, options, 2) == LearnerSize(0)


def test_an_error_of_usage_is_not_about_memory(monkeypatch):
    def refuse(*_: Any) -> None:
        raise UsageError("a script was imported")

    monkeypatch.setattr("rookery.training.run.out_of_memory.make_policy", refuse)
    with pytest.raises(UsageError, match="a script was imported"):
        learner_size("ppo", BOX, CHOICE, PPOOptions(), 2)


@pytest.mark.parametrize("error", [ValueError("an image too large for this net"), RuntimeError("no such layer")])
def test_an_error_of_the_users_code_is_not_about_memory(error):
    with pytest.raises(type(error), match=str(error)), enough_memory("ppo"):
        raise error
