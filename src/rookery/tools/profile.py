"""`rookery profile`: the functions that take the time, the speed with more workers, and what to change first, in at
most two sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import probe
from rookery.engine.contest import EnginePlan
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import EnvFactory, resolve_given
from rookery.engine.machine import usable_cores
from rookery.engine.settings import positive_int
from rookery.tools.function_profile import FunctionTime, StepProfile, profile_steps
from rookery.tools.measurements import Trial, machine_facts, measure_trials, print_machine, worker_counts

TRIAL_SECONDS = 0.6
ENVS_PER_WORKER = 4
ROWS = 12
LEAST_SHARE = 0.02


@dataclass(frozen=True, repr=False)
class ProfileResult:
    """Everything that was measured of a world."""

    env: str
    cost: Probe
    steps: StepProfile
    trials: list[Trial]
    advice: list[str]
    machine: dict[str, Any]

    def __repr__(self) -> str:
        return f"ProfileResult({self.env}: {' '.join(self.advice)})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return _as_json(self)

    def print(self) -> None:
        """Print it as a table."""
        _print(self)


def profile(world: Any, steps: int | None = None) -> ProfileResult:
    """Find which functions of an env take the time: profile one env for `steps` steps (if omitted, about two seconds),
    then measure the speed with more workers. `advice` says what to change first."""
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
    plans = [EnginePlan("serial", num_envs, 1), *(EnginePlan("process", num_envs, workers) for workers in counts)]
    return measure_trials(source, cost, plans, TRIAL_SECONDS)


def _as_json(result: ProfileResult) -> dict[str, Any]:
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


def _print(result: ProfileResult) -> None:
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


TINY_STEP = 30e-6  # below this, sending a step to another process costs about as much as the step
NO_GAIN = 1.05


def advise(profile: StepProfile, cost: Probe, trials: list[Trial]) -> list[str]:
    """First what to change in the code of the world, if anything stands out, then how to run it."""
    in_code = next(_about_code(profile, cost), None)
    running = _about_running(profile, cost, trials)
    return [sentence for sentence in (in_code, running) if sentence]


def _about_code(profile: StepProfile, cost: Probe) -> Iterator[str]:
    """What to change in the code, the surest gain first."""
    functions = profile.step_functions
    for name, least, what in _KNOWN_WASTE:
        share = _named(functions, name)
        if share >= least:
            yield f"{printing.percent(share)} of a step is spent in {name}(): {what}."
    if profile.reset_share >= 0.25:
        every = profile.steps / max(1, profile.resets)
        yield (
            f"Resets take {printing.percent(profile.reset_share)} of the time "
            f"({printing.duration(profile.reset_seconds)} each, one every {every:.0f} steps): "
            "build once, in __init__, what does not change between episodes."
        )
    if cost.cpu_share < 0.7:
        return  # better code does not shorten waiting
    wrappers = _wrappers_own(profile)
    if wrappers >= 0.3:
        percent = printing.percent(wrappers)
        yield f"{percent} of a step is spent in its wrappers: remove those that training does not need."
    yield from _hottest(functions)


def _hottest(functions: list[FunctionTime]) -> Iterator[str]:
    hottest = max(functions, key=lambda f: f.own_share, default=None)
    if hottest is None or hottest.own_share < 0.3:
        return
    share = printing.percent(hottest.own_share)
    if not hottest.where:
        yield f"{share} of a step is spent in {hottest.name}, which is compiled: call it less often, or with less data."
    else:
        yield f"{share} of a step is spent in {hottest.name} itself ({hottest.where}): start there."


def _about_running(profile: StepProfile, cost: Probe, trials: list[Trial]) -> str:
    step = printing.duration(profile.step_seconds)
    best = max(trials, key=lambda t: t.steps_per_second)
    serial = next(t for t in trials if t.backend == "serial")
    gain = best.steps_per_second / serial.steps_per_second
    gained = f"{best.workers} workers are {printing.times(gain)} as fast as the serial backend"
    if cost.cpu_share < 0.7:
        return f"{printing.percent(1 - cost.cpu_share)} of a step is waiting: use more workers than cores ({gained})."
    if profile.step_seconds < TINY_STEP:
        result = gained if gain > NO_GAIN else "workers do not speed it up"
        return f"A step takes only {step} ({result}): give each worker many envs."
    if gain < NO_GAIN:
        suspects = "other programs, or threads that the env starts"
        return f"A step takes {step}, but workers do not speed it up: check whether {suspects}, use the cores."
    return f"A step takes {step}, long enough for workers: {gained}."


def _named(functions: list[FunctionTime], name: str) -> float:
    """The share of the outermost function of this name (a wrapper's `render` includes the env's)."""
    return max((f.share for f in functions if _method_name(f) == name), default=0.0)


def _method_name(function: FunctionTime) -> str:
    return function.name.rpartition(".")[2]


def _wrappers_own(profile: StepProfile) -> float:
    """The share of the wrappers' own code."""
    return sum(f.own_share for f in profile.step_functions if f.name.partition(".")[0] in profile.wrappers[:-1])


_KNOWN_WASTE = (
    ("render", 0.1, "do not render while training"),
    ("deepcopy", 0.15, "copy only what changes, with array.copy()"),
    ("print", 0.05, "do not print while training"),
    ("contains", 0.3, "remove assertions about spaces once `rookery check` finds no problems"),
    ("loads", 0.2, "parse once and keep the result"),
    ("open", 0.1, "read files once, in __init__"),
)
