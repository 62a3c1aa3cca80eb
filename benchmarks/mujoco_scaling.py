"""What many threads gain with costly envs, and where the rest of their time goes.

A thread is either inside an env's step, or it waits: for its first env of a round, between two envs, for the last
thread of the round, or until the next round begins. So the gain over one thread is, exactly,

    threads x (what a step takes on one thread / what it takes on many) x (the share of the time inside steps)
"""

from __future__ import annotations

import heapq
import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import rookery
from engine_rows import Row, ratio_row
from measure import in_turns, stepper
from mujoco_limit import LoneThreads
from mujoco_rounds import MeetingThreads, RookeryRounds, Rounds
from rookery.kernel.batch_loop import ENVS_IN_PARTS

TASK, ENVS = "Humanoid", 64
CASES = (("HalfCheetah", 8, 2), ("Ant", 8, 2), ("Humanoid", 64, 16))  # tasks, envs and threads of `order_rows`
SECONDS = 0.5  # of a turn of one side
NOTES = (
    "Shares are of the time of all threads; in brackets, microseconds of a mean round. `over one` is the number of "
    "threads x (step on one thread / step) x `inside steps`. `best order`: the most that `inside steps` could be with "
    "a meeting after each round, if the cost of each step, or of its two parts, were known before it. Waits, "
    "preemptions and migrations are per thread and second; `stolen` is the share of the time in which the machine "
    "below gave a core to others."
)


class Shares(NamedTuple):
    """Of the time of all threads, in some rounds."""

    inside: float  # steps of envs
    before: float  # from the start of a round until a thread's first env
    gaps: float  # between its envs
    after: float  # from the end of its last env until the last thread is done
    between: float  # from the end of a round until the next begins
    best: float  # the most that `inside` could be if the costs of all envs were known before a round


def shares(rounds: Rounds) -> Shares:
    """Where the time went. The last round is omitted: nobody knows when the next would have begun."""
    starts, ends, first, last, busy, costs = (part[:-1] for part in rounds)
    threads = busy.shape[1]
    whole = float((rounds.starts[1:] - starts).sum()) * threads
    before, after = (first - starts[:, None]).sum(), (ends[:, None] - last).sum()
    between = threads * (rounds.starts[1:] - ends).sum()
    gaps = (last - first - busy).sum()
    best = _at_work(costs, costs, threads)
    return Shares(busy.sum() / whole, before / whole, gaps / whole, after / whole, between / whole, best)


def round_time(costs: np.ndarray, expected: np.ndarray, threads: int) -> float:
    """How long a round takes if threads take envs with these costs, those first that are expected to be costliest. With
    two rows, those of the first and of the last parts of steps, they only begin the steps of the last envs, and then
    take the last parts, in the order in which the first ones were done."""
    free, begun, order = [0.0] * threads, [], np.argsort(-expected.sum(0), kind="stable")
    whole = max(0, len(order) - ENVS_IN_PARTS * threads) if len(costs) == 2 else len(order)
    for env in order[:whole]:
        heapq.heapreplace(free, free[0] + costs[:, env].sum())
    for env in order[whole:]:
        begun.append((free[0] + costs[0, env], env))
        heapq.heapreplace(free, begun[-1][0])
    for done, env in sorted(begun):
        heapq.heapreplace(free, max(free[0], done) + costs[1, env])
    return max(free)


def _at_work(costs: np.ndarray, expected: np.ndarray, threads: int) -> float:
    """The share of the time in which threads are at work, over rounds."""
    whole = sum(round_time(now, before, threads) for now, before in zip(costs, expected, strict=True))
    return float(costs.sum() / threads / whole)


def order_rows(rounds: int, quick: bool) -> list[Row]:
    """What the end of each round costs, by the costs of recorded steps: the share of the time in which threads would be
    at work that take envs by the cost of their last step; beside it, if all costs were known. And the same if the last
    `mj_step` is apart, as in rookery, if it is not too short."""
    rows = []
    for task, envs, threads in CASES[: 1 if quick else None]:
        sides = (MeetingThreads(task, 1, envs, taking=False) for _ in range(3))  # each replays the same steps
        repeats = [side.measure(SECONDS * rounds, in_parts=True)[0].costs for side in sides]
        count = min(len(costs) for costs in repeats)
        parts = np.min([costs[:count] for costs in repeats], 0)[1:]  # other programs only make a step longer
        for way, costs in (("whole steps", parts.sum(1, keepdims=True)), ("in two parts", parts)):
            before = np.concatenate([costs[:1], costs[:-1]])
            by_last, known = (_at_work(costs, use, threads) for use in (before, costs))
            label = f"{task} n={envs}, {threads} threads by the cost of the last step, {way}, at work"
            rows.append(Row(f"{label} (known costs: {known:.1%})", "", "", 100 * by_last, 90, " %"))
    return rows


