"""Workers that need nothing of Linux, against those that do, and what a kill leaves of them: `make bench-portable`, or

    python benchmarks/portable.py [--only NAME ...] [--rounds 40] [--json FILE]

A program of each side steps the same envs; the two take short turns, in random order.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row, ratio_row
from portable_side import WORLDS
from report import measured, parser_for, report

TURN_SECONDS = 0.1
KILLS = 20
LEFT_SECONDS = 5.0
LEAST = 0.7


class TransportSide:
    """A program with an engine, by the workers of Linux or by those of every system."""

    def __init__(self, portable: bool, *words: str) -> None:
        command = [sys.executable, str(Path(__file__).parent / "portable_side.py"), *words]
        env = {**os.environ, "ROOKERY_PORTABLE": str(int(portable))}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, start_new_session=True
        )
        self.first = self._line()
        if self.first.split()[0] != str(portable):
            raise SystemExit(f"the program {command} says of its workers: {self.first}")

    def seconds(self, steps: int) -> float:
        """How long so many steps take."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a side of the comparison ended: {self.process.args}")
        return line


def speed(world: str, num_envs: int, rounds: int) -> list[Row]:
    """The median of the ratios of neighbouring turns."""
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(contextlib.closing(TransportSide(portable, world, str(num_envs))))
            for portable in (True, False)
        ]
        steps = max(1, round(TURN_SECONDS * 200 / sides[1].seconds(200)))
        rates = np.zeros((2, rounds + 1))
        for turn in range(rounds + 1):
            for k in random.sample((0, 1), 2):
                rates[k, turn] = steps * num_envs / sides[k].seconds(steps)
    ours, theirs = rates[:, 1:]  # without the first, in which caches fill
    return [ratio_row(f"{world}, {num_envs} envs: portable over Linux's", ours, theirs, LEAST)]


def kills(count: int = KILLS) -> list[Row]:
    """SIGKILL of a program with its group, in the middle of its steps: how often nothing is left of it."""
    clean = sum(leaves_nothing(k) for k in range(count))
    return [Row(f"{count} kills with nothing left after {LEFT_SECONDS:g} s", str(clean), "", clean, count, "")]


def leaves_nothing(k: int) -> bool:
    """Whether neither processes nor shared memory remain of one program."""
    side = TransportSide(True, "cartpole", "4", "endless" if k % 2 else "")
    pids, files = (set(part.split(",")) for part in side.first.split()[1:])
    assert all(map(is_there, pids)) and all(map(os.path.exists, files)), "nothing could be left"
    time.sleep(random.uniform(0.0, 0.3))
    os.killpg(side.process.pid, signal.SIGKILL)
    side.process.communicate()
    deadline = time.monotonic() + LEFT_SECONDS
    while (found := [*filter(is_there, pids), *filter(os.path.exists, files)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not found


def is_there(pid: str) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def main() -> int:
    """Measure the chosen rows and print them."""
    names = [f"{world}-{n}" for world in WORLDS for n in (8, 64)]
    parser = parser_for(__doc__, [*names, "kills"], rounds=40)
    args = parser.parse_args()
    rows = {name: partial(speed, name.split("-")[0], int(name.split("-")[1]), args.rounds) for name in names}
    return report(measured({**rows, "kills": kills}, args.only), "portable workers", args.json)


if __name__ == "__main__":
    sys.exit(main())
