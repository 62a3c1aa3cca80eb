"""`rookery bench`: rookery and its peers on one world, in one run, with the same actions.

A machine's speed drifts by more than many a difference worth knowing, so the sides take turns in short slices, and
each ratio is the median over rounds of two slices measured within a second or two of each other.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import Choice, choose
from rookery.engine.env_factory import kernel_of, resolve
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import BACKENDS
from rookery.engine.probe import probe
from rookery.engine.settings import one_of, positive_int
from rookery.tools.bench_sides import OK, Side, Task, peer_sides, rookery_sides
from rookery.tools.machine_facts import machine_facts, print_machine
from rookery.tools.throughput import SLICE_SECONDS, Stepping, draw_actions, positive_seconds

MIN_ROUNDS = 3
WARM_UP = 0.1  # seconds


@dataclass(frozen=True)
class BenchResult:
    """Every side's figures; the first side is the one that the others are compared with."""

    env: str
    num_envs: int
    seconds: float
    rounds: int
    auto: Choice
    workers: dict[str, int]
    sides: list[Side]
    machine: dict[str, Any]

    @property
    def base(self) -> Side:
        return self.sides[0]

    def ratio(self, side: Side) -> float:
        """How many times as fast the base is as `side`."""
        pairs = zip(self.base.rates, side.rates, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def is_auto(self, side: Side) -> bool:
        return side.name == f"rookery {self.auto.backend}"


def bench(
    world: Any,
    num_envs: int = 8,
    against: tuple[str, ...] = ("gymnasium", "sb3", "envpool"),
    seconds: float = 3.0,
    backends: tuple[str, ...] | None = None,
    workers: int | None = None,
) -> BenchResult:
    """Measure every side for `seconds` in all. Without `backends`: processes and the serial loop, and for a kernel
    world its own before them."""
    peers = peer_sides(list(against))
    source = resolve(world)
    compiled = kernel_of(source) is not None
    if backends is None:
        backends = ("kernel", "process", "serial") if compiled else ("process", "serial")
    _check(num_envs, seconds, backends, workers)
    machine = machine_facts("stable-baselines3", "envpool")
    with meanwhile(f"measuring what {source.name} costs"):
        cost = probe(source)
    staff = {b: 1 if b == "serial" else choose(cost, num_envs, workers, b).workers for b in backends}
    sides = [*rookery_sides(list(backends), staff), *peers]
    task = Task(source, num_envs, cost)
    rounds = max(MIN_ROUNDS, round(seconds / SLICE_SECONDS))
    try:
        _run(sides, task, rounds, seconds)
    except BaseException:
        for side in sides:
            side.kill()
        raise
    for side in sides:
        side.close()
    auto = choose(cost, num_envs)
    if compiled:
        auto = Choice("kernel", num_envs, usable_cores(), "backend='kernel': it is a kernel world, compiled")
    return BenchResult(source.name, num_envs, seconds, rounds, auto, staff, sides, machine)


def _check(num_envs: int, seconds: float, backends: tuple[str, ...], workers: int | None) -> None:
    positive_int("num_envs", num_envs)
    positive_seconds(seconds)
    for backend in backends or ("",):
        one_of("backend", backend, tuple(BACKENDS))
    if workers is not None:
        positive_int("workers", workers)


def _run(sides: list[Side], task: Task, rounds: int, seconds: float) -> None:
    space = task.probe.description.action_space
    actions = draw_actions(space, task.num_envs)
    with printing.progress(len(sides) * (rounds + 1)) as advance:
        # Sides that fork come first, so that their children inherit nothing of the others'.
        for side in sorted(sides, key=lambda s: not s.process_per_env):
            advance(f"starting {side.name}")
            side.open(task)
            if side.status == OK:
                side.stepping = Stepping(side.envs.step, space, actions, side.first)
            _slice(side, task.num_envs, min(WARM_UP, seconds))
            side.rates.clear()
        for k in range(rounds):
            for side in sides if k % 2 == 0 else sides[::-1]:
                advance(side.name)
                _slice(side, task.num_envs, seconds / rounds)


def _slice(side: Side, num_envs: int, seconds: float) -> None:
    if side.status != OK:
        return
    try:
        side.rates.append(side.stepping.rate(num_envs, seconds))
    except Exception as error:  # noqa: BLE001 - a peer may fail in any way of its own
        side.fail(error)


def as_json(result: BenchResult) -> dict[str, Any]:
    """The result as one plain object."""
    return {
        "env": result.env,
        "num_envs": result.num_envs,
        "seconds": result.seconds,
        "rounds": result.rounds,
        "auto": {"backend": result.auto.backend, "workers": result.auto.workers, "reason": result.auto.reason},
        "base": result.base.name,
        "sides": [_side_json(result, side) for side in result.sides],
        "machine": result.machine,
    }


def _side_json(result: BenchResult, side: Side) -> dict[str, Any]:
    row: dict[str, Any] = {"name": side.name, "status": side.status}
    if side.ours:
        row |= {"workers": result.workers[side.name.split()[1]], "auto": result.is_auto(side)}
    if side.status == OK:
        row |= {
            "steps_per_second": statistics.median(side.rates),
            "lowest": min(side.rates),
            "highest": max(side.rates),
            "ratio": result.ratio(side),
        }
    return row


def print_table(result: BenchResult) -> None:
    """The result for people."""
    title = f"{result.env}, {result.num_envs} envs, the same random actions for all, {result.rounds} rounds"
    table = printing.table(title, "", "steps/s>", "slowest - fastest>", f"{result.base.name} is>")
    for side in result.sides:
        if side.status != OK:
            table.add_row(side.name, Text(side.status, style="dim"), "", "")
            continue
        spread = f"{printing.rate(min(side.rates))} - {printing.rate(max(side.rates))}"
        ratio = "" if side is result.base else f"{printing.times(result.ratio(side))} as fast"
        table.add_row(_label(result, side), printing.rate(statistics.median(side.rates)), spread, ratio)
    out = printing.console()
    printing.print_table(out, table)
    out.print()
    out.print(f"backend='auto' takes {result.auto.backend}: {result.auto.reason.partition(': ')[2]}")
    print_machine(out, result.machine)


def _label(result: BenchResult, side: Side) -> Text:
    label = Text(side.name, style="bold" if side.ours else "")
    if side.ours and (workers := result.workers[side.name.split()[1]]) > 1:
        label.append(f", {workers} workers", style="not bold dim")
    if side.ours and result.is_auto(side):
        label.append("  (auto)", style="not bold green")
    return label
