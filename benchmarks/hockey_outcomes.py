"""Compares the results of scripted games with the original's: `python benchmarks/hockey_outcomes.py`."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import NEXT_STEP
from rookery.kernel.runner import Runner
from rookery.worlds.hockey.rules import STEPS
from rookery.worlds.hockey.world import Hockey

IDLE, WEAK, STRONG = 0, 1, 2


class Outcome(NamedTuple):
    """Shares of games won, drawn and lost by the first player; mean steps, and mean catches by the first."""

    won: float
    drawn: float
    lost: float
    length: float
    catches: float


# (name, mode, first player, second player, in the original over 2,000 games)
PAIRINGS = (
    ("weak against strong, normal", 0, WEAK, STRONG, Outcome(0.137, 0.464, 0.400, 174, 1.54)),
    ("strong against strong, normal", 0, STRONG, STRONG, Outcome(0.321, 0.351, 0.328, 149, 1.55)),
    ("weak against weak, normal", 0, WEAK, WEAK, Outcome(0.196, 0.595, 0.209, 191, 2.52)),
    ("idle against strong, normal", 0, IDLE, STRONG, Outcome(0.057, 0.698, 0.246, 206, 0.39)),
    ("strong against idle, shooting", 1, STRONG, IDLE, Outcome(0.347, 0.601, 0.052, 68, 1.39)),
    ("strong against idle, defense", 2, STRONG, IDLE, Outcome(0.376, 0.569, 0.055, 66, 1.36)),
    ("idle against idle, defense", 2, IDLE, IDLE, Outcome(0.355, 0.262, 0.384, 42, 0.72)),
)


def play(mode: int, first: int, second: int, games: int, seed: int = 0) -> Outcome:
    """Plays games between two scripted or idle players; like the original, one step beyond the limit."""
    limit = STEPS[mode] + 1
    env_arrays = EnvArrays(Hockey(mode=mode, player_one=first, player_two=second, time_limit=limit), games)
    runner = Runner(env_arrays, NEXT_STEP)
    env_arrays.states["seed"] = seed + np.arange(games)  # odd and even ones start on different sides
    runner.reset(np.arange(games))
    winners, lengths, catches = np.zeros(games), np.zeros(games), np.zeros(games)
    going = np.ones(games, np.bool_)
    for _ in range(limit):
        runner.step(0, games)
        lengths += going
        catches += going & (env_arrays.infos["reward_touch_puck"] > 0)
        winners[going] = env_arrays.infos["winner"][going]
        going &= ~(env_arrays.terminated | env_arrays.truncated)
    won, lost = float(np.mean(winners == 1)), float(np.mean(winners == -1))
    return Outcome(won, 1.0 - won - lost, lost, float(lengths.mean()), float(catches.mean()))


def main() -> None:
    """Prints the outcomes of this world and of the original."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=2000, help="games of each pairing")
    games = parser.parse_args().games
    print(f"{'':<31}   won drawn  lost length catches")
    for name, mode, first, second, original in PAIRINGS:
        for label, outcome in ((name, play(mode, first, second, games)), ("  in the original", original)):
            shares = f"{outcome.won:.3f} {outcome.drawn:.3f} {outcome.lost:.3f}"
            print(f"{label:<31} {shares} {outcome.length:>6.0f} {outcome.catches:>7.2f}")


if __name__ == "__main__":
    main()
