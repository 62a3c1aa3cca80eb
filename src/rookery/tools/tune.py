"""`rookery tune`: measure several numbers of envs and workers, and recommend one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import Choice, choose, probe
from rookery.engine.contest import EnginePlan, fastest, settle
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import kernel_of, resolve_given
from rookery.engine.machine import available_memory, usable_cores
from rookery.foreign_names import explains_keywords
from rookery.tools.measurements import (
    Trial,
    busy_line,
    machine_facts,
    measure_trials,
    positive_seconds,
    print_machine,
    worker_counts,
)

SERIAL_ENVS = (1, 8, 32)
ENVS_PER_WORKER = (1, 2, 8, 32)
KERNEL_ENVS = (64, 1024, 4096)
MOST_BUILD_SECONDS = 10.0


@dataclass(frozen=True, repr=False)
class TuneResult:
    """All trials, and the recommended one, which is what `auto` chooses from now on."""

    env: str
    world: str
    seconds: float
    cost: Probe
    trials: list[Trial]
    machine: dict[str, Any]
    env_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Trial:
        """Of the trials within 2 % of the fastest, the one with the fewest envs, then workers."""
        plans = [trial.plan for trial in self.trials]
        return self.trials[plans.index(fastest(plans, [trial.steps_per_second for trial in self.trials]))]

    @property
    def code(self) -> str:
        """The call to copy."""
        best = self.best
        workers = f", workers={best.workers}" if best.backend != "serial" else ""
        given = f", env_kwargs={self.env_kwargs!r}" if self.env_kwargs else ""
        return f'rookery.make_vec("{self.world}", num_envs={best.num_envs}, backend="{best.backend}"{workers}{given})'

    def __repr__(self) -> str:
        return f"TuneResult({self.code}: {self.best.steps_per_second:,.0f} steps/s)"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return _as_json(self)

    def print(self) -> None:
        """Print it as a table."""
        _print(self)


@explains_keywords({}, "it measures numbers of envs; rookery.search(env) searches for settings")
def tune(world: str, seconds: float = 1.0, env_kwargs: dict[str, Any] | None = None) -> TuneResult:
    """Measure serial and worker processes with several numbers of envs, in turns; `make_vec` with neither `num_envs`
    nor `backend` then takes the fastest.

    Args:
        world: A Gymnasium id, or "my_env.py:MyEnv".
        seconds: How long each combination is measured.
        env_kwargs: Keyword arguments for the env.
    """
    positive_seconds(seconds)
    source, machine = resolve_given(world, kwargs=env_kwargs), machine_facts()
    with meanwhile(f"measuring the cost of {source.name}"):
        cost = probe(source)
    plans = candidates(cost, choose(cost), seconds, kernel_of(source) is not None)
    trials = measure_trials(source, cost, plans, seconds)
    settle(source, cost, plans, [t.steps_per_second for t in trials], busy_line(machine) is not None, None, None, 1)
    return TuneResult(source.name, world, seconds, cost, trials, machine, env_kwargs or {})


def candidates(cost: Probe, expected: Choice, seconds: float, is_kernel: bool = False) -> list[EnginePlan]:
    """What to try: what fits into memory, starts in seconds and makes enough steps; what is expected to be fastest, in
    any case; and of a kernel world its compiled envs."""
    plans = [EnginePlan("serial", n, 1) for n in SERIAL_ENVS]
    for workers in worker_counts(cost):
        plans += [EnginePlan("process", workers * share, workers) for share in ENVS_PER_WORKER if workers * share > 1]
    plans = [plan for plan in plans if _feasible(cost, plan, seconds)]
    chosen = EnginePlan(expected.backend, expected.num_envs, expected.workers)
    plans += [chosen] * (chosen not in plans)
    return plans + [EnginePlan("kernel", n, usable_cores()) for n in KERNEL_ENVS if is_kernel]


def _feasible(cost: Probe, plan: EnginePlan, seconds: float) -> bool:
    backend, num_envs, workers = plan
    share = num_envs / workers
    processes = workers * cost.process_memory if backend == "process" else 0
    if processes + num_envs * cost.memory > available_memory() / 2:
        return False
    quick = share * cost.build_seconds < MOST_BUILD_SECONDS and share * cost.step_seconds < seconds / 4
    return quick or share <= 1


def _as_json(result: TuneResult) -> dict[str, Any]:
    """The result as one plain object."""
    cost = result.cost
    return {
        "env": result.env,
        "seconds": result.seconds,
        "step_seconds": cost.step_seconds,
        "reset_seconds": cost.reset_seconds,
        "cpu_share": cost.cpu_share,
        "memory_per_env": cost.memory,
        "auto": result.best.plan._asdict(),
        "tried": [asdict(trial) for trial in result.trials],
        "use": {**asdict(result.best), "code": result.code},
        "machine": result.machine,
    }


def _print(result: TuneResult) -> None:
    """Print the result as a table."""
    cost, best = result.cost, result.best
    waiting = f", {printing.percent(1 - cost.cpu_share)} of it waiting" if cost.cpu_share < 0.7 else ""
    table = printing.table(
        f"{result.env}: a step takes {printing.duration(cost.step_seconds)}{waiting}",
        "backend", "workers>", "envs>", "steps/s>", "memory>", "of the best>", "",
    )  # fmt: skip
    fastest = max(trial.steps_per_second for trial in result.trials)
    for trial in result.trials:
        workers = "" if trial.backend == "serial" else str(trial.workers)
        share = printing.percent(trial.steps_per_second / fastest)
        cells = [
            trial.backend,
            workers,
            str(trial.num_envs),
            printing.rate(trial.steps_per_second),
            printing.memory(trial.memory),
        ]
        is_best = trial is best
        table.add_row(*cells, share, "chosen by auto" * is_best, style="bold green" if is_best else "")
    out = printing.console()
    printing.print_table(out, table)
    out.print(
        "\nFewest envs within 2 % of the best rate, which make_vec chooses from now on if you give neither number:"
    )
    out.print(f"    {result.code}", style="bold", soft_wrap=True, markup=False)
    print_machine(out, result.machine)
