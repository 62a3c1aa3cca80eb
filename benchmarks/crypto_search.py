"""How long 500 trials of the crypto search take on this machine, extrapolated from a few minutes of it:

    python benchmarks/crypto_search.py [--minutes 8] [--trials 500] [--device cuda] [--workers K] [--json FILE]

The search is the usual one of the world: seven assets, 12 envs, six folds of combinatorial purged cross-validation with
100,000 steps each, and the world's own space, with nets of 512 to 1536. Steps of folds that are under way when the time
is up count as well, so that any speed can be measured. The world is compiled before, and the clock starts with the
first run. The target is for one H200 and 16 cores, and a measurement of at least 8 minutes; elsewhere the figure is
printed without it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch

import rookery
from engine_rows import Row
from report import report
from rookery.training.storage.run_dir import RunDir

FOLDS = 6
HOURS = 1.0  # for 500 trials on one H200 and 16 cores
LEAST_MINUTES = 8
STARTING = 30  # seconds for processes to start


def main() -> int:
    """Search for some minutes, and print the extrapolation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=LEAST_MINUTES, help="time to measure (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=500, help="trials to extrapolate to (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100_000, help="of each fold (default: %(default)s)")
    parser.add_argument("--n-envs", type=int, default=12, help="envs of a run (default: %(default)s)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="(%(default)s)")
    parser.add_argument("--workers", type=int, help="processes that train (by cores and memory)")
    parser.add_argument("--population", type=int, default=FOLDS, help="runs that train as one program (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compile_world(args, Path(folder))
        found = measure(args, Path(folder))
    print(json.dumps(found))
    if not found["steps"]:
        print("no run was trained in this time: give more --minutes")
        return 1
    measured = row(found, args)
    if args.minutes >= LEAST_MINUTES and args.device.startswith("cuda"):
        return report([measured], "the crypto search", args.json)
    print(f"{measured.measure}: {measured.figure} on this machine ({measured.ours})")
    if args.json:
        args.json.write_text(json.dumps({**found, "hours": measured.value}, indent=1))
    return 0


def compile_world(args: argparse.Namespace, folder: Path) -> None:
    """A short run: what it compiles is stored, and the workers find it."""
    rookery.train(
        "crypto", steps=4 * args.n_envs * 16, num_envs=args.n_envs, device=args.device, learner="ppo", runs_dir=folder,
        name="compiled", ppo={"rollout_length": 16, "hidden": [512, 512]}, monitor={"report": False}, verbose=False,
    )  # fmt: skip


def measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Steps and seconds of a search that is stopped by its timeout; the seconds since its first run began."""
    result = rookery.search(
        "crypto", n_trials=args.trials, study_name="crypto", studies_dir=folder, timeout=60 * args.minutes + STARTING,
        jobs=args.workers, num_envs=args.n_envs, steps=args.steps, device=args.device, learner="ppo",
        search={"verify": 0, "sampler": "random", "population": {"size": args.population}}, verbose=False,
    )  # fmt: skip
    ended, runs = time.time(), RunDir.all(result.path / "runs")
    steps = list(map(trained_steps, runs))
    seconds = ended - runs[0].created if runs else result.seconds
    return {
        "seconds": seconds, "steps": sum(steps), "runs": len(steps), "finished_trials": result.finished,
        "failed_trials": result.failed, "device": args.device,
    }  # fmt: skip


def trained_steps(run: RunDir) -> int:
    """The steps of a run, finished or not: of its summary, or of the last line of its metrics."""
    summary = run.read_summary()
    if summary is not None:
        return int(summary["steps"])
    lines = run.metrics.read_text().splitlines() if run.metrics.exists() else []
    return int(json.loads(lines[-1])["step"]) if lines else 0


def row(found: dict[str, Any], args: argparse.Namespace) -> Row:
    """The hours of all trials at the measured speed."""
    speed = found["steps"] / found["seconds"]
    hours = args.trials * FOLDS * args.steps / speed / 3600
    measured = f"{found['steps']:,} steps in {found['seconds']:.0f} s, {speed:,.0f}/s"
    return Row(f"{args.trials} trials of {FOLDS} x {args.steps:,} steps", measured, "", hours, HOURS, " h", most=True)


if __name__ == "__main__":
    sys.exit(main())
