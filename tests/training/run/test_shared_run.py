"""A run in several processes: the numbers of one, exact when resumed, and over at once when a process dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError, OptionError, UsageError, WorkerDied
from rookery.training.run.rank_processes import RankProcesses
from rookery.training.storage.checkpoint_files import bytes_to_tree, tree_to_bytes
from training.runs import differences, last_state, small

FRAGILE = """
import os
import gymnasium as gym
import numpy as np

class Fragile(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed = seed if seed is not None else getattr(self, "seed", 0)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps > 40 and not os.environ.get("LEADS"):
            raise ValueError("the floor gave way")
        return np.zeros(2, np.float32), 1.0, self.steps % 20 == 0, False, {}
"""


def config(folder: Path, **options: Any) -> dict[str, Any]:
    """A run of PPO with everything that processes share: statistics, schedules, minibatches of their own size."""
    ppo = {"normalise_observations": True, "normalise_rewards": True, "learning_rate_schedule": "linear"}
    base = {"num_envs": 8, "steps": 512, "device": "cpu", "ppo": ppo}
    return small("ppo", folder, **{**base, **options})


@pytest.mark.slow
def test_two_processes_train_as_one_and_resume_exactly(tmp_path: Path) -> None:
    """Weights as those of one process; bit for bit those of two that were never interrupted; episodes of all."""
    alone = rookery.train(config(tmp_path, name="alone"))
    shared = rookery.train(config(tmp_path, name="shared"), devices=2)
    assert shared.num_envs == 8 and shared.total_steps == 512 and shared.episodes == alone.episodes
    states = [last_state(result.path) for result in (alone, shared)]
    for name, weights in states[0]["policy"].items():
        np.testing.assert_allclose(states[1]["policy"][name], weights, rtol=1e-4, atol=1e-5, err_msg=name)
    begun = rookery.train(
        config(tmp_path, name="begun", steps=256, ppo={"learning_rate_schedule": "constant"}), devices=2
    )
    rookery.resume(begun.path, steps=512)
    whole = rookery.train(config(tmp_path, name="whole", ppo={"learning_rate_schedule": "constant"}), devices=2)
    assert not differences(last_state(begun.path), last_state(whole.path))
    fewer = rookery.resume(begun.path, steps=640, devices=1)
    assert fewer.total_steps == 640 and fewer.num_envs == 8


@pytest.mark.slow
def test_an_error_in_another_process_ends_the_run_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    monkeypatch.setenv("LEADS", "")
    options = {"world": f"{tmp_path}/fragile.py:Fragile", "backend": "serial", "on_failure": "raise", "num_envs": 2}
    start = RankProcesses.__init__

    def start_then_lead(self: Any, *args: Any) -> None:
        start(self, *args)
        os.environ["LEADS"] = "1"  # the other process has no such variable

    monkeypatch.setattr(RankProcesses, "__init__", start_then_lead)
    with pytest.raises(WorkerDied, match=r"(?s)process 1 of the run's 2 \(on cpu\) ended with status 1.*gave way"):
        rookery.train({**config(tmp_path, **options), "world": options["world"]}, devices=2)


@pytest.mark.slow
def test_the_death_of_a_process_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing hangs, and no process is left."""
    found: list[RankProcesses] = []
    start = RankProcesses.__init__

    def start_and_kill(self: Any, *args: Any) -> None:
        start(self, *args)
        found.append(self)
        threading.Thread(target=kill_when_running, args=(self.processes[0].pid,), daemon=True).start()

    def kill_when_running(pid: int) -> None:
        while not list(tmp_path.glob("*/metrics.jsonl")):
            time.sleep(0.05)
        time.sleep(1.0)
        os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(RankProcesses, "__init__", start_and_kill)
    with pytest.raises(WorkerDied, match=r"process 1 of the run's 2 .* was killed by signal 9, so all of them end"):
        rookery.train(config(tmp_path, steps=100_000_000), devices=2)
    assert all(process.poll() is not None for process in found[0].processes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_envs": 5}, r"`num_envs` = 5 cannot be split over 2 processes: 4 can"),
        ({"learner": "dqn"}, r"`devices` = 2 is for ppo: dqn trains in one process"),
        ({"reward_scale": 0.5}, r"cannot be combined with phases, opponents or `reward_scale`"),
        ({"devices": [0, 1, 1, 4], "device": "mps"}, r'needs `device` = "cuda" or "cpu", got \'mps\''),
    ],
)
def test_what_cannot_be_split_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rookery.train({**config(tmp_path), "devices": 2, **changes})
    assert not list(tmp_path.iterdir())


def test_torchrun_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its processes would train a run of its own."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(UsageError, match="start rookery without it, with --gpus"):
        rookery.train(config(tmp_path))


def test_gpus_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="CUDA"):
        rookery.train({**config(tmp_path), "device": "cuda", "devices": [0, 63]})


def test_a_world_of_the_session_is_refused(tmp_path: Path) -> None:
    """Other processes could not import it."""
    import gymnasium as gym

    with pytest.raises(ConfigError, match=r"needs a world that other processes can import"):
        rookery.train(lambda: gym.make("CartPole-v1"), devices=2, device="cpu", num_envs=2, runs_dir=tmp_path)


def test_trees_travel_as_bytes() -> None:
    tree = {"a": {"b": np.arange(6, dtype=np.int16).reshape(2, 3)[:, ::2], "empty": {}}, "n": 3, "list": [1, None]}
    found = bytes_to_tree(tree_to_bytes(tree))
    np.testing.assert_array_equal(found["a"].pop("b"), tree["a"].pop("b"))  # type: ignore[attr-defined]
    assert found == tree
