"""PPO on a CPU's cores: steps a second with 1, 2, 4, ... threads, as a table, and beside PureJaxRL if it is there:

    python benchmarks/cpu_scaling.py [--threads 1 2 4] [--rounds 5] [--json FILE]
    python benchmarks/cpu_scaling.py --peer FOLDER --peer-python PYTHON

Kernel CartPole with nets of 64x64, 4 epochs and 4 minibatches; in the settings 64 envs x 128 steps and 1,024 x 32.
FOLDER is a checkout of PureJaxRL's ppo.py with a `bench.py ENVS,STEPS,TOTAL` that prints "... steps/s"; PYTHON has what
it needs (jax, flax, optax, distrax, chex, gymnax below 1.0). All sides take turns; figures are medians. Exits with 1
if a figure misses what it must reach: 1.3 times PureJaxRL, and on 16 cores 5 times one thread.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from at_work import AtWork
from engine_rows import Row, ratio_row
from measure import in_turns
from report import report
from rookery.engine.machine import usable_cores
from rookery.learners.registry import PPOOptions, make_learner

SETTINGS = ((64, 128), (1024, 32))
MANY_CORES, MUST_SCALE, MUST_BEAT = 16, 5.0, 1.3
TURN = 1 << 17  # steps of a turn, for each thread: a turn of many threads would else be over in no time


def at_work(num_envs: int, length: int, threads: int) -> AtWork:
    """PPO on CartPole, on so many threads."""
    envs = rookery.make_vec("rookery/CartPole-v1", num_envs, "kernel", autoreset_mode="SameStep", copy=False)
    options = PPOOptions(rollout_length=length, minibatches=4, epochs=4)
    learner = make_learner("ppo", envs.single_observation_space, envs.single_action_space, options, num_envs, 1, "cpu")
    return AtWork(envs, learner, "ppo", threads)


def peer(folder: Path, python: str, num_envs: int, length: int, steps: int = 500_000) -> Callable[[], float]:
    """A turn of PureJaxRL; its compilation does not count."""

    def turn() -> float:
        command = [python, "bench.py", f"{num_envs},{length},{steps}"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
        found = re.search(r"([\d.e+]+) steps/s", said)
        assert found is not None, said
        return float(found[1])

    return turn


def rows(num_envs: int, length: int, args: argparse.Namespace) -> list[Row]:
    """One setting on every number of threads."""
    title, most = f"PPO steps/s, {num_envs} x {length}", max(args.threads)
    sides = {str(n): at_work(num_envs, length, n).side(n * TURN) for n in args.threads}
    if args.peer:
        sides["peer"] = peer(args.peer, args.peer_python, num_envs, length)
    found = in_turns(sides, args.rounds)
    least = {n: MUST_SCALE if n == most and n >= MANY_CORES else 0.0 for n in args.threads}
    made = [
        ratio_row(f"{title}: {n} threads / one", found[str(n)], found[str(args.threads[0])], least[n])
        for n in args.threads
    ]
    if args.peer:
        must = MUST_BEAT if num_envs == SETTINGS[0][0] else 0.0
        made.append(ratio_row(f"{title}: {most} threads / PureJaxRL", found[str(most)], found["peer"], must))
    return made


def main() -> int:
    """Measure both settings and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    powers = [1 << k for k in range(10) if 1 << k <= usable_cores()]
    parser.add_argument("--threads", type=int, nargs="+", default=powers, help="numbers of threads, the least first")
    parser.add_argument("--rounds", type=int, default=5, help="turns per side (default: %(default)s)")
    parser.add_argument("--peer", type=Path, metavar="FOLDER", help="PureJaxRL's folder")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PYTHON", help="what runs it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    results = [row for setting in SETTINGS for row in rows(*setting, args)]
    return report(results, "PPO on a CPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
