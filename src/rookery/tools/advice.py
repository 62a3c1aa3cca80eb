"""What to change first about a world, from where its time goes: at most two plain sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rookery import printing
from rookery.engine.probe import Probe
from rookery.tools.function_profile import Function, StepProfile
from rookery.tools.throughput import Trial

TINY_STEP = 30e-6  # below this, handing a step to another process costs about as much as the step
NO_GAIN = 1.05


def advise(profile: StepProfile, cost: Probe, trials: list[Trial]) -> list[str]:
    """First what to change in the world's code, if one thing stands out, then how to run it."""
    in_code = next(_about_code(profile, cost), None)
    running = _about_running(profile, cost, trials)
    return [sentence for sentence in (in_code, running) if sentence]


def _about_code(profile: StepProfile, cost: Probe) -> Iterator[str]:
    """Reasons to touch the code, the surest gain first."""
    functions = profile.step_functions
    for name, least, what in _KNOWN_WASTE:
        share = _named(functions, name)
        if share >= least:
            yield f"{printing.percent(share)} of a step is in {name}(): {what}."
    if profile.reset_share >= 0.25:
        every = profile.steps / max(1, profile.resets)
        yield (
            f"Resets take {printing.percent(profile.reset_share)} of the time "
            f"({printing.duration(profile.reset_seconds)} each, one every {every:.0f} steps): "
            "build once, in __init__, what does not change between episodes."
        )
    if cost.cpu_share < 0.7:
        return  # what waits does not get faster by better code
    wrappers = _wrappers_own(profile)
    if wrappers >= 0.3:
        yield f"{printing.percent(wrappers)} of a step is in its wrappers: drop those that training does not need."
    yield from _hottest(functions)


def _hottest(functions: list[Function]) -> Iterator[str]:
    hottest = max(functions, key=lambda f: f.own_share, default=None)
    if hottest is None or hottest.own_share < 0.3:
        return
    share = printing.percent(hottest.own_share)
    if not hottest.where:
        yield f"{share} of a step is in {hottest.name}, which is compiled: ask it to do less, or less often."
    else:
        yield f"{share} of a step is in the lines of {hottest.name} ({hottest.where}) themselves: start there."


def _about_running(profile: StepProfile, cost: Probe, trials: list[Trial]) -> str:
    step = printing.duration(profile.step_seconds)
    best = max(trials, key=lambda t: t.steps_per_second)
    serial = next(t for t in trials if t.backend == "serial")
    gain = best.steps_per_second / serial.steps_per_second
    gained = f"{best.workers} workers are {printing.times(gain)} as fast as the serial loop here"
    if cost.cpu_share < 0.7:
        return f"{printing.percent(1 - cost.cpu_share)} of a step is waiting: use more workers than cores ({gained})."
    if profile.step_seconds < TINY_STEP:
        verdict = gained if gain > NO_GAIN else "workers gain nothing here"
        return f"A step takes {step}, little to share out ({verdict}): give each worker many envs."
    if gain < NO_GAIN:
        suspects = "other programs, or threads that the env itself starts"
        return f"A step takes {step}, yet workers gain nothing here: see whether {suspects}, keep the cores busy."
    return f"A step takes {step}, enough to share out: {gained}."


def _named(functions: list[Function], name: str) -> float:
    """The share of the outermost function of this name (a wrapper's `render` contains the env's)."""
    return max((f.share for f in functions if _last_word(f) == name), default=0.0)


def _last_word(function: Function) -> str:
    return function.name.rpartition(".")[2]


def _wrappers_own(profile: StepProfile) -> float:
    """What the wrappers themselves take, apart from what they wrap."""
    return sum(f.own_share for f in profile.step_functions if f.name.partition(".")[0] in profile.wrappers[:-1])


_KNOWN_WASTE = (
    ("render", 0.1, "do not render while training"),
    ("deepcopy", 0.15, "copy only what changes, with array.copy()"),
    ("print", 0.05, "do not print while training"),
    ("contains", 0.3, "asserts on spaces can go once `rookery check` is content"),
    ("loads", 0.2, "parse once and keep the result"),
    ("open", 0.1, "read files once, in __init__"),
)
