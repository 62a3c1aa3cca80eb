"""How long 500 trials of the crypto search take on this machine, extrapolated from a few minutes of it:

    python benchmarks/crypto_search.py [--minutes 8] [--trials 500] [--device cuda] [--workers K] [--json FILE]

The search is the usual one of the world: seven assets, 12 envs, six folds of combinatorial purged cross-validation with
100,000 steps each, and the world's own space, with nets of 512 to 1536. Device, workers and how many trials train side
by side are chosen by the search. Steps of folds that are under way when the time is up count as well, so that any speed
can be measured. The world is compiled before, and the clock starts with the first run. The targets are for one H200 and
16 cores, and a measurement of at least 8 minutes; elsewhere the figures are printed without them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import optuna

import rookery
from engine_rows import Row
from report import report
from rookery.training.storage.run_dir import RunDir

FOLDS = 6
HOURS = 0.75  # for 500 trials on one H200 and 16 cores
BUSY, CLAIMED, FIRST = 80, 32, 60  # percent of the GPU, trials at once, seconds until one has finished
LEAST_MINUTES = 8
STARTING = 30  # seconds for processes to start


def main() -> int:
    """Search for some minutes, and print the extrapolation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=LEAST_MINUTES, help="time to measure (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=500, help="trials to extrapolate to (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100_000, help="of each fold (default: %(default)s)")
    parser.add_argument("--n-envs", type=int, default=12, help="envs of a run (default: %(default)s)")
    parser.add_argument("--device", default="auto", help="(%(default)s)")
    parser.add_argument("--workers", type=int, help="processes that train (by cores and memory)")
    parser.add_argument("--population", type=int, default=1, help="trials that a worker trains at a time (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compile_world(args, Path(folder))
        found = measure(args, Path(folder))
    print(json.dumps(found))
    if not found["steps"]:
        print("no run was trained in this time: give more --minutes")
        return 1
    measured = rows(found, args)
    if args.minutes >= LEAST_MINUTES and found["gpu"] is not None:
        return report(measured, "the crypto search", args.json)
    for one in measured:
        print(f"{one.measure}: {one.figure} on this machine ({one.ours})")
    if args.json:
        args.json.write_text(json.dumps({**found, "hours": measured[0].value}, indent=1))
    return 0


def compile_world(args: argparse.Namespace, folder: Path) -> None:
    """A short run: what it compiles is stored, and the workers find it."""
    rookery.train(
        "crypto", steps=4 * args.n_envs * 16, num_envs=args.n_envs, device=args.device, learner="ppo", runs_dir=folder,
        name="compiled", ppo={"rollout_length": 16, "hidden": [512, 512]}, monitor={"report": False}, verbose=False,
    )  # fmt: skip


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Steps and seconds of a search that is stopped by its timeout; the seconds since its first run began."""
    with BusyShare() as gpu:
        result = rookery.search(
            "crypto", n_trials=args.trials, study_name="crypto", studies_dir=folder, jobs=args.workers,
            timeout=60 * args.minutes + STARTING, num_envs=args.n_envs, steps=args.steps, device=args.device,
            learner="ppo", search={"verify": 0, "population": {"size": args.population}},
        )  # fmt: skip
    ended, runs = time.time(), RunDir.all(result.path / "runs")
    steps = list(map(trained_steps, runs))
    began = runs[0].created if runs else ended - result.seconds
    trials = optuna.load_study(study_name=None, storage=f"sqlite:///{result.path}/study.db").trials
    return {
        "seconds": ended - began, "steps": sum(steps), "runs": len(steps), "finished_trials": result.finished,
        "failed_trials": result.failed, "claimed": most_at_once(trials), "first": first_finished(trials),
        "gpu": gpu.share(),
    }  # fmt: skip


def most_at_once(trials: list[Any]) -> int:
    """How many trials were under way at the same time."""
    begun = [(trial.datetime_start, 1) for trial in trials if trial.datetime_start]
    ended = [(trial.datetime_complete, -1) for trial in trials if trial.datetime_complete]
    return max(accumulate(change for _, change in sorted(begun + ended)), default=0)


def first_finished(trials: list[Any]) -> float | None:
    """Seconds from the first trial's start until one has finished."""
    ended = [trial.datetime_complete for trial in trials if trial.state.name == "COMPLETE"]
    begun = [trial.datetime_start for trial in trials if trial.datetime_start]
    return (min(ended) - min(begun)).total_seconds() if ended else None


class BusyShare(threading.Thread):
    """Asks the GPU every second how busy it is."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over, self._percents = threading.Event(), list[int]()

    def __enter__(self) -> BusyShare:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while shutil.which("nvidia-smi") and not self._over.wait(1.0):
            asked = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
            self._percents.append(int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout))

    def share(self) -> float | None:
        """Percent on average, once the workers have started; None without a GPU."""
        return float(np.mean(self._percents[STARTING:])) if len(self._percents) > STARTING else None


def trained_steps(run: RunDir) -> int:
    """The steps of a run, finished or not: of its summary, or of the last line of its metrics."""
    summary = run.read_summary()
    if summary is not None:
        return int(summary["steps"])
    lines = run.metrics.read_text().splitlines() if run.metrics.exists() else []
    return int(json.loads(lines[-1])["step"]) if lines else 0


def rows(found: dict[str, Any], args: argparse.Namespace) -> list[Row]:
    """The hours of all trials at the measured speed, and how the search came to it."""
    speed = found["steps"] / found["seconds"]
    hours = args.trials * FOLDS * args.steps / speed / 3600
    measured = f"{found['steps']:,} steps in {found['seconds']:.0f} s, {speed:,.0f}/s"
    first = float("inf") if found["first"] is None else found["first"]
    all_rows = [
        Row(f"{args.trials} trials of {FOLDS} x {args.steps:,} steps", measured, "", hours, HOURS, " h", most=True),
        Row("failed trials", f"of {found['finished_trials']}", "", found["failed_trials"], 0, "", most=True),
        Row("trials claimed at once, at most", "", "", found["claimed"], CLAIMED, "", most=True),
        Row("first finished trial", "", "", first, FIRST, " s", most=True),
    ]
    return all_rows + ([] if found["gpu"] is None else [Row("busy share of the GPU", "", "", found["gpu"], BUSY, " %")])


if __name__ == "__main__":
    sys.exit(main())
