"""Getting the most out of a small CPU: how many threads, which library for products, and memory that stays."""

from __future__ import annotations

import ctypes
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from rookery.user_dirs import cache_folder, read_own, write_own

ARM = ("aarch64", "arm64")
ONEDNN_PAYS = 2_000_000  # multiplications of a product, from which on oneDNN is faster than OpenBLAS
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEEP_BELOW = 1 << 30
ROUNDS = 7
ENOUGH_SECONDS = 30.0  # after which no further round is measured, of very large nets
MOST_THREADS = 4096
WORTH_A_THREAD = 0.7  # with another thread, work must take less than this share: beside other programs, threads that
# wait for one another cost far more (measured: 30x for batches of 256 rows) than they can win
WORTH_OWN_THREAD = 0.9  # the same for an accelerator's own threads, which take no more than they win


def keep_memory() -> None:
    """Have malloc keep the memory that tensors free. Otherwise each intermediate of over 128 KB is requested from the
    kernel again, page by page: 27 % of the time of an update with 2,048 rows of 64 features. No effect where malloc is
    not glibc's."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    mallopt(M_MMAP_THRESHOLD, KEEP_BELOW)
    mallopt(M_TRIM_THRESHOLD, KEEP_BELOW)


@contextmanager
def small_products(learner: Any) -> Iterator[None]:
    """On ARM, torch hands every product to oneDNN, whose call takes 50 us before it computes. While all products of a
    learner are small, OpenBLAS is used instead: 73 us for 256 x 64 by 64 x 64, not 110."""
    mkldnn: Any = torch.backends.mkldnn
    before = mkldnn.enabled
    shapes = [weight.shape for weight in learner.policy.parameters()]
    largest = learner.update_rows * max(shape.numel() for shape in shapes)
    if platform.machine() in ARM and largest < ONEDNN_PAYS and all(len(shape) <= 2 for shape in shapes):
        mkldnn.enabled = False
    try:
        yield
    finally:
        mkldnn.enabled = before


def threads_for(learner: Any, name: str, cores: int) -> int:
    """How many threads suit the nets of the learner of this name."""
    shapes = [list(weight.shape) for weight in learner.policy.parameters()]
    label = f"{name}, {learner.update_rows} rows, {shapes}"
    if learner.accelerator.use_threads(1):
        return choose_threads(learner.workload(), f"{label}, own threads", cores, learner.use_threads, WORTH_OWN_THREAD)
    return choose_threads(learner.workload(), label, cores)


def choose_threads(
    work: Callable[[], None],
    label: str,
    cores: int,
    use: Callable[[int], None] = torch.set_num_threads,
    worth: float = WORTH_A_THREAD,
) -> int:
    """How many threads do `work` best, after `use` of so many. Measured once for each label on a machine and
    remembered: torch's sums come out differently with another number of threads, and the same seed should give the
    same numbers tomorrow."""
    if cores == 1:
        return 1
    path = _known_file()
    key = f"{platform.node()} {platform.machine()} {cores} cores, torch {torch.__version__}: {label}"
    known = _read(path).get(key)
    if known is None:
        measured = _measure(work, cores, use, worth)
        _remember(path, key, measured)
        known = _read(path).get(key, measured)  # another process may have been first
    return known


def _known_file() -> Path | None:
    folder = cache_folder("threads")
    return None if folder is None else folder / "threads.json"


def _measure(work: Callable[[], None], cores: int, use: Callable[[int], None], worth: float) -> int:
    before = torch.get_num_threads()
    candidates = sorted({1, *(k for k in (2, 4, 8, 16, 32) if k <= cores)})
    best: dict[int, float] = {}
    begun = time.perf_counter()
    try:
        for turn in range(ROUNDS + 1):
            if best and time.perf_counter() - begun > ENOUGH_SECONDS:
                break
            for threads in candidates:
                use(threads)
                started = time.perf_counter()
                work()
                if turn:  # the first one warms up
                    best[threads] = min(best.get(threads, 1e9), time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    chosen = 1
    for threads in candidates[1:]:
        if best[threads] < worth * best[chosen]:
            chosen = threads
    return chosen


def _read(path: Path | None) -> dict[str, int]:
    try:
        known = json.loads(read_own(path)) if path else {}
        return {str(k): v for k, v in known.items() if isinstance(v, int) and 0 < v <= MOST_THREADS}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def _remember(path: Path | None, key: str, threads: int) -> None:
    """The first to write a key decides; without a place to write, each run measures again."""
    with suppress(OSError):
        if path is not None:
            write_own(path, json.dumps({key: threads} | _read(path)).encode())


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread meanwhile: with more, sums are rounded differently."""
    threads = torch.get_num_threads()
    if threads > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if threads > 1:
            torch.set_num_threads(threads)
