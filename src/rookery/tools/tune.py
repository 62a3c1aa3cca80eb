"""`rookery tune`: measure several numbers of envs and workers, and recommend one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from rookery import printing
from rookery.console import meanwhile
from rookery.engine.autotune import Choice, choose, probe
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import resolve_given
from rookery.engine.machine import available_memory
from rookery.tools.measurements import (
    Trial,
    machine_facts,
    measure_trial,
    positive_seconds,
    print_machine,
    worker_counts,
)

SERIAL_ENVS = (1, 8, 32)
ENVS_PER_WORKER = (1, 2, 8, 32)
NEAR = 0.95  # of the best rate: fewer envs within it are better, for memory and for on-policy learners
MOST_BUILD_SECONDS = 10.0


@dataclass(frozen=True)
class TuneResult:
    """All trials, and the recommended one."""

    env: str
    world: str
    seconds: float
    cost: Probe
    auto: Choice
    trials: list[Trial]
    machine: dict[str, Any]
    env_kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def best(self) -> Trial:
        """Of the trials within 5 % of the fastest, the one with the fewest envs, then workers."""
        fastest = max(trial.steps_per_second for trial in self.trials)
        near = [trial for trial in self.trials if trial.steps_per_second >= NEAR * fastest]
        return min(near, key=lambda t: (t.num_envs, t.workers, t.backend != "serial", -t.steps_per_second))

    @property
    def code(self) -> str:
        """The call to copy."""
        best = self.best
        workers = f", workers={best.workers}" if best.backend != "serial" else ""
        given = f", env_kwargs={self.env_kwargs!r}" if self.env_kwargs else ""
        return f'rookery.make_vec("{self.world}", num_envs={best.num_envs}, backend="{best.backend}"{workers}{given})'


def tune(world: str, seconds: float = 1.0, env_kwargs: dict[str, Any] | None = None) -> TuneResult:
    """Measure serial and worker processes with several numbers of envs, `seconds` each."""
    positive_seconds(seconds)
    source, machine = resolve_given(world, kwargs=env_kwargs), machine_facts()
    with meanwhile(f"measuring the cost of {source.name}"):
        cost = probe(source)
    auto = choose(cost)
    plans = candidates(cost, auto, seconds)
    trials = []
    with printing.progress(len(plans)) as advance:
        for backend, num_envs, workers in plans:
            advance(f"{backend}, {num_envs} envs" + (f" on {workers} workers" if backend == "process" else ""))
            trials.append(measure_trial(source, cost, backend, num_envs, workers, seconds))
    return TuneResult(source.name, world, seconds, cost, auto, trials, machine, env_kwargs or {})


def candidates(cost: Probe, auto: Choice, seconds: float) -> list[tuple[str, int, int]]:
    """(backend, envs, workers) to try: those that fit into memory, start in seconds and make enough steps."""
    plans = [("serial", n, 1) for n in SERIAL_ENVS]
    for workers in worker_counts(cost):
        plans += [("process", workers * share, workers) for share in ENVS_PER_WORKER if workers * share > 1]
    kept = [plan for plan in plans if _feasible(cost, plan, seconds)]
    chosen = (auto.backend, auto.num_envs, auto.workers)
    return kept if chosen in kept else [*kept, chosen]


def _feasible(cost: Probe, plan: tuple[str, int, int], seconds: float) -> bool:
    backend, num_envs, workers = plan
    share = num_envs / workers
    processes = workers * cost.process_memory if backend == "process" else 0
    if processes + num_envs * cost.memory > available_memory() / 2:
        return False
    quick = share * cost.build_seconds < MOST_BUILD_SECONDS and share * cost.step_seconds < seconds / 4
    return quick or share <= 1


def as_json(result: TuneResult) -> dict[str, Any]:
    """The result as one plain object."""
    cost = result.cost
    return {
        "env": result.env,
        "seconds": result.seconds,
        "step_seconds": cost.step_seconds,
        "reset_seconds": cost.reset_seconds,
        "cpu_share": cost.cpu_share,
        "memory_per_env": cost.memory,
        "auto": {key: value for key, value in asdict(result.auto).items() if key not in ("reason", "cost")},
        "tried": [asdict(trial) for trial in result.trials],
        "use": {**asdict(result.best), "code": result.code},
        "machine": result.machine,
    }


def print_table(result: TuneResult) -> None:
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
        table.add_row(*cells, share, _marks(result, trial), style="bold green" if trial is best else "")
    out = printing.console()
    printing.print_table(out, table)
    out.print("\nFewest envs within 5 % of the best rate:")
    out.print(f"    {result.code}", style="bold", soft_wrap=True, markup=False)
    print_machine(out, result.machine)


def _marks(result: TuneResult, trial: Trial) -> str:
    auto = result.auto
    is_auto = (trial.backend, trial.num_envs, trial.workers) == (auto.backend, auto.num_envs, auto.workers)
    return ", ".join(["use this"] * (trial is result.best) + ["chosen by auto"] * is_auto)
