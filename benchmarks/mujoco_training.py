"""Rows of the MuJoCo worlds' table about training: its speed beside Stable-Baselines3, and a run that was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from engine_rows import Row, ratio_row
from measure import in_turns
from rookery.training.storage.checkpoint import Checkpoints

ENVS, ROLLOUT, BATCH, EPOCHS = 64, 64, 512, 4
KILLED = {
    "num_envs": 16, "steps": 24_576, "seed": 3, "checkpoints.every": 4_096, "evaluation.every": 100_000,
    "evaluation.episodes": 1, "monitor.plot": "false",
}  # fmt: skip


def training_rows(rounds: int, quick: bool) -> list[Row]:
    """PPO with the same net, envs, rollout, batch and epochs; SB3 with a process for each env."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    from learner_rows import NETS, ours, theirs
    from rookery.learners.registry import PPOOptions

    options, envs = PPOOptions(rollout_length=ROLLOUT, batch_size=BATCH, epochs=EPOCHS), 8 if quick else ENVS
    forked = {"start_method": "fork"}  # 64 workers that each import torch would take minutes to start
    workers = make_vec_env("HalfCheetah-v5", envs, vec_env_cls=SubprocVecEnv, vec_env_kwargs=forked)
    model = PPO("MlpPolicy", workers, n_steps=ROLLOUT, batch_size=BATCH, n_epochs=EPOCHS, **NETS)
    steps = envs * ROLLOUT
    sides = {
        "ours": ours("rookery/HalfCheetah-v5", "ppo", options, envs, "kernel").side(2 * steps),
        "sb3": theirs(model, steps),
    }
    found = in_turns(sides, 2 if quick else rounds)
    workers.close()
    label = f"PPO HalfCheetah n={envs}, steps/s of training over SB3 with SubprocVecEnv"
    return [ratio_row(label, found["ours"], found["sb3"], 6)]


def kill_rows(rounds: int, quick: bool) -> list[Row]:
    """A run that is killed with SIGKILL once it has saved, and resumed, beside one that is not."""
    with tempfile.TemporaryDirectory() as folder:
        _train(folder, "whole").wait()
        killed = _train(folder, "killed")
        checkpoints = Checkpoints(Path(folder, "killed", "checkpoints"))
        while not (saved := checkpoints.steps()) and killed.poll() is None:
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        command = [sys.executable, "-m", "rookery", "resume", "killed", "--runs-dir", folder]
        subprocess.run(command, capture_output=True, check=True)
        whole, resumed = (_arrays(Path(folder, name)) for name in ("whole", "killed"))
    different = sum(resumed.get(name) != whole[name] for name in whole)
    label = f"PPO HalfCheetah, killed after {saved[-1]:,} steps, resumed: of {len(whole)} arrays, differ"
    return [Row(label, "", "", different, 0, "", most=True)]


def _train(folder: str, name: str) -> subprocess.Popen:
    settings = [part for key, value in KILLED.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "rookery", "train", "HalfCheetah-v5", *settings, "--name", name]
    return subprocess.Popen([*command, "--runs-dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _arrays(run: Path) -> dict[str, bytes]:
    """What decides how a run continues, from its last checkpoint: all arrays of learner and envs."""
    _, tree = Checkpoints(run / "checkpoints").load_latest()
    return dict(_leaves({name: tree[name] for name in ("agent", "learner", "envs")}, ""))


def _leaves(tree: Any, path: str) -> Iterator[tuple[str, bytes]]:
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield from _leaves(part, f"{path}/{name}")
    elif isinstance(tree, np.ndarray):
        yield path, tree.tobytes()


ROWS = {"training": training_rows, "kill": kill_rows}
