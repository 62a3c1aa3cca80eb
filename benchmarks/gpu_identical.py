"""Whether runs on a GPU repeat themselves, bit for bit: `python benchmarks/gpu_identical.py [--only NAME ...]`

Of each case three runs are trained at once on the same GPU: two with the same seed, and a third that is killed
(SIGKILL) after its second checkpoint and then resumed. In the end the weights, the optimiser's moments, the random
states and the envs in the last checkpoints of all three must be equal.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import measured, parser_for, report

LIMIT = 120  # seconds that a run may take
QUIET = ("monitor.plot=false", "monitor.tensorboard=false", "monitor.panel=false", "evaluation.episodes=8")
WIDE = ("num_envs=2048", "ppo.rollout_length=32", "ppo.epochs=4", "ppo.minibatches=4")
# World, learner, steps, further settings. There are eight checkpoints in a run.
CASES: dict[str, tuple[str, str, int, tuple[str, ...]]] = {
    "ppo-float32": ("CartPole-v1", "ppo", 80_000_000, (*WIDE, "ppo.precision=float32")),
    "ppo-bf16": ("CartPole-v1", "ppo", 80_000_000, (*WIDE, "ppo.precision=bf16")),
    "ppo-continuous": ("Pendulum-v1", "ppo", 80_000_000, (*WIDE, "ppo.normalise_observations=true")),
    "ppo-recurrent": ("CartPole-v1", "ppo", 4_000_000, (*WIDE, "ppo.recurrent=32")),
    "ppo-shared": ("crypto", "ppo", 20_000_000, (*WIDE, "world_options.action_type=weights", "ppo.share_weights=true")),
    "ppo-hockey": ("hockey", "ppo", 30_000_000, (*WIDE, "ppo.hidden=[128,128]")),
    "gameboy": ("gameboy", "ppo", 2_000_000, ("num_envs=512", "ppo.rollout_length=32", "ppo.minibatches=8")),
    "gameboy-pixels": (
        "gameboy",
        "ppo",
        400_000,
        ("world_options.observation=pixels", "num_envs=256", "ppo.rollout_length=32", "ppo.minibatches=32"),
    ),
    "sac": ("Pendulum-v1", "sac", 20_000, ("num_envs=8", "sac.batch_size=256", "sac.updates_per_step=0.5")),
    "dqn": ("CartPole-v1", "dqn", 40_000, ("num_envs=8",)),
}


def commands(runs: Path, case: str, device: str, share: float) -> tuple[list[str], list[str]]:
    """What trains the run NAME, which is appended, and what resumes it."""
    world, learner, steps, settings = CASES[case]
    steps = max(1, int(share * steps))
    sets = (
        *settings,
        *QUIET,
        f"checkpoints.every={steps // 8}",
        f"evaluation.every={steps // 2}",
        "checkpoints.keep=20",
    )
    rookery = [sys.executable, "-m", "rookery"]
    options = [part for text in sets for part in ("--set", text)]
    train = [*rookery, "train", world, "--learner", learner, "--device", device, "--steps", str(steps), "--seed", "3"]
    return [*train, "--runs-dir", str(runs), *options, "--name"], [*rookery, "resume", "--runs-dir", str(runs)]


def identical_row(case: str, device: str, share: float) -> list[Row]:
    """The files that differ between three runs of a case."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        train, resume = commands(runs, case, device, share)
        started = [_start([*train, name], runs / f"{name}.log") for name in ("first", "second", "killed")]
        killed_at = _kill_after_second_checkpoint(started[2], runs / "killed")
        codes = [process.wait(LIMIT) for process in started[:2]]
        codes.append(_start([*resume, "killed"], runs / "resumed.log").wait(LIMIT))
        if any(codes) or not killed_at:
            texts = [file.read_text()[-600:] for file in sorted(runs.glob("*.log"))]
            return [Row(f"{case}: failed", "\n".join(texts), "", float("inf"), 0, most=True)]
        found = [last_checkpoint(runs / name) for name in ("first", "second", "killed")]
    if killed_at >= int(found[0]["step"]):
        return [Row(f"{case}: ended before it was killed", "", "", float("inf"), 0, most=True)]
    differ = {name for other in found[1:] for name in found[0] if found[0][name] != other.get(name)}
    texts = f"{len(found[0]) - 1} files", f"killed at step {killed_at:,} of {found[0]['step']}"
    what = f"{case}: same seed twice; checkpoint, kill, resume: files of the last checkpoint that differ"
    return [Row(f"{what}{' ' + str(sorted(differ)) if differ else ''}", *texts, len(differ), 0, "", most=True)]


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)


def _kill_after_second_checkpoint(process: subprocess.Popen[bytes], run: Path) -> int:
    """Kill a run; returns the step of its last checkpoint then."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        if len(_checkpoints(run)) >= 2:
            break
        time.sleep(0.002)
    process.kill()
    process.wait()
    return int(_checkpoints(run)[-1].name.partition("-")[2]) if _checkpoints(run) else 0


def _checkpoints(run: Path) -> list[Path]:
    return sorted(path.parent for path in run.glob("checkpoints/step-*/manifest.json"))


def last_checkpoint(run: Path) -> dict[str, str]:
    """The hashes of the arrays in the last checkpoint, and its step."""
    folder = _checkpoints(run)[-1]
    files = json.loads((folder / "manifest.json").read_text())["files"]
    hashes = {name: facts["sha256"] for name, facts in files.items() if name.endswith(".safetensors")}
    return {**hashes, "step": folder.name.partition("-")[2].lstrip("0")}


def main() -> int:
    """Compare the chosen cases and print them."""
    parser = parser_for(__doc__, CASES)
    parser.add_argument("--device", default="cuda", help="(default: %(default)s)")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps of each run (default: %(default)s)")
    args = parser.parse_args()
    rows = {case: partial(identical_row, case, args.device, args.share) for case in CASES}
    return report(measured(rows, args.only), "runs on a GPU that repeat themselves", args.json)


if __name__ == "__main__":
    sys.exit(main())
