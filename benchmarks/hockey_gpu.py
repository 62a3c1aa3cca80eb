"""Hockey on one GPU: steps per second of PPO against the script and in self-play, and the time until strong is beaten.

python benchmarks/hockey_gpu.py                    # the three rows
python benchmarks/hockey_gpu.py --only speed       # the first two
python benchmarks/hockey_gpu.py --device cpu --tiny   # whether it runs, without a GPU
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import report
from rookery.config import build_config
from rookery.training.run.loop import Loop
from rookery.training.run.stop_request import StopRequest
from rookery.training.run.train import open_new_run

NEVER = 10**12
SWING = {"first_swing": 6.283185307179586}
PPO: dict[str, Any] = {
    "hidden": [128, 128],
    "rollout_length": 32,
    "minibatches": 4,
    "epochs": 4,
    "learning_rate": 1e-3,
    "normalise_observations": True,
    "entropy": 0.005,
}
MUST = {"scripted": 15e6, "self-play": 10e6, "seconds": 60.0}
WON = 0.85


@contextmanager
def training(device: str, num_envs: int, opponents: list[Any], ppo: dict[str, Any], **keys: Any) -> Iterator[Loop]:
    """The loop of a new run that is about to make its first steps; nothing is evaluated or saved by itself."""
    with tempfile.TemporaryDirectory() as folder:
        config = build_config(
            "hockey",
            learner="ppo",
            num_envs=num_envs,
            steps=keys.pop("steps", NEVER),
            seed=keys.pop("seed", 1),
            opponents=opponents,
            backend="cuda",
            device=device,
            ppo={**PPO, **ppo},
            world_options={**SWING, **keys.pop("world_options", {})},
            runs_dir=folder,
            evaluation={"every": NEVER, "opponents": ["strong"]},
            checkpoints={"every": NEVER},
            monitor={"verbose": False, "tensorboard": False},
            **keys,
        )
        with StopRequest() as stop, open_new_run(config, stop, callbacks=[]) as opened:
            opened.loop.start(opened.observations, opened.infos)
            yield opened.loop


def iterate(loop: Loop, count: int) -> None:
    """So many rollouts and updates."""
    for _ in range(count):
        loop.collect()
        loop.learn()


def wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def rate(loop: Loop, device: str, seconds: float) -> float:
    """Steps per second of whole iterations, after some that warm up."""
    iterate(loop, 5)
    wait(device)
    began, before = time.perf_counter(), loop.steps
    while time.perf_counter() - began < seconds:
        iterate(loop, 5)
        wait(device)
    return (loop.steps - before) / (time.perf_counter() - began)


class StrongGames:
    """Games of an agent with deterministic actions against the strong script, all at once on the device."""

    def __init__(self, device: str, games: int) -> None:
        import rookery

        options = {"opponent": "strong", **SWING}
        self.envs: Any = rookery.make_vec(
            "rookery/HockeyOne-v0", games, "cuda", device=device, autoreset_mode="SameStep", env_kwargs=options
        )

    @torch.no_grad()
    def won(self, learner: Any, seed: int = 7) -> float:
        """The share of the first games of all envs that the agent wins."""
        observations, _ = self.envs.reset(seed=seed)
        over = torch.zeros(self.envs.num_envs, dtype=torch.bool, device=observations.device)
        won = torch.zeros_like(over)
        for _ in range(250):
            actions = learner.policy.act([observations], None, None, None)[0]
            observations, _, terminated, truncated, infos = self.envs.step(actions)
            ended = (terminated | truncated) & ~over
            won |= ended & (infos["final_info"]["winner"] == 1)
            over |= ended
        return won.float().mean().item()


def speed_rows(device: str, num_envs: int, seconds: float) -> dict[str, float]:
    """Steps per second against the strong script, and against copies of the agent."""
    rates = {}
    for name, opponents in (("scripted", ["strong"]), ("self-play", ["self"])):
        with training(device, num_envs, opponents, {}) as loop:
            rates[name] = rate(loop, device, seconds)
        print(json.dumps({"row": name, "num_envs": num_envs, "steps_per_second": round(rates[name])}), flush=True)
    return rates


def learning_row(device: str, num_envs: int, ppo: dict[str, Any], most: float, games: int, every: int) -> float:
    """Seconds of training until the agent wins 85 % of its games against strong, evaluations included."""
    judge = StrongGames(device, games)
    with training(device, num_envs, ["weak", "strong"], ppo) as loop:
        judge.won(loop.learner)  # compiles
        began = time.perf_counter()
        while True:
            iterate(loop, every)
            won, seconds = judge.won(loop.learner), time.perf_counter() - began
            print(json.dumps({"seconds": round(seconds, 2), "steps": loop.steps, "won": round(won, 4)}), flush=True)
            if won >= WON or seconds > most:
                return seconds


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", choices=["speed", "learning"])
    parser.add_argument("--num-envs", type=int, default=16_384)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row of speeds")
    parser.add_argument("--tiny", action="store_true", help="a few envs: does it run?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    given = parser.parse_args()
    num_envs, rows = 4 if given.tiny else given.num_envs, []
    if given.only != "learning":
        for name, found in speed_rows(given.device, num_envs, given.seconds).items():
            what = f"PPO hockey 128x128, {name}, {num_envs:,} envs"
            rows.append(Row(what, f"{found / 1e6:.1f} M/s", "", found / 1e6, MUST[name] / 1e6, " M/s"))
    if given.only != "speed":
        most, games, every = (1.0, 4, 1) if given.tiny else (2 * MUST["seconds"], 2_048, 20)
        seconds = learning_row(given.device, num_envs, {}, most, games, every)
        what = "hockey, from random weights to 85 % against strong"
        rows.append(Row(what, f"{seconds:.1f} s", "", seconds, MUST["seconds"], " s", most=True))
    return report(rows, "hockey on a GPU", given.json)


if __name__ == "__main__":
    sys.exit(main())
