"""The peers of the GPU's table: PureJaxRL and Stable-Baselines3.

PureJaxRL is not a package. `--peers DIR` names a folder with `purejaxrl/bench.py`, which trains PPO on CartPole for
each of its arguments `ENVS,STEPS,TOTAL` and prints steps/s. It runs in a process of its own, as it needs other versions
than
rookery: `--peer-path DIR` has gymnax 0.0.9, distrax, chex and what they need; jax, flax and optax are installed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LINE = re.compile(r"purejaxrl envs=(\d+) steps=(\d+) .* ([\d.e+]+) steps/s")
LIMIT = 150  # seconds


def add_peer_options(parser: argparse.ArgumentParser) -> None:
    """Where the peers are."""
    parser.add_argument("--peers", type=Path, metavar="DIR", help="the folder that has purejaxrl/bench.py")
    parser.add_argument("--peer-path", type=Path, metavar="DIR", help="a folder with the packages that it needs")


def peer_arguments(options: Any) -> list[str]:
    """The same options for another script."""
    given = {"--peers": options.peers, "--peer-path": options.peer_path}
    return [part for name, value in given.items() if value is not None for part in (name, str(value.resolve()))]


def purejaxrl_rates(settings: Sequence[tuple[int, int, float]], options: Any) -> dict[tuple[int, int], float]:
    """Steps/s by envs and steps of a rollout; empty if PureJaxRL is not here, or fails."""
    if options.peers is None:
        return {}
    arguments = [f"{envs},{steps},{total:g}" for envs, steps, total in settings]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    environment["PYTHONPATH"] = str(options.peer_path.resolve()) if options.peer_path else ""
    command = [sys.executable, "bench.py", *arguments]
    try:
        done = subprocess.run(
            command, cwd=options.peers / "purejaxrl", env=environment, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        return _parsed(text.decode() if isinstance(text, bytes) else text)
    if done.returncode:
        print(f"PureJaxRL failed: {done.stderr[-1500:]}", file=sys.stderr)
    return _parsed(done.stdout)


def _parsed(text: str) -> dict[tuple[int, int], float]:
    """
    >>> _parsed("purejaxrl envs=64 steps=128 total=1e6 compile=1.0s run=2.00s  5e+05 steps/s final return=20.1")
    {(64, 128): 500000.0}
    """
    return {(int(envs), int(steps)): float(rate) for envs, steps, rate in LINE.findall(text)}


def sb3_ppo_rate(device: str, seconds: float = 3.0) -> float | None:
    """Steps/s of SB3's PPO with its nets on this device: 8 envs x 256 steps, 4 epochs, batches of 512."""
    try:
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
    except ImportError:
        return None
    import warnings

    warnings.filterwarnings("ignore", module="stable_baselines3")
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), n_steps=256, batch_size=512, n_epochs=4, device=device)
    model.learn(2048)
    before, started = model.num_timesteps, time.perf_counter()
    while time.perf_counter() - started < seconds:
        model.learn(2048, reset_num_timesteps=False)
    return (model.num_timesteps - before) / (time.perf_counter() - started)
