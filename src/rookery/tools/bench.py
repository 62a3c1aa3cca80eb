"""`rookery bench`: rookery and other libraries on one world, in one run, with the same actions.

The speed of a machine drifts by more than the differences to be measured. So the contenders take turns in short slices,
and each ratio is the median over rounds of two slices that were measured within a second or two.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import Choice, choose, probe
from rookery.engine.contest import EnginePlan, RandomStepper, sample_actions, settle
from rookery.engine.env_factory import kernel_of, resolve_given
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import BACKENDS
from rookery.engine.settings import one_of, positive_int
from rookery.errors import MissingExtra, OptionError
from rookery.tools.bench_contenders import OK, BenchTask, Contender, peer_contenders, rookery_contenders
from rookery.tools.measurements import busy_line, machine_facts, positive_seconds, print_machine

SLICE_SECONDS = 0.4
MIN_ROUNDS = 3
WARM_UP = 0.1  # seconds


@dataclass(frozen=True, repr=False)
class BenchResult:
    """The rates of all contenders; the others are compared with the first one."""

    env: str
    num_envs: int
    seconds: float
    rounds: int
    auto: Choice
    workers: dict[str, int]
    contenders: list[Contender]
    machine: dict[str, Any]

    @property
    def base(self) -> Contender:
        return self.contenders[0]

    def ratio(self, contender: Contender) -> float:
        """How many times as fast the base is as `contender`."""
        pairs = zip(self.base.rates, contender.rates, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def is_auto(self, contender: Contender) -> bool:
        return contender.name == f"rookery {self.auto.backend}"

    def __repr__(self) -> str:
        return f"BenchResult({self.env}, {self.num_envs} envs: {', '.join(self._rates())})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return _as_json(self)

    def print(self) -> None:
        """Print it as a table."""
        _print(self)

    def _rates(self) -> list[str]:
        measured = [contender for contender in self.contenders if contender.status == OK]
        return [f"{one.name} {statistics.median(one.rates):,.0f} steps/s" for one in measured]


def bench(
    world: Any,
    num_envs: int = 8,
    against: tuple[str, ...] = ("gymnasium", "sb3", "envpool"),
    seconds: float = 3.0,
    backends: tuple[str, ...] | None = None,
    workers: int | None = None,
) -> BenchResult:
    """Compare the speed of rookery with that of other libraries: the same env and random actions, in turns.

    Args:
        world: A Gymnasium id, "my_env.py:MyEnv", a class or a function.
        num_envs: Envs of each library.
        against: The libraries to compare with; those that are not installed are omitted.
        seconds: How long each one is measured in total.
        backends: Those of rookery; if omitted, process and serial; for a kernel world, kernel comes before them.
        workers: Of rookery; if omitted, measured.
    """
    peers = peer_contenders(list(against))
    source = resolve_given(world)
    compiled = kernel_of(source) is not None
    if backends is None:
        backends = ("kernel", "process", "serial") if compiled else ("process", "serial")
    _check(num_envs, seconds, backends, workers)
    machine = machine_facts("stable-baselines3", "envpool")
    with meanwhile(f"measuring the cost of {source.name}"):
        cost = probe(source)
    workers_of = {b: 1 if b == "serial" else choose(cost, num_envs, workers, b).workers for b in backends}
    contenders = [*rookery_contenders(list(backends), workers_of), *peers]
    task = BenchTask(source, num_envs, cost)
    rounds = max(MIN_ROUNDS, round(seconds / SLICE_SECONDS))
    try:
        _run(contenders, task, rounds, seconds)
    except BaseException:
        for contender in contenders:
            contender.kill()
        raise
    for contender in contenders:
        contender.close()
    if compiled:
        auto = Choice("kernel", num_envs, usable_cores(), "backend='kernel': it is a kernel world, which is compiled")
    else:
        auto = _auto(task, contenders, workers_of, busy=busy_line(machine) is not None)
    return BenchResult(source.name, num_envs, seconds, rounds, auto, workers_of, contenders, machine)


def _auto(task: BenchTask, contenders: list[Contender], workers: dict[str, int], busy: bool) -> Choice:
    """What `auto` chooses from now on: the faster backend, if both were measured."""
    rates = {c.name.split()[1]: statistics.median(c.rates) for c in contenders if c.ours and c.status == OK}
    if not {"serial", "process"} <= rates.keys():
        return choose(task.probe, task.num_envs)
    plans = [EnginePlan(backend, task.num_envs, workers[backend]) for backend in ("serial", "process")]
    measured = [rates[plan.backend] for plan in plans]
    return settle(task.source, task.probe, plans, measured, busy, task.num_envs, None, 1)


def _check(num_envs: int, seconds: float, backends: tuple[str, ...], workers: int | None) -> None:
    positive_int("num_envs", num_envs)
    positive_seconds(seconds)
    for backend in backends or ("",):
        one_of("backend", backend, tuple(BACKENDS))
    if workers is not None:
        positive_int("workers", workers)


def _run(contenders: list[Contender], task: BenchTask, rounds: int, seconds: float) -> None:
    space = task.probe.description.action_space
    actions = sample_actions(space, task.num_envs)
    with printing.progress(len(contenders) * (rounds + 1)) as advance:
        # Contenders that fork come first, so that their children inherit nothing from the others.
        for contender in sorted(contenders, key=lambda s: not s.process_per_env):
            advance(f"starting {contender.name}")
            contender.open(task)
            if contender.status == OK:
                contender.stepping = RandomStepper(contender.envs.step, space, actions, contender.first)
            _slice(contender, task.num_envs, min(WARM_UP, seconds))
            contender.rates.clear()
        for k in range(rounds):
            for contender in contenders if k % 2 == 0 else contenders[::-1]:
                advance(contender.name)
                _slice(contender, task.num_envs, seconds / rounds)


def _slice(contender: Contender, num_envs: int, seconds: float) -> None:
    if contender.status != OK:
        return
    try:
        contender.rates.append(contender.stepping.rate(num_envs, seconds))
    except Exception as error:  # noqa: BLE001 - another library may raise anything
        contender.fail(error)


def _as_json(result: BenchResult) -> dict[str, Any]:
    """The result as one plain object."""
    return {
        "env": result.env,
        "num_envs": result.num_envs,
        "seconds": result.seconds,
        "rounds": result.rounds,
        "auto": {"backend": result.auto.backend, "workers": result.auto.workers, "reason": result.auto.reason},
        "base": result.base.name,
        "sides": [_contender_json(result, contender) for contender in result.contenders],
        "machine": result.machine,
    }


def _contender_json(result: BenchResult, contender: Contender) -> dict[str, Any]:
    row: dict[str, Any] = {"name": contender.name, "status": contender.status}
    if contender.ours:
        row |= {"workers": result.workers[contender.name.split()[1]], "auto": result.is_auto(contender)}
    if contender.status == OK:
        row |= {
            "steps_per_second": statistics.median(contender.rates),
            "lowest": min(contender.rates),
            "highest": max(contender.rates),
            "ratio": result.ratio(contender),
        }
    return row


def _print(result: BenchResult) -> None:
    """Print the result as a table."""
    title = f"{result.env}, {result.num_envs} envs, the same random actions, {result.rounds} rounds"
    table = printing.table(title, "", "steps/s>", "slowest - fastest>", f"{result.base.name} is>")
    for contender in result.contenders:
        if contender.status != OK:
            table.add_row(contender.name, Text(contender.status, style="dim"), "", "")
            continue
        spread = f"{printing.rate(min(contender.rates))} - {printing.rate(max(contender.rates))}"
        ratio = "" if contender is result.base else f"{printing.times(result.ratio(contender))} as fast"
        table.add_row(_label(result, contender), printing.rate(statistics.median(contender.rates)), spread, ratio)
    out = printing.console()
    printing.print_table(out, table)
    out.print()
    out.print(f"backend='auto' chooses {result.auto.backend}: {result.auto.reason.partition(': ')[2]}")
    print_machine(out, result.machine)


def _label(result: BenchResult, contender: Contender) -> Text:
    label = Text(contender.name, style="bold" if contender.ours else "")
    if contender.ours and (workers := result.workers[contender.name.split()[1]]) > 1:
        label.append(f", {workers} workers", style="not bold dim")
    if contender.ours and result.is_auto(contender):
        label.append("  (auto)", style="not bold green")
    return label


OURS, THEIRS = "#1b6ca8", "#b8bec4"


def check_plot_file(file: str) -> None:
    """Refuse before the measurement a file that could not be written after it."""
    pyplot = _pyplot()
    known = pyplot.figure().canvas.get_supported_filetypes()
    pyplot.close("all")
    kind = Path(file).suffix.lstrip(".").lower()
    if kind not in known:
        raise OptionError(f"plot should name a file ending in one of {', '.join(sorted(known))}, got {file!r}")
    if not Path(file).resolve().parent.is_dir():
        raise OptionError(f"plot: there is no folder {str(Path(file).resolve().parent)!r}")


def draw(result: BenchResult, file: str) -> None:
    """Draw the contenders that were measured, the fastest on top."""
    pyplot = _pyplot()
    contenders = sorted((s for s in result.contenders if s.status == OK), key=lambda s: statistics.median(s.rates))
    rates = [statistics.median(contender.rates) for contender in contenders]
    figure, axes = pyplot.subplots(figsize=(8, 1.1 + 0.42 * len(contenders)), layout="constrained")
    bars = axes.barh(
        [s.name for s in contenders], rates, color=[OURS if s.ours else THEIRS for s in contenders], height=0.7
    )
    labels = [
        printing.rate(rate)
        + ("" if contender is result.base else f"   ({printing.times(1 / result.ratio(contender))})")
        for contender, rate in zip(contenders, rates, strict=True)
    ]
    axes.bar_label(bars, labels, padding=5, fontsize=9)
    _style_axes(axes, max(rates))
    axes.set_title(f"{result.env}, {result.num_envs} envs: steps/s (over {result.base.name})", loc="left", fontsize=11)
    figure.savefig(file, dpi=150)
    pyplot.close(figure)


def _style_axes(axes: Any, longest: float) -> None:
    """Hide the axes: the bars have labels."""
    axes.set_xlim(0, 1.25 * longest)
    axes.xaxis.set_visible(False)
    axes.tick_params(axis="y", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a plot needs matplotlib, which is not installed: pip install 'rookery[plot]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
