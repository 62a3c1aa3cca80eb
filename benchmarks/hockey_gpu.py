"""PPO on hockey on one GPU, with networks of 128x128: steps/s, and the time until the strong script is beaten:

    python benchmarks/hockey_gpu.py [--only scripted self-play learning learning-self-play] [--json FILE]
    python benchmarks/hockey_gpu.py --device cpu --tiny   # whether it runs, without a GPU

- `scripted`, `self-play`: whole iterations of a run, rollouts and updates, against the strong script and against copies
  of the agent.
- `learning`, `learning-self-play`: from random weights to 85 % of the games against strong won, evaluations included;
  against both scripts, and against copies of the agent and the strong script. Compiling is not included.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

import torch

from engine_rows import Row
from report import measured, parser_for, report
from rookery.config import build_config
from rookery.engine.cuda import CudaEngine
from rookery.engine.settings import Settings, autoreset
from rookery.training.run.loop import Loop
from rookery.training.run.open_run import open_new_run
from rookery.training.run.stop_request import StopRequest

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
LEARNING = {"minibatches": 16}
WON, GAME_STEPS = 0.85, 250
SECONDS = 3.0  # that speeds are measured for
MOST_SECONDS = 60.0


class Size(NamedTuple):
    """How large everything is."""

    device: str
    fast: int = 65_536  # envs, for speed
    envs: int = 16_384  # for learning
    games: int = 4_096  # of an evaluation
    every: int = 10  # iterations between two evaluations


@contextmanager
def training(device: str, num_envs: int, opponents: list[Any], ppo: dict[str, Any], **keys: Any) -> Iterator[Loop]:
    """The loop of a new run that is about to make its first steps; nothing is evaluated or saved by itself."""
    with tempfile.TemporaryDirectory() as folder:
        config = build_config(
            "hockey",
            learner="ppo",
            num_envs=num_envs,
            steps=NEVER,
            seed=keys.pop("seed", 1),
            opponents=opponents,
            backend="cuda",
            device=device,
            ppo={**PPO, **ppo},
            world_options=SWING,
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
    """So many rollouts and updates, until the GPU has done them."""
    for _ in range(count):
        loop.collect()
        loop.learn()
    if loop.learner.device.type == "cuda":
        torch.cuda.synchronize()


def rate(loop: Loop, seconds: float) -> float:
    """Steps per second of whole iterations, after some that warm up."""
    iterate(loop, 5)
    began, before = time.perf_counter(), loop.steps
    while time.perf_counter() - began < seconds:
        iterate(loop, 10)
    return (loop.steps - before) / (time.perf_counter() - began)


class StrongGames:
    """Games against the strong script, all at once on the device, in the world of a run."""

    def __init__(self, loop: Loop, games: int) -> None:
        engine: Any = loop.state.engine
        self._learner: Any = loop.learner
        settings = Settings(games, autoreset_mode=autoreset("SameStep"), copy=False)
        self.envs = CudaEngine(engine.source, settings, device=str(engine.device))
        self.envs.set_parameters(opponent="strong", **SWING)

    @torch.no_grad()
    def won(self, seed: int = 7) -> float:
        """The share of the first games of all envs that the agent wins, with deterministic actions."""
        observations, _ = self.envs.reset(seed=seed)
        over = torch.zeros(self.envs.num_envs, dtype=torch.bool, device=observations.device)
        won, actions = torch.zeros_like(over), torch.zeros(self.envs.action_space.shape, device=observations.device)
        for _ in range(GAME_STEPS):
            actions[:, :4] = self._learner.policy.act([observations], None, None, None)[0]
            observations, _, terminated, truncated, infos = self.envs.step(actions)
            ended = (terminated | truncated) & ~over
            won |= ended & (infos["final_info"]["winner"] == 1)
            over |= ended
        return won.float().mean().item()


def speed_row(name: str, opponents: list[str], least: float, size: Size) -> list[Row]:
    """Steps per second of a run."""
    with training(size.device, size.fast, opponents, {}) as loop:
        found = rate(loop, SECONDS) / 1e6
    return [Row(f"PPO hockey 128x128, {name}, {size.fast:,} envs, steps/s", f"{found:.1f} M", "", found, least, " M")]


def learning_row(name: str, opponents: list[str], size: Size) -> list[Row]:
    """Seconds until the agent beats strong."""
    with training(size.device, size.envs, opponents, LEARNING) as loop:
        judge = StrongGames(loop, size.games)
        judge.won()  # compiles
        began = time.perf_counter()
        while True:
            iterate(loop, size.every)
            won, seconds = judge.won(), time.perf_counter() - began
            print(f"{name}: {seconds:.2f} s, {loop.steps:,} steps, {won:.1%} won", file=sys.stderr, flush=True)
            if won >= WON or seconds > MOST_SECONDS:
                break
    value = seconds if won >= WON else float("inf")
    ours = f"{won:.1%} of {size.games:,} games after {loop.steps / 1e6:.1f} M steps"
    return [Row(f"hockey, {name}: seconds from random weights to 85 %", ours, "", value, MOST_SECONDS, " s", most=True)]


def rows(size: Size) -> dict[str, Callable[[], list[Row]]]:
    """By the names of the command line."""
    return {
        "scripted": partial(speed_row, "scripted opponent", ["strong"], 15.0, size),
        "learning": partial(learning_row, "weak and strong", ["weak", "strong"], size),
        "self-play": partial(speed_row, "self-play", ["self"], 10.0, size),
        "learning-self-play": partial(learning_row, "self-play and strong", ["self", "strong"], size),
    }


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, rows(Size("cpu")))
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="a few envs and one evaluation")
    args = parser.parse_args()
    size = Size(args.device)
    if args.tiny:
        globals().update(MOST_SECONDS=0.5, SECONDS=0.5)
        size = Size(args.device, fast=4, envs=4, games=4, every=1)
    return report(measured(rows(size), args.only), "hockey on a GPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
