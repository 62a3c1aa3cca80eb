"""What to change first in a world, from the profile of its steps: at most two sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rookery import printing
from rookery.engine.autotune import Probe
from rookery.tools.function_profile import FunctionTime, StepProfile
from rookery.tools.throughput import Trial

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