def scaling_rows(rounds: int, quick: bool) -> list[Row]:
    """64 humanoids on all cores over one thread, beside threads that only call `mj_step`: alone, with one humanoid each
    or with all 64; and with a meeting after each round, each with its own envs or by their cost. For 16 cores."""
    cores, envs, task = len(os.sched_getaffinity(0)), 8 if quick else ENVS, f"rookery/{TASK}-v5"
    one, many, uncopied = (
        rookery.make_vec(task, envs, backend="kernel", workers=workers, copy=copy)
        for workers, copy in ((1, True), (cores, True), (cores, False))
    )
    watchable = {
        "own envs, and a meeting after each round": MeetingThreads(TASK, cores, envs, taking=False),
        "envs by cost, and a meeting after each round": MeetingThreads(TASK, cores, envs, taking=True),
        "the same, with sched_yield while they wait": MeetingThreads(TASK, cores, envs, taking=True, yielding=True),
        "rookery": RookeryRounds(many),
        "rookery, each thread on a core of its own": RookeryRounds(many, pinned=True),
        "rookery, copy=False": RookeryRounds(uncopied),
    }
    lone = {
        f"lone {k}, {n}": LoneThreads(TASK, k, n) for k, n in ((1, 1), (1, envs), (cores, 1), (cores, envs // cores))
    }
    seen: dict[str, list[tuple[Rounds, np.ndarray]]] = {name: [] for name in watchable}

    def watch(name: str) -> float:
        seen[name].append(watchable[name].measure(SECONDS))
        return seen[name][-1][0].steps_per_second

    sides = {name: partial(side.measure, SECONDS) for name, side in lone.items()}
    sides |= {"one": stepper(one, envs, SECONDS), **{name: partial(watch, name) for name in watchable}}
    found = in_turns(sides, rounds)
    for vector_env in (one, many, uncopied):
        vector_env.close()
    apart = np.median(found[f"lone {cores}, 1"] / found["lone 1, 1"])
    limit = np.median(found[f"lone {cores}, {envs // cores}"] / found[f"lone 1, {envs}"])
    gained = f"threads that call mj_step alone: {apart:.1f}x with one env each, {limit:.1f}x with all {envs}"
    _explain(found, seen, cores, envs, gained)
    label = f"{TASK} n={envs}, {cores} threads over one ({gained})"
    return [ratio_row(label, found["rookery"], found["one"], min(12 / 16 * cores, 0.9 * limit))]


def _explain(found: dict[str, np.ndarray], seen: dict[str, Any], cores: int, envs: int, gained: str) -> None:
    table = Table(title=f"{envs} humanoids on {cores} threads. Without meetings: {gained}")
    columns = (
        "threads", "over one", "step, us (one thread)", "round, us: median, mean, 99 %", "inside steps",
        "before the first env", "between envs", "waiting for the last", "between rounds", "best order: inside",
        "waits, preemptions, migrations /s", "stolen",
    )  # fmt: skip
    for column in columns:
        table.add_column(column)
    for name, turns in seen.items():
        base = found["one"] if name.startswith("rookery") else found[f"lone 1, {envs}"]
        parts = np.mean([shares(rounds) for rounds, _ in turns], 0)
        took = np.mean([rounds.costs.sum(1).mean() for rounds, _ in turns]) / 1e3
        times = np.concatenate([np.diff(rounds.starts) for rounds, _ in turns]) / 1e3
        events = np.mean([events for _, events in turns], 0) / SECONDS / cores
        spread = ", ".join(f"{each:,.0f}" for each in (np.median(times), times.mean(), np.percentile(times, 99)))
        cells = [f"{np.median(found[name] / base):.2f}x", f"{took:.0f} ({1e6 / np.median(base):.0f})", spread]
        cells += [f"{share:.1%} ({share * times.mean():,.0f} us)" for share in parts[:5]]
        cells += [f"{parts[5]:.1%}", ", ".join(f"{number:,.0f}" for number in events[:3]), f"{events[3]:.1%}"]
        table.add_row(name, *cells)
    console = Console(width=200)
    console.print(table)
    console.print(f"{_machine()}. {NOTES}")


def _machine() -> str:
    """The processor, and what limits this process."""
    text = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), "CPU")
    quota = Path("/sys/fs/cgroup/cpu.max")
    limit = quota.read_text().strip() if quota.exists() else "none"
    siblings = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    shared = siblings.read_text().strip() if siblings.exists() else "?"
    load = os.getloadavg()[0]
    return f"{model}; CPU 0's hardware threads: {shared}; limit of the control group: {limit}; load {load:.1f}"
