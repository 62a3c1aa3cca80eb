"""How long a search takes: with two workers over one, and against another commit: `make bench-search`, or

    python benchmarks/search.py [--against REF] [--trials 20] [--steps 20000] [--rounds 1] [--only NAME] [--json FILE]
    python benchmarks/search.py --against REF --only typed --world crypto --trials 3 --steps 6000 --set search.verify=0

- `workers`: both sides train the same random trials of PPO on the compiled CartPole, one seed each, without
  verification. Needs no other commit.
- `typed`: `rookery search CartPole-v1 --n-trials 20 --steps 20000 --workers 2`, the whole command, here and in the
  other commit. What the sampler proposes depends on which trial ends first, so that the trials differ.
- `same`: the same command with random settings and all seeds for every trial, so that both sides train the same runs.
  Their values must be equal bit for bit.

Every side begins with a small search that fills its caches of compiled code; of several rounds the best counts. The CPU
seconds of both are beside them: on a busy machine, these tell more.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from cost import ROOT, checked_out
from engine_rows import Row
from report import measured, parser_for, report

TWO_OVER_ONE, OVER_ANOTHER = 1.7, 1.5
SPACE = {"ppo.learning_rate": {"log": [1e-4, 1e-2]}, "ppo.entropy": {"log": [1e-6, 1e-2]}}
SAME = ("--sampler", "random", "--set", "search.first_seeds=3")  # nothing depends on which trial ends first


def workers_row(trials: int, steps: int) -> list[Row]:
    """Two workers over one."""
    seconds_with(2, 2, 1_000, seed=99)
    one, two = (seconds_with(workers, trials, steps, seed=0) for workers in (1, 2))
    return [Row(f"{trials} small trials, 2 workers over 1", f"{two:.1f} s", f"{one:.1f} s", one / two, TWO_OVER_ONE)]


def seconds_with(workers: int, trials: int, steps: int, seed: int) -> float:
    """Seconds of a search, from its call to its result."""
    import rookery

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        started = time.perf_counter()
        result = rookery.search(
            "CartPole-v1", steps=steps, num_envs=8, learner="ppo", n_trials=trials, jobs=workers, sampler="random",
            studies_dir=folder, study_name="bench", space=SPACE, verbose=False,
            search={"seeds": 1, "verify": 0, "seed": seed},
        )  # fmt: skip
        seconds = time.perf_counter() - started
    assert result.finished == trials, result.reason
    return seconds


def command_row(theirs: Path, args: Any, more: tuple[str, ...] = ()) -> list[Row]:
    """The command of this tree over that of another."""
    sides = [ROOT, theirs]
    words = (*more, *(word for setting in args.set for word in ("--set", setting)))
    for tree in sides:
        seconds_of_command(tree, args.world, 2, 1_000, words)
    rounds = [
        [seconds_of_command(tree, args.world, args.trials, args.steps, words) for tree in sides]
        for _ in range(args.rounds)
    ]
    if more and any(found != rounds[0][0][2] for each in rounds for _, _, found in each):
        raise SystemExit("the same trials have other values than in the other commit")
    (ours, our_cpu), (before, cpu_before) = ([min(each[k][n] for each in rounds) for n in range(2)] for k in range(2))
    name = f"{args.world}: {args.trials} trials of {args.steps:,} steps, 2 workers{', the same runs' if more else ''}"
    here, there = (f"{seconds:.1f} s, {cpu:.0f} CPU s" for seconds, cpu in ((ours, our_cpu), (before, cpu_before)))
    over_cpu = Row(f"{name}, CPU", here, there, cpu_before / our_cpu, 1.0)
    return [Row(name, here, there, before / ours, OVER_ANOTHER), over_cpu]


def seconds_of_command(
    tree: Path, world: str, trials: int, steps: int, more: tuple[str, ...]
) -> tuple[float, float, Any]:
    """Seconds and CPU seconds of a search as a user types it, and what its runs have reached."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["search", world, "--n-trials", trials, "--steps", steps, "--workers", 2, *more]
        command = [sys.executable, "-m", "rookery", *map(str, words), "--studies-dir", folder, "--study-name", "bench"]
        env = {**os.environ, "PYTHONPATH": str(tree / "src")}
        started, cpu = time.perf_counter(), cpu_of_children()
        done = subprocess.run([*command, "--quiet"], env=env, capture_output=True, text=True, check=False)
        seconds, cpu = time.perf_counter() - started, cpu_of_children() - cpu
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        return seconds, cpu, evaluations(Path(folder) / "bench" / "runs")


def cpu_of_children() -> float:
    """CPU seconds of all processes that were started here and have ended, with those that they started."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def evaluations(runs: Path) -> dict[str, float]:
    """What every run of a study has reached. Those that were trained to be verified, and then were not, do not count:
    they depend on which trial ended last."""
    summaries = {file.parent.name: json.loads(file.read_text()) for file in sorted(runs.glob("*/summary.json"))}
    return {name: about["eval/return"] for name, about in summaries.items() if "verify" not in name}


def main() -> int:
    parser = parser_for(__doc__, ("workers", "typed", "same"), rounds=1)
    parser.add_argument("--against", metavar="REF", help="a commit, or a folder of one, to compare with")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--world", default="CartPole-v1", help="of the rows against another commit (%(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for both searches")
    args = parser.parse_args()
    if args.against is None:
        results = measured({"workers": partial(workers_row, 2 * args.trials, args.steps)}, None)
        return report(results, "a search", args.json)
    with checked_out(args.against) as theirs:
        rows = {"typed": partial(command_row, theirs, args), "same": partial(command_row, theirs, args, SAME)}
        results = measured(rows, args.only)
    return report(results, f"the working tree against {args.against}", args.json)


if __name__ == "__main__":
    sys.exit(main())
