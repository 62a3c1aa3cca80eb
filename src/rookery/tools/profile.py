"""`rookery profile`: the functions that take the time, the speed with more workers, what to change first."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import Probe, probe
from rookery.engine.env_factory import EnvFactory, resolve_given
from rookery.engine.machine import usable_cores
from rookery.engine.settings import positive_int
from rookery.tools.advice import advise
from rookery.tools.function_profile import FunctionTime, StepProfile, profile_steps
from rookery.tools.machine_facts import machine_facts, print_machine
from rookery.tools.throughput import Trial, measure_trial, worker_counts

TRIAL_SECONDS = 0.6
ENVS_PER_WORKER = 4
ROWS = 12
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class ProfileResult:
    """Everything that was measured of a world."""

    env: str
    cost: Probe
    steps: StepProfile
    trials: list[Trial]
    advice: list[str]
    machine: dict[str, Any]


def profile(world: Any, steps: int | None = None) -> ProfileResult:
    """Profile one env for `steps` steps (by default about two seconds), then run many."""
    if steps is not None:
        positive_int("steps", steps)
    source, machine = resolve_given(world), machine_facts()
    with meanwhile(f"measuring the cost of {source.name}"):
        cost = probe(source)
    with meanwhile(f"profiling the steps of {source.name}"):
        found = profile_steps(source, steps)
    trials = _scaling(source, cost)
    return ProfileResult(source.name, cost, found, trials, advise(found, cost, trials), machine)


def _scaling(source: EnvFactory, cost: Probe) -> list[Trial]:
    """The same number of envs with more and more workers."""
    counts = worker_counts(cost)
    num_envs = max(8, ENVS_PER_WORKER * usable_cores(), counts[-1])
    plans = [("serial", 1), *(("process", workers) for workers in counts)]
    trials = []
    with printing.progress(len(plans)) as advance:
        for backend, workers in plans:
            advance(f"{backend}, {workers} workers" if backend == "process" else backend)
            trials.append(measure_trial(source, cost, backend, num_envs, workers, TRIAL_SECONDS))
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
    """Print the result."""
    out, steps, cost = printing.console(), result.steps, result.cost
    out.print(f"{result.env}: {' > '.join(steps.wrappers)}", style="bold")
    waiting = f", {printing.percent(1 - cost.cpu_share)} of it waiting" if cost.cpu_share < 0.95 else ""
    out.print(f"  a step takes {printing.duration(steps.step_seconds)}{waiting}")
    share = printing.percent(steps.reset_share)
    out.print(f"  a reset takes {printing.duration(steps.reset_seconds)}; resets are {share} of the time")
    out.print(f"  an env takes {printing.memory(cost.memory)} and {printing.duration(cost.build_seconds)} to build")
    out.print(f"  a worker process with one env takes {printing.memory(cost.process_memory)}\n")
    _print_functions(out, "Time of a step", steps.step_functions, steps.step_seconds)
    if steps.reset_share >= 0.05:
        out.print()
        _print_functions(out, "Time of a reset", steps.reset_functions, steps.reset_seconds)
    out.print("  The profiler measured the shares; it overestimates short calls.\n", style="dim")
    _print_scaling(out, result.trials)
    out.print("\nWhat to change first", style="bold")
    for sentence in result.advice:
        out.print(Padding(Text(sentence), (0, 0, 0, 2)))
    print_machine(out, result.machine)


def _print_functions(out: Console, title: str, functions: list[FunctionTime], seconds: float) -> None:
    table = printing.table(title, "  function", "where", "calls>", "total>", "own>", "own time>")
    shown = [f for f in functions if f.share >= LEAST_SHARE and (f.where or f.own_share >= LEAST_SHARE)][:ROWS]
    for f in shown:
        own = printing.duration(f.own_share * seconds)
        cells = [
            f"  {f.name}",
            f.where,
            printing.count(f.calls),
            printing.percent(f.share),
            printing.percent(f.own_share),
            own,
        ]
        table.add_row(*cells, style="" if f.library else "bold")
    out.print(table)


def _print_scaling(out: Console, trials: list[Trial]) -> None:
    table = printing.table(f"Scaling, {trials[0].num_envs} envs", "  ", "steps/s>", "over serial>", "memory>")
    for trial in trials:
        name = "  serial" if trial.backend == "serial" else f"  {trial.workers} worker{'s' * (trial.workers > 1)}"
        over = printing.times(trial.steps_per_second / trials[0].steps_per_second)
        table.add_row(name, printing.rate(trial.steps_per_second), over, printing.memory(trial.memory))
    printing.print_table(out, table)
