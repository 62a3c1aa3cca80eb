"""Searches on a GPU whose memory is mostly taken: how many trials fail that need not.

    python benchmarks/search_memory.py [--free 8 16 140] [--trials 200] [--steps 4_000] [--json FILE]

Another process holds the GPU's memory but for so many GiB; 140 leaves all of an H200's. A third of the trials is
searched with each. They are those of the crypto search, with nets of up to four layers of 4,096 units, rollouts and
batches drawn at random. Device, workers and how many runs train side by side are chosen by the search. Exits with 1 if
a trial fails.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch

import rookery
from engine_rows import Row
from report import measured, parser_for, report

GIB = 1 << 30
UNITS, MOST_LAYERS, NETS = [32, 64, 128, 256, 512, 1024, 2048, 4096], 4, 24
SPACE: dict[str, Any] = {
    "ppo.rollout_length": {"choice": [16, 32, 64, 128]},
    "ppo.minibatches": {"choice": [1, 2, 4, 8]},
    "ppo.epochs": {"choice": [1, 2, 4]},
    "ppo.learning_rate": {"log": [1e-4, 1e-3]},
}


def nets(seed: int) -> list[list[int]]:
    """Hidden layers of any sizes, and the widest ones there may be."""
    rng, widest = np.random.default_rng(seed), (UNITS[-1],) * MOST_LAYERS
    drawn = {tuple(rng.choice(UNITS, rng.integers(1, MOST_LAYERS + 1)).tolist()) for _ in range(NETS)}
    return [list(net) for net in sorted(drawn | {widest})]


def hold(size: int, ready: Any, over: Any) -> None:
    """Takes so many bytes of the GPU until it is over."""
    kept = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(size // GIB)]
    ready.set()
    over.wait()
    del kept


@contextlib.contextmanager
def with_free(gib: int) -> Iterator[int]:
    """A GPU with so much free memory, or with all that it has if that is less; yields the bytes."""
    context = get_context("spawn")
    ready, over = context.Event(), context.Event()
    taken = max(0, torch.cuda.mem_get_info()[0] - gib * GIB) if torch.cuda.is_available() else 0
    holder = context.Process(target=hold, args=(taken, ready, over), daemon=True)
    if taken:
        holder.start()
        ready.wait()
    try:
        yield torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else 0
    finally:
        over.set()
        if taken:
            holder.join()


def row(gib: int, trials: int, steps: int) -> list[Row]:
    """A search with so much memory."""
    space = {**SPACE, "ppo.hidden": {"choice": nets(gib)}}
    with with_free(gib) as free, tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        result = rookery.search(
            "crypto", learner="ppo", n_trials=trials, studies_dir=folder, steps=steps, num_envs=12, sampler="random",
            space=space, search={"verify": 0},
        )  # fmt: skip
        seconds = time.perf_counter() - started
    ended = f"{result.finished} of {trials} trials finished in {seconds:.0f} s"
    lost = trials - result.finished
    return [Row(f"{free / GIB:.1f} GiB free, {ended}: failed trials", "", "", lost, 0, "", most=True)]


def main() -> int:
    """One search for each size of memory."""
    parser = parser_for(__doc__, [])
    parser.add_argument("--free", type=int, nargs="+", default=[8, 16, 140], help="GiB (default: 8 16 140)")
    parser.add_argument("--trials", type=int, default=200, help="of all searches together (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4_000, help="of each fold (default: %(default)s)")
    args = parser.parse_args()
    each = -(-args.trials // len(args.free))
    rows = {f"{gib} GiB": partial(row, gib, each, args.steps) for gib in args.free}
    return report(measured(rows, None, args.json), "searches in little memory", args.json)


if __name__ == "__main__":
    sys.exit(main())
