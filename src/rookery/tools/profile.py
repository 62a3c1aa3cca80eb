"""`rookery profile`: the functions that take the time, the speed with more workers, and what to change first, in at
most two sentences."""

from __future__ import annotations

import cProfile
import math
import re
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import has_masks, legal, probe
from rookery.engine.contest import EnginePlan
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import EnvFactory, resolve_given
from rookery.engine.machine import usable_cores
from rookery.engine.settings import positive_int
from rookery.engine.snapshot import wrapper_chain
from rookery.tools.measurements import Trial, machine_facts, measure_trials, print_machine, worker_counts

# The time of each function in the steps and resets of one env.

MOST_SECONDS = 2.0  # for each of the two passes, if the number of steps is not given
DEFAULT_STEPS = 2000


@dataclass(frozen=True)
class FunctionTime:
    """One function's share of the time of all steps (or all resets)."""

    name: str
    where: str  # file:line, or "" for compiled code
    calls: float  # per step
    share: float  # including the functions that it calls
    own_share: float
    library: bool  # not the user's own code


@dataclass(frozen=True)
class StepProfile:
    """Times come from a pass without the profiler, shares from a pass with it."""

    steps: int
    resets: int
    step_seconds: float  # one step
    reset_seconds: float  # one reset
    step_functions: list[FunctionTime]
    reset_functions: list[FunctionTime]
    wrappers: list[str]  # outermost first, then the env

    @property
    def reset_share(self) -> float:
        """Share of resets in the time of steps and resets."""
        resets = self.resets * self.reset_seconds
        return resets / (resets + self.steps * self.step_seconds)


class _Timer:
    """Adds up the time of calls."""

    def __init__(self) -> None:
        self.calls, self.seconds = 0, 0.0

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - start
            self.calls += 1


class _Profiler:
    """Profiles calls, and nothing between them."""

    def __init__(self) -> None:
        self.profile, self.calls = cProfile.Profile(), 0

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.profile.runcall(function, *args, **kwargs)

    def functions(self) -> list[FunctionTime]:
        return _as_shares(self.profile.getstats(), self.calls)


def profile_steps(source: EnvFactory, steps: int | None = None) -> StepProfile:
    """Step one env with random actions, resetting at ends: once with a timer, once with the profiler."""
    env = source.make(0)
    try:
        env.action_space.seed(0)
        step, reset = _Timer(), _Timer()
        _step_env(env, step, reset, steps)
        profiled_step, profiled_reset = _Profiler(), _Profiler()
        _step_env(env, profiled_step, profiled_reset, min(step.calls, steps or DEFAULT_STEPS))
        # The first reset starts an episode that may not end: it counts for the duration, not for the number.
        return StepProfile(
            steps=step.calls,
            resets=reset.calls - 1,
            step_seconds=step.seconds / step.calls,
            reset_seconds=reset.seconds / reset.calls,
            step_functions=profiled_step.functions(),
            reset_functions=profiled_reset.functions(),
            wrappers=[type(layer).__name__ for layer in wrapper_chain(env)],
        )
    finally:
        env.close()


def _step_env(env: gym.Env, step: Any, reset: Any, steps: int | None) -> None:
    actions = [env.action_space.sample() for _ in range(64)]
    deadline = math.inf if steps else time.perf_counter() + MOST_SECONDS
    last = reset(env.reset, seed=0, options=None)
    masked = has_masks(env.action_space, last)
    for k in range(steps or DEFAULT_STEPS):
        action = actions[k % len(actions)]
        last = step(env.step, legal(env.action_space, action, last) if masked else action)
        _, _, terminated, truncated, _ = last
        if time.perf_counter() > deadline:
            return
        if terminated or truncated:
            last = reset(env.reset, seed=None, options=None)


def _as_shares(entries: Iterable[Any], calls: int) -> list[FunctionTime]:
    """The profiler's entries as shares, the largest first."""
    kept = [entry for entry in entries if "_lsprof.Profiler" not in str(entry.code)]
    total = sum(entry.inlinetime for entry in kept) or 1.0
    found = [_function(entry, total, calls) for entry in kept]
    return sorted(found, key=lambda f: (-f.share, -f.own_share))


def _function(entry: Any, total: float, calls: int) -> FunctionTime:
    share, own = min(1.0, entry.totaltime / total), entry.inlinetime / total
    count = entry.callcount / max(1, calls)
    if isinstance(entry.code, str):  # compiled
        return FunctionTime(_compiled_name(entry.code), "", count, share, own, library=True)
    code = entry.code
    path = Path(code.co_filename)
    return FunctionTime(
        code.co_qualname, f"{_short(path)}:{code.co_firstlineno}", count, share, own, library=_is_library(path)
    )


def _compiled_name(text: str) -> str:
    """
    >>> _compiled_name("<built-in method numpy.array>"), _compiled_name("<method 'clip' of 'numpy.ndarray' objects>")
    ('numpy.array', 'numpy.ndarray.clip')
    """
    method = re.match(r"<method '(.+)' of '(.+)' objects>", text)
    return (
        f"{method[2]}.{method[1]}" if method else text.strip("<>").removeprefix("built-in method ").split(" at 0x")[0]
    )


def _short(path: Path) -> str:
    """A short form of a path."""
    for root in _library_roots():
        if path.is_relative_to(root):
            parts = path.relative_to(root).parts
            return "/".join(parts if len(parts) < 3 else (parts[0], "..", parts[-1]))
    return path.name


def _is_library(path: Path) -> bool:
    return str(path).startswith("<frozen") or any(path.is_relative_to(root) for root in _library_roots())


def _library_roots() -> list[str]:
    """Innermost first: site-packages is inside the folder of the standard library."""
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return sorted((path for path in paths if path), key=len, reverse=True)


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
    return max((f.share for f in functions if f.name.rpartition(".")[2] == name), default=0.0)


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
