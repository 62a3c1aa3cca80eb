"""How soon PPO, DQN and PQN reach a level, with the settings that `rookery train ID --learner NAME` takes by itself:

    python benchmarks/learner_race.py [--only NAME ...] [--seeds 5] [--first-seed 1] [--learners pqn ppo dqn]
                                      [--set KEY=VALUE ...] [--json FILE]

A run ends at its first evaluation (20 episodes) that reaches the level. Learners take turns, seed by seed. Figures are
medians over seeds of the seconds of training, without evaluations: of a CPU's time, so that other programs on the
machine do not count; with `--device cuda` of the clock. A run of PPO or DQN that misses the level counts with all its
seconds, one of PQN as endless. `--learners pqn` trains PQN alone, and `--set` changes its settings, to choose them.
`catch` needs a GPU, `lunarlander` gymnasium[box2d].
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from learning import quiet
from report import measured, parser_for, report
from rookery.config.layers import merge, parse_override

MOST_OF_PPO, MOST_OF_DQN = 1.5, 1.0  # PQN's seconds over theirs


@dataclass(frozen=True)
class Race:
    """A world, the level to reach, the steps between evaluations, and what learners without a recipe need."""

    world: str
    level: float
    every: int
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


RACES = {
    "cartpole": Race("CartPole-v1", 475, 5_000),
    "acrobot": Race("Acrobot-v1", -85, 10_000, {"dqn": {"steps": 200_000, "num_envs": 8}}),
    "lunarlander": Race("LunarLander-v3", 200, 20_000, {"dqn": {"steps": 300_000, "num_envs": 8}}),
    "catch": Race("catch", 20, 100_000, {"dqn": {"steps": 500_000, "num_envs": 64}}),
}


class Clock(rookery.Callback):
    """Ends a run at its level, and knows the steps and seconds of training until then."""

    def __init__(self, level: float, device: str) -> None:
        self.level, self.steps, self.seconds, self.reached = level, 0, 0.0, False
        self._now = time.process_time if device == "cpu" else time.perf_counter

    def on_start(self, run: Any) -> None:
        self._since = self._now()

    def on_update(self, run: Any, metrics: Any) -> None:
        now = self._now()
        self.steps, self.seconds, self._since = run.step, self.seconds + now - self._since, now

    def on_evaluation(self, run: Any, metrics: Any) -> None:
        self._since = self._now()  # since the last update it was an evaluation
        if metrics["eval/return"] >= self.level:
            self.reached = True
            run.stop("reached")


def raced(race: Race, learner: str, seed: int, device: str, settings: dict[str, Any]) -> Clock:
    """One run."""
    clock, given = Clock(race.level, device), merge(race.settings.get(learner, {}), settings)
    with tempfile.TemporaryDirectory() as folder, quiet():
        rookery.train(
            race.world, learner=learner, seed=seed, runs_dir=folder, device=device, callbacks=[clock],
            evaluation={"episodes": 20, "every": race.every}, checkpoints={"every": 10**9},
            monitor={"panel": False, "plot": False, "tensorboard": False}, **given,
        )  # fmt: skip
    return clock


def race_rows(name: str, seeds: range, device: str, learners: list[str], settings: dict[str, Any]) -> Iterator[Row]:
    """PQN's seconds over those of the others, which `settings` are not for."""
    race = RACES[name]
    clocks: dict[str, list[Clock]] = {learner: [] for learner in learners}
    for seed in seeds:
        for learner, runs in clocks.items():
            runs.append(raced(race, learner, seed, device, settings if learner == "pqn" else {}))
    mine = float(np.median([clock.seconds if clock.reached else np.inf for clock in clocks["pqn"]]))
    for other, most in {"ppo": MOST_OF_PPO, "dqn": MOST_OF_DQN}.items():
        if other in clocks:
            theirs = float(np.median([clock.seconds for clock in clocks[other]]))
            what = f"{race.world} to {race.level:g}: seconds of PQN over {other.upper()}"
            yield Row(what, _words(clocks["pqn"]), _words(clocks[other]), mine / theirs, most, unit="x", most=True)
    if len(clocks) == 1:
        yield Row(f"{race.world} to {race.level:g}: seconds of PQN", _words(clocks["pqn"]), "", mine, np.inf, most=True)


def _words(runs: list[Clock]) -> str:
    """Medians, and how many runs reached the level."""
    steps, seconds = (np.median([getattr(clock, name) for clock in runs]) for name in ("steps", "seconds"))
    return f"{steps / 1000:.0f} k steps, {seconds:.1f} s, {sum(clock.reached for clock in runs)} of {len(runs)}"


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, RACES)
    parser.add_argument("--seeds", type=int, default=5, help="how many (default: %(default)s)")
    parser.add_argument("--first-seed", type=int, default=1, help="recipes are chosen on 101 and up")
    parser.add_argument("--device", default="cpu", help="(default: %(default)s)")
    parser.add_argument("--learners", nargs="+", default=["pqn", "ppo", "dqn"], help="(default: %(default)s)")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="of PQN's configuration")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    how = seeds, args.device, args.learners, merge(*map(parse_override, args.set))
    rows = {name: partial(race_rows, name, *how) for name in RACES}
    return report(measured(rows, args.only), "PPO, DQN and PQN", args.json)


if __name__ == "__main__":
    sys.exit(main())
