"""`rookery profile`: where a step's time goes, how it scales with workers, what to change first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rookery.engine.machine import usable_cores
from rookery.engine.probe import Probe, probe
from rookery.engine.settings import positive_int
from rookery.engine.source import Source, resolve
from rookery.say import meanwhile
from rookery.tools import show
from rookery.tools.advice import advise
from rookery.tools.facts import machine_facts
from rookery.tools.functions import Function, StepProfile, profile_steps
from rookery.tools.measure import Trial, try_out, worker_counts

TRIAL_SECONDS = 0.6
ENVS_PER_WORKER = 4
ROWS = 12
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class ProfileResult:
    """A world's cost in every respect that can be measured from outside."""

    env: str
    cost: Probe
    steps: StepProfile
    trials: list[Trial]
    advice: list[str]
    machine: dict[str, Any]


def profile(world: str, steps: int | None = None) -> ProfileResult:
    """Profile one env for `steps` steps (by default about two seconds), then run many."""
    if steps is not None:
        positive_int("steps", steps)
    source, machine = resolve(world), machine_facts()
    with meanwhile(f"measuring what {source.name} costs"):
        cost = probe(source)
    with meanwhile(f"profiling the steps of {source.name}"):
        found = profile_steps(source, steps)
    trials = _scaling(source, cost)
    return ProfileResult(source.name, cost, found, trials, advise(found, cost, trials), machine)


def _scaling(source: Source, cost: Probe) -> list[Trial]:
    """The same number of envs on more and more workers."""
    counts = worker_counts(cost)
    num_envs = max(8, ENVS_PER_WORKER * usable_cores(), counts[-1])
    plans = [("serial", 1), *(("process", workers) for workers in counts)]
    trials = []
    with show.progress(len(plans)) as advance:
        for backend, workers in plans:
            advance(f"{backend}, {workers} workers" if backend == "process" else backend)
            trials.append(try_out(source, cost, backend, num_envs, workers, TRIAL_SECONDS))
    return trials


def as_json(result: ProfileResult) -> dict[str, Any]:
    """The result as one plain object."""
    cost, steps = result.cost, result.steps
    return {
        "env": result.env,
        "wrappers": steps.wrappers[:-1],
        "steps": steps.steps,
        "step_seconds": steps.step_seconds,
        "cpu_share": cost.cpu_share,
        "reset_seconds": steps.reset_seconds,
        "reset_share": steps.reset_share,
        "build_seconds": cost.build_seconds,
        "memory_per_env": cost.memory,
        "memory_per_worker": cost.process_memory,
        "step_functions": [asdict(function) for function in steps.step_functions],
        "reset_functions": [asdict(function) for function in steps.reset_functions],
        "scaling": [asdict(trial) for trial in result.trials],
        "advice": result.advice,
        "machine": result.machine,
    }


def print_report(result: ProfileResult) -> None:
    """The result for people."""
    out, steps, cost = show.console(), result.steps, result.cost
    out.print(f"{result.env}: {' > '.join(steps.wrappers)}", style="bold")
    waiting = f", {show.percent(1 - cost.cpu_share)} of it waiting" if cost.cpu_share < 0.95 else ""
    out.print(f"  a step takes {show.duration(steps.step_seconds)}{waiting}")
    share = show.percent(steps.reset_share)
    out.print(f"  a reset takes {show.duration(steps.reset_seconds)}; resets are {share} of the time")
    out.print(f"  an env takes {show.memory(cost.memory)} and {show.duration(cost.build_seconds)} to build")
    out.print(f"  a worker process with one env takes {show.memory(cost.process_memory)}\n")
    _print_functions(out, "Where a step's time goes", steps.step_functions, steps.step_seconds)
    if steps.reset_share >= 0.05:
        out.print()
        _print_functions(out, "Where a reset's time goes", steps.reset_functions, steps.reset_seconds)
    out.print("  Shares are the profiler's, which makes short calls look heavier than they are.\n", style="dim")
    _print_scaling(out, result.trials)
    out.print("\nWhat to change first", style="bold")
    for sentence in result.advice:
        out.print(Padding(Text(sentence), (0, 0, 0, 2)))
    show.print_machine(out, result.machine)


def _print_functions(out: Console, title: str, functions: list[Function], seconds: float) -> None:
    table = show.table(title, "  function", "where", "calls>", "total>", "own>", "own time>")
    shown = [f for f in functions if f.share >= LEAST_SHARE and (f.where or f.own_share >= LEAST_SHARE)][:ROWS]
    for f in shown:
        own = show.duration(f.own_share * seconds)
        cells = [f"  {f.name}", f.where, show.count(f.calls), show.percent(f.share), show.percent(f.own_share), own]
        table.add_row(*cells, style="" if f.library else "bold")
    out.print(table)


def _print_scaling(out: Console, trials: list[Trial]) -> None:
    table = show.table(f"How it scales, {trials[0].num_envs} envs", "  ", "steps/s>", "over serial>", "memory>")
    for trial in trials:
        name = "  serial" if trial.backend == "serial" else f"  {trial.workers} worker{'s' * (trial.workers > 1)}"
        over = show.times(trial.steps_per_second / trials[0].steps_per_second)
        table.add_row(name, show.rate(trial.steps_per_second), over, show.memory(trial.memory))
    show.print_table(out, table)
