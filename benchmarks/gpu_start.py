"""Where the seconds of a start on a GPU go: `python benchmarks/gpu_start.py [--only NAME ...] [--json FILE]`

- `parts`: imports, the CUDA context, a world's kernels from disk and compiled, the first CUDA graph; each in a process
  of its own, the second of two starts.
- `command`: `rookery train CartPole-v1 --device cuda` from process start to an evaluation of 475; the second start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import measured, parser_for, report

SOLVED = 475
STOPWATCH = """
import sys, time
_start = _last = time.perf_counter(); _laps = {}
def lap(name):
    global _last
    now = time.perf_counter(); _laps[name] = now - _last; _last = now
"""
CONTEXT = "import ctypes\ndriver = ctypes.CDLL('libcuda.so.1')\n"
RETAIN = """
device, context = ctypes.c_int(), ctypes.c_void_p()
driver.cuInit(0); driver.cuDeviceGet(ctypes.byref(device), 0)
"""
WORLD = """
import torch; lap("import torch")
torch.zeros(1, device="cuda"); torch.cuda.synchronize(); lap("CUDA context")
import rookery; lap("import rookery")
envs = rookery.make_vec("rookery/CartPole-v1", 2048, backend="cuda", autoreset_mode="same_step"); lap("make_vec")
envs.reset(seed=1); torch.cuda.synchronize(); lap("first reset")
actions = torch.zeros(2048, dtype=torch.int64, device="cuda")
envs.step(actions); torch.cuda.synchronize(); lap("first step")
for _ in range(20): envs.step(actions)
torch.cuda.synchronize(); lap("20 steps")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(32): envs.step(actions)
lap("capture 32 steps")
for _ in range(10): graph.replay()
torch.cuda.synchronize(); lap("replay 10 times 32 steps")
"""
SNIPPETS = {
    "torch, then the context": "import torch; lap('import'); torch.zeros(1, device='cuda'); lap('context')",
    "the context in a thread beside torch": (
        f"{CONTEXT}{RETAIN}import threading\n"
        "retain = lambda: driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)\n"
        "thread = threading.Thread(target=retain); thread.start(); lap('thread')\n"
        "import torch; lap('import'); thread.join(); lap('join'); torch.zeros(1, device='cuda'); lap('context')"
    ),
    "CartPole on the GPU": WORLD,
    "rookery.training.run.train": "import torch; lap('torch'); import rookery.training.run.train; lap('the rest')",
    "triton after torch": "import torch; lap('torch'); import triton; lap('triton')",
    "numba.cuda": "import numba; lap('numba'); from numba import cuda; lap('numba.cuda')",
    "python": "",
    "torch": "import torch; lap('import')",
    "the context alone": f"{CONTEXT}{RETAIN}driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device); lap('all')",
    "numba": "import numba; lap('import')",
    "rookery.cli.main": "import rookery.cli.main; lap('import')",
}


def with_bytecode(folder: str | Path) -> dict[str, str]:
    """The environment of processes that keep compiled Python files in a folder, as Python does beside its sources by
    itself. Where that is turned off, every start compiles torch's files again."""
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**rest, "PYTHONPYCACHEPREFIX": str(Path(folder, "python"))}


def run_snippet(code: str, environment: dict[str, str]) -> dict[str, float]:
    """Seconds of each lap of a new process, and of all of it as `whole`."""
    ending = "\nimport json; print('LAPS' + json.dumps({**_laps, 'inside': time.perf_counter() - _start}))"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", STOPWATCH + code + ending],
        capture_output=True,
        text=True,
        env=environment,
    )
    whole = time.perf_counter() - started
    lines = [line for line in done.stdout.splitlines() if line.startswith("LAPS")]
    if not lines:
        print(done.stderr[-2000:], file=sys.stderr)
        return {"failed": float("nan"), "whole": whole}
    return {**json.loads(lines[0][4:]), "whole": whole}


def part_rows() -> list[Row]:
    """The parts of a start, one row each."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**with_bytecode(cache), "ROOKERY_CACHE": cache}
        run_snippet("import rookery.training.run.train", environment)  # compiles Python files
        for name, code in SNIPPETS.items():
            starts = 2 if "on the GPU" in name else 1  # the first one compiles
            first, *_, second = 2 * [run_snippet(code, environment) for _ in range(starts)]
            print(name, {lap: round(seconds, 2) for lap, seconds in second.items()}, file=sys.stderr, flush=True)
            laps = ", ".join(
                f"{lap} {seconds:.2f}" for lap, seconds in second.items() if lap not in ("inside", "whole")
            )
            rows.append(Row(name, laps, f"first {first['whole']:.2f} s", second["whole"], 60, " s", most=True))
    return rows


def command_rows(rounds: int = 3) -> list[Row]:
    """`rookery train CartPole-v1 --device cuda`, after a first start that compiles."""
    with tempfile.TemporaryDirectory() as folder:
        found = [timed_command(Path(folder), seed, with_bytecode(folder)) for seed in range(rounds + 1)]
    solved, training, whole = zip(*found[1:], strict=True)
    command = "rookery train CartPole-v1 --device cuda"

    def row(what: str, values: Any, most: float) -> Row:
        each = ", ".join(f"{value:.2f} s" for value in values)
        return Row(f"{command}: {what}", each, "", float(np.median(values)), most, " s", most=True)

    return [
        row(f"process start to an evaluation >= {SOLVED}", solved, 4),
        row("training alone, to that evaluation", training, 0.5),
        row("the whole command", whole, 60),
    ]


def timed_command(runs: Path, seed: int, environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until it was solved, seconds of training until then, and seconds in all."""
    command = [sys.executable, "-m", "rookery", "train", "CartPole-v1", "--device", "cuda", "--seed", str(seed)]
    started = time.time()
    command += ["--name", f"r{seed}", "--runs-dir", str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    whole = time.time() - started
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr, flush=True)
        return float("inf"), float("inf"), whole
    events = [json.loads(line) for line in (runs / f"r{seed}" / "evaluations.jsonl").open()]
    solved = [event for event in events if event["eval/return"] >= SOLVED]
    begun = json.loads((runs / f"r{seed}" / "metrics.jsonl").open().readline())["time"]
    course = [
        (round(event["time"] - begun, 3), round(event["eval/seconds"], 3), event["step"], round(event["eval/return"]))
        for event in events
    ]
    facts = f"begun after {begun - started:.2f} s, {whole:.2f} s in all"
    print(f"seed {seed}: {facts}, evaluations (at, seconds, step, return) {course[:6]}", file=sys.stderr, flush=True)
    if not solved:
        return float("inf"), float("inf"), whole
    first = solved[0]
    evaluating = sum(event["eval/seconds"] for event in events if event["time"] <= first["time"])
    return first["time"] - started, first["time"] - begun - evaluating, whole


def main() -> int:
    """Measure the chosen rows and print them."""
    rows = {"parts": part_rows, "command": command_rows}
    args = parser_for(__doc__, rows).parse_args()
    return report(measured(rows, args.only), "rookery starts on a GPU", args.json)


if __name__ == "__main__":
    sys.exit(main())
