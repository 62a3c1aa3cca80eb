"""How long commands and engines take to start and to end: `make bench-start`, or

    python benchmarks/start.py [--only NAME ...] [--rounds 5] [--against SRC] [--json FILE]

Every command runs once to fill its caches, and then once per round, in turns with the yardsticks: `import torch` and
`import gymnasium` in an empty Python, which say how fast the machine is at the moment. The figure of a row is the
median of the rounds in seconds; CPU seconds are beside it, which other programs on the machine change less. `--against`
runs the same commands with the package in another folder in the same rounds, such as the `src` of another checkout.

`ROWS` has a function for each group of rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

import start_engines
from engine_rows import Row
from report import measured, parser_for, report, said

HERE = Path(__file__).resolve().parents[1] / "src"
YARDSTICKS = ("import torch", "import gymnasium")
RUNS = 100  # of `rookery runs`


@dataclass(frozen=True)
class Command:
    """A command that is measured; `must` is what it must reach, in seconds on a quiet machine with two cores."""

    name: str
    words: tuple[str, ...]
    must: float
    needs_runs: bool = False


COMMANDS = {
    "help": Command("--help", ("--help",), 0.2),
    "runs": Command(f"runs, of {RUNS}", ("runs",), 0.5, needs_runs=True),
    "eval": Command("eval of CartPole, 10 episodes", ("eval", "trained", "--episodes", "10"), 2.5, needs_runs=True),
    "train": Command("train CartPole-v1, second run", ("train", "CartPole-v1"), 5.0),
}


@dataclass
class Times:
    """Seconds, and CPU seconds, of each round."""

    wall: list[float]
    cpu: list[float]

    def text(self) -> str:
        return f"{median(self.wall):.2f} s ({median(self.cpu):.2f} CPU)"


def timed(words: Iterable[str], folder: Path, source: Path) -> tuple[float, float]:
    """Seconds and CPU seconds of a Python program, with this package."""
    variables = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": ""}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *words], cwd=folder, env=variables, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_rounds(programs: dict[str, Callable[[], tuple[float, float]]], rounds: int) -> dict[str, Times]:
    """Each program once for its caches, and once per round."""
    found = {name: Times([], []) for name in programs}
    for count in range(rounds + 1):
        for name, run in programs.items():
            seconds, cpu = run()
            if count:
                found[name].wall.append(seconds)
                found[name].cpu.append(cpu)
    return found


@cache
def folder_of_runs() -> tempfile.TemporaryDirectory[str]:
    """With a short run by the name "trained", and copies of it until there are RUNS; deleted at the end."""
    made = tempfile.TemporaryDirectory()
    runs = Path(made.name) / "runs"
    said("training a run to list and to evaluate")
    timed(["-m", "rookery", "train", "CartPole-v1", "--name", "trained", "--steps", "20_000"], runs.parent, HERE)
    for number in range(RUNS - 1):
        shutil.copytree(runs / "trained", runs / f"copy-{number}")
    return made


def command_rows(command: Command, options: argparse.Namespace) -> Iterator[Row]:
    """One command beside the yardsticks, and beside another version of itself."""
    folder = folder_of_runs() if command.needs_runs else tempfile.TemporaryDirectory()
    time_in = partial(timed, folder=Path(folder.name))
    sides = {"ours": partial(time_in, ["-m", "rookery", *command.words], source=HERE)}
    if options.against is not None:
        sides["other"] = partial(time_in, ["-m", "rookery", *command.words], source=options.against.resolve())
    sides |= {name: partial(time_in, ["-c", name], source=HERE) for name in YARDSTICKS}
    found = in_rounds(sides, options.rounds)
    ours = found.pop("ours")
    beside = "; ".join(f"{name} {times.text()}" for name, times in found.items())
    yield Row(f"rookery {command.name}", ours.text(), beside, median(ours.wall), command.must, " s", most=True)


# Groups of rows by name: functions of the options.
ROWS: dict[str, Callable[[argparse.Namespace], Iterable[Row]]] = {
    **{name: partial(command_rows, command) for name, command in COMMANDS.items()},
    **start_engines.ROWS,
}


def main() -> int:
    parser = parser_for(__doc__, ROWS, rounds=5)
    parser.add_argument("--gymnasium", type=Path, metavar="CHECKOUT", help="run its tests/vector on rookery's engine")
    parser.add_argument("--sb3", type=Path, metavar="CHECKOUT", help="run its tests of VecEnvs on rookery's engine")
    parser.add_argument("--against", type=Path, metavar="SRC", help="the src folder of another checkout")
    options = parser.parse_args()
    rows = {name: partial(measure, options) for name, measure in ROWS.items()}
    return report(measured(rows, options.only, options.json), "starts", options.json)


if __name__ == "__main__":
    raise SystemExit(main())
