"""What episode rows and system figures cost PPO on the compiled CartPole: `make bench-monitor`, or

    python benchmarks/monitor_cost.py [--only NAME ...] [--turns 16] [--most 2] [--json FILE]

Two runs with the same seed, one with `monitor.episodes` and `monitor.system` and one without, take turns of half a
second, in random order. The same turn is the same work on both sides, so its ratio is the cost. Turns are measured in
the CPU time of the process, which other programs on the machine hardly change; the steps per second of wall time are
shown beside it. The figure is the median over the turns, with an interval that holds the true median in 95 of 100
measurements. A run that waits for its turn has its samples due more often in its own time: the cost is rather too high.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cost import FEWEST_PAIRS, Cost, median_interval
from engine_rows import Row
from report import measured, parser_for, report

ROLLOUTS = 32  # of a turn
NUM_ENVS, ROLLOUT_LENGTH = 8, 256
ROWS = {
    "learning": ("PPO that learns: episodes become long", {}),
    "short": ("PPO that does not learn: episodes stay short, at most", {"learning_rate": 1e-12}),
}


class Side:
    """A training run in a process of its own, which makes some rollouts when it is told to."""

    def __init__(self, folder: Path, monitored: bool, ppo: dict[str, Any]) -> None:
        options = {
            "world": "CartPole-v1", "learner": "ppo", "num_envs": NUM_ENVS, "steps": 10**9, "seed": 1,
            "runs_dir": str(folder), "device": "cpu",
            "ppo": {"rollout_length": ROLLOUT_LENGTH, "minibatches": 8, "epochs": 4, "threads": 1, **ppo},
            "evaluation": {"every": 10**9, "episodes": 1},
            "checkpoints": {"every": 10**9},
            "monitor": {"panel": False, "plot": False, "episodes": monitored, "system": monitored},
        }  # fmt: skip
        command = [sys.executable, __file__, "--side", json.dumps(options)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]

    def turn(self, rollouts: int) -> tuple[float, float]:
        """CPU seconds and seconds of so many rollouts."""
        self._process.stdin.write(f"{rollouts}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a side of the comparison ended")
        cpu, wall = map(float, line.split())
        return cpu, wall

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def run_side(options: dict[str, Any]) -> None:
    """Train, and wait for the parent's word whenever the rollouts of a turn are made."""
    import rookery

    class Turns(rookery.Callback):
        left, began = 0, (0.0, 0.0)

        def on_rollout(self, run: Any) -> None:
            if self.left:
                self.left -= 1
            if not self.left:
                if self.began[1]:
                    print(time.process_time() - self.began[0], time.perf_counter() - self.began[1], flush=True)
                self.left = int(sys.stdin.readline())
                self.began = time.process_time(), time.perf_counter()

    rookery.train(options, callbacks=[Turns()])


def cost_rows(name: str, turns: int, most: float) -> list[Row]:
    """One row of the table."""
    text, ppo = ROWS[name]
    with tempfile.TemporaryDirectory(prefix="rookery-monitor-") as folder, contextlib.ExitStack() as stack:
        sides = [stack.enter_context(contextlib.closing(Side(Path(folder), k == 0, ppo))) for k in range(2)]
        spent = np.zeros((2, turns + 1, 2))
        for turn in range(turns + 1):
            for k in random.sample((0, 1), 2):
                spent[k, turn] = sides[k].turn(ROLLOUTS)
    (cpu, wall), (cpu_without, wall_without) = (np.moveaxis(side[1:], 1, 0) for side in spent)  # the first compiles
    costs = np.sort(100 * (1 - cpu_without / cpu))
    steps = ROLLOUTS * NUM_ENVS * ROLLOUT_LENGTH
    speeds = (f"{steps / np.median(seconds):,.0f} steps/s" for seconds in (wall, wall_without))
    return [Cost(text, *speeds, float(np.median(costs)), most, " %", True, *median_interval(costs))]


def main() -> int:
    """Measure the chosen rows and print them."""
    if sys.argv[1:2] == ["--side"]:
        run_side(json.loads(sys.argv[2]))
        return 0
    parser = parser_for(__doc__, ROWS)
    parser.add_argument("--turns", type=int, default=16, help="turns of each side (default: %(default)s)")
    parser.add_argument("--most", type=float, default=2.0, help="percent that it may cost (default: %(default)s)")
    args = parser.parse_args()
    if args.turns < FEWEST_PAIRS:
        parser.error(f"--turns should be at least {FEWEST_PAIRS}")
    results = measured({name: partial(cost_rows, name, args.turns, args.most) for name in ROWS}, args.only)
    return report(results, "with episode rows and system figures (ours) against without (theirs)", args.json)


if __name__ == "__main__":
    sys.exit(main())
