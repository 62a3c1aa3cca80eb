"""What the working tree costs in speed against another commit: `make bench-cost AGAINST=main`, or

    python benchmarks/cost.py [--against main] [--only NAME ...] [--pairs 12] [--most 2] [--json FILE]

A pair is a fresh process of each side; the two take short turns, in random order. The median ratio of neighbouring
turns is the pair's. Fresh processes, as two of the same code differ by a percent or two in where things lie in memory.
The figure is the median over the pairs, with an interval that holds the true median in 95 of 100 measurements. Exits
with 1 if the whole of that interval lies beyond the limit: then it is not an accident.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from cost_rows import ROWS
from engine_rows import Row
from report import measured, parser_for, report

ROOT = Path(__file__).parent.parent
TURN_SECONDS = 0.05  # short: on a busy machine, neighbouring turns then have the same neighbours
FEWEST_PAIRS = 6  # the extremes of fewer hold the median less often than in 95 of 100 measurements


@dataclass
class Cost(Row):
    """A cost in percent and its interval; it is missed only where the whole interval lies beyond the limit."""

    low: float = 0.0
    high: float = 0.0

    @property
    def passed(self) -> bool:
        return self.low <= self.least

    @property
    def figure(self) -> str:
        return f"{self.value:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "low": self.low, "high": self.high}


class Side:
    """A process that does a row's work with the `rookery` of one tree."""

    def __init__(self, tree: Path, row: str) -> None:
        command = [sys.executable, str(Path(__file__).parent / "cost_rows.py"), row]
        env = {**os.environ, "PYTHONPATH": str(tree / "src")}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        file, compiled = self._line().split()
        if not Path(file).is_relative_to(tree):
            raise SystemExit(f"{file} was measured in the place of {tree}")
        self.compiled = compiled

    def seconds(self, calls: int) -> float:
        """How long so many calls take."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a side of the comparison ended: {self._process.args}")
        return line


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ROWS)
    parser.add_argument(
        "--against", default="main", metavar="REF", help="the commit, or a folder of one, to compare with (%(default)s)"
    )
    parser.add_argument("--pairs", type=int, default=12, help="pairs of processes a row (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=24, help="turns of each process (default: %(default)s)")
    parser.add_argument("--most", type=float, default=2.0, help="percent that it may cost (default: %(default)s)")
    args = parser.parse_args()
    if args.pairs < FEWEST_PAIRS:
        parser.error(f"--pairs should be at least {FEWEST_PAIRS}")
    with checked_out(args.against) as theirs:
        rows = {name: partial(cost_rows, name, theirs, args) for name in ROWS}
        results = measured(rows, args.only)
    return report(results, f"the working tree against {args.against}", args.json)


@contextlib.contextmanager
def checked_out(ref: str) -> Iterator[Path]:
    """A commit's files in a folder of their own, with its loops compiled there; or a folder that has them."""
    if Path(ref).is_dir():
        yield Path(ref).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="rookery-cost-") as folder:
        tree = Path(folder).resolve() / "tree"
        _run("git", "worktree", "add", "--quiet", "--detach", str(tree), ref)
        try:
            _run(sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", cwd=tree)
            yield tree
        finally:
            _run("git", "worktree", "remove", "--force", str(tree))


def _run(*command: str, cwd: Path = ROOT) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")


def cost_rows(name: str, theirs: Path, args: Any) -> list[Row]:
    """One row of the table."""
    calls = _calls_in_a_turn(name, [ROOT, theirs])
    pairs = np.array([pair(name, [ROOT, theirs], calls, args.turns) for _ in range(args.pairs)])
    costs = np.sort(100 * (1 - pairs[:, 0]))  # percent of the speed there was
    low, high = median_interval(costs)
    ours, before = (f"{calls / seconds:,.0f} calls/s" for seconds in np.median(pairs[:, 1:], axis=0))
    return [Cost(ROWS[name][0], ours, before, float(np.median(costs)), args.most, " %", True, low, high)]


def _calls_in_a_turn(name: str, trees: Sequence[Path]) -> int:
    """As many as fill its time. Also has each side compile what it must, in a process that is not measured."""
    found, kinds = 0, set()
    for tree in trees:
        side = Side(tree, name)
        kinds.add(side.compiled)
        calls, seconds = 4, 0.0
        while seconds < TURN_SECONDS / 4:
            calls *= 2
            seconds = side.seconds(calls)
        side.close()
        found = max(found, round(calls * TURN_SECONDS / seconds), 1)
    if len(kinds) > 1:
        raise SystemExit("one side has its loops compiled and the other has not: run `make setup`")
    return found


def pair(name: str, trees: Sequence[Path], calls: int, turns: int) -> tuple[float, float, float]:
    """The ratio of our speed to theirs, and the seconds of a turn of each: medians over the turns."""
    with contextlib.ExitStack() as stack:
        sides = {k: stack.enter_context(contextlib.closing(Side(trees[k], name))) for k in random.sample((0, 1), 2)}
        seconds = np.zeros((2, turns + 1))
        for turn in range(turns + 1):
            for k in random.sample((0, 1), 2):
                seconds[k, turn] = sides[k].seconds(calls)
    ours, theirs = seconds[:, 1:]  # without the first, in which caches fill
    return float(np.median(theirs / ours)), float(np.median(ours)), float(np.median(theirs))


def median_interval(ordered: np.ndarray, share: float = 0.95) -> tuple[float, float]:
    """Between which two of these values the median of what they come from lies, with at least this probability."""
    n, inside, k = len(ordered), 1.0, 0
    while inside - 2 * comb(n, k) / 2**n >= share:
        inside -= 2 * comb(n, k) / 2**n
        k += 1
    return float(ordered[max(k - 1, 0)]), float(ordered[n - max(k, 1)])


if __name__ == "__main__":
    sys.exit(main())
