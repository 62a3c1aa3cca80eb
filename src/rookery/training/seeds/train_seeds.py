"""Trains one configuration with several seeds, and sums the results up."""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.console import say, silent
from rookery.engine.machine import available_memory, usable_cores
from rookery.errors import MissingExtra
from rookery.files import own_folder
from rookery.monitor.statistics import (
    CONFIDENCE,
    EPISODE,
    EVALUATION,
    bootstrap_interval,
    interquartile_mean,
    read_curve,
)
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_run
from rookery.training.seeds.processes import SeedProcess, SeedProcesses
from rookery.training.seeds.seed_runs import FINISHED, NEW, RESUME, SeedRun, seed_runs, with_known_engine
from rookery.training.seeds.seed_screen import SeedScreen
from rookery.training.seeds.shares import Shares, divide
from rookery.training.storage.run_groups import group_runs
from rookery.training.storage.runs_table import row

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class SeedsResult:
    """What became of the runs of several seeds. Means are interquartile means over the seeds that have finished."""

    runs: list[dict[str, Any]]  # rows of `rookery runs`, each with its `seed` and its `state`
    evaluation: dict[str, float] | None  # of the last evaluations: iqm, low, high
    best_evaluation: dict[str, float] | None
    errors: dict[int, str]  # by seed
    plot: Path | None
    exit_code: int

    def as_json(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {
            "runs": self.runs, "evaluation": self.evaluation, "best_evaluation": self.best_evaluation,
            "confidence": CONFIDENCE, "errors": {str(seed): text for seed, text in self.errors.items()},
            "plot": None if self.plot is None else str(self.plot),
        }  # fmt: skip


def train_seeds(config: RunConfig, seeds: Sequence[int], jobs: int | None = None) -> SeedsResult:
    """Train each seed as a run of its own, several at a time where that is faster. A seed whose run has finished is not
    trained again, and one whose run has not is resumed."""
    with silent(not config.monitor.verbose):
        return _train_seeds(_with_initial_weights(config), seeds, jobs)


def _train_seeds(config: RunConfig, seeds: Sequence[int], jobs: int | None) -> SeedsResult:
    resolved = resolve_run(config)
    known = with_known_engine(config, resolved)
    if known:
        resolved = resolve_run(config.model_copy(update=known))
    runs = seed_runs(resolved, seeds)
    left = sum(run.state != FINISHED for run in runs)
    shares = divide(resolved.config, left, usable_cores(), available_memory(), _jobs(resolved, jobs))
    say(_announcement(runs, shares))
    final = _limited(config, resolved, shares)
    with (
        tempfile.TemporaryDirectory(prefix="rookery-seeds-") as scratch,
        SeedProcesses(final, runs, shares, Path(scratch)) as processes,
    ):
        with SeedScreen(final.steps, final.monitor.panel is not False, final.monitor.verbose) as screen:
            while processes.advance():
                screen.update(processes.all)
                time.sleep(POLL_SECONDS)
            screen.update(processes.all, last=True)
        return _result(processes)


def print_result(result: SeedsResult, command: str) -> None:
    """Print the summary; `command` is what continues after an interruption."""
    for seed, text in result.errors.items():
        print(f"seed {seed} failed: {text}")
    for name, found in (("last evaluation", result.evaluation), ("best evaluation", result.best_evaluation)):
        if found is not None:
            print(f"{name}: {_mean_text(found)}")
    if result.plot is not None:
        print(f"plot: {result.plot}")
    unfinished = [row for row in result.runs if row["state"] != "finished"]
    if unfinished:
        print(f"{len(unfinished)} of {len(result.runs)} runs have not finished. To continue all of them:\n  {command}")
    begun = [row for row in unfinished if row["steps"] is not None]
    if begun:
        print("or one of them:")
    for one in begun:
        print(f"  rookery resume {shlex.quote(one['path'])}")


def _mean_text(found: dict[str, float]) -> str:
    from rookery.monitor.formatting import number

    text = f"interquartile mean {number(found['iqm'])} over {found['seeds']:.0f} seeds"
    return text if found["seeds"] < 2 else f"{text}, 95 % interval {number(found['low'])} to {number(found['high'])}"


def _with_initial_weights(config: RunConfig) -> RunConfig:
    """With the place of the weights that `init_from` names: "latest" would be another run for the second seed."""
    if config.init_from is None:
        return config
    from rookery.training.run.initial_weights import read_initial_weights, with_nets_of

    return with_nets_of(read_initial_weights(config.init_from, Path(config.runs_dir)), config)


def _jobs(resolved: ResolvedRun, jobs: int | None) -> int | None:
    """One at a time where `device = "auto"` will choose a GPU, for images."""
    if jobs is not None or resolved.seat is None or resolved.config.device != "auto":
        return jobs
    space = resolved.seat.observation_space
    if not any(len(leaf.shape or ()) == 3 for leaf in getattr(space, "values", lambda: [space])()):
        return None
    import torch

    return 1 if torch.cuda.is_available() else None


def _limited(config: RunConfig, resolved: ResolvedRun, shares: Shares) -> RunConfig:
    """The configuration of the runs, which do not disturb one another: with several at a time, each one learns on one
    thread and has its share of workers, unless the user has given these numbers."""
    final = resolved.config
    if shares.jobs == 1:
        return final
    options = getattr(final, final.learner)
    changes: dict[str, Any] = {}
    if options.threads is None:
        changes[final.learner] = options.model_copy(update={"threads": 1})
    if config.workers is None and final.workers is not None:
        changes["workers"] = min(final.workers, shares.cores)
    return final.model_copy(update=changes)


def _announcement(runs: Sequence[SeedRun], shares: Shares) -> str:
    parts = [
        (sum(run.state == FINISHED for run in runs), "finished already"),
        (sum(run.state == RESUME for run in runs), "to resume"),
        (sum(run.state == NEW for run in runs), "to start"),
    ]
    found = ", ".join(f"{number} {what}" for number, what in parts if number)
    left = [run for run in runs if run.state != FINISHED]
    how = ""
    if len(left) > 1:
        how = (
            "; one after another"
            if shares.jobs == 1
            else f"; {shares.jobs} at a time, each with {shares.cores} core{'s' * (shares.cores > 1)}"
        )
    return f"{len(runs)} seed{'s' * (len(runs) > 1)}: {found}{how}"


def _result(processes: SeedProcesses) -> SeedsResult:
    done = [one for one in processes.all if one.state == "finished"]
    failed = [one for one in processes.all if one.state == "failed"]
    last, best = ([_number(one, key) for one in done] for key in ("last_eval", "best_eval"))
    stopped = processes.signal
    code = 128 + stopped if stopped is not None else max((_status(one) for one in failed), default=0)
    return SeedsResult(
        runs=[_row(one) for one in processes.all],
        evaluation=_summary(last),
        best_evaluation=_summary(best),
        errors={one.seed_run.seed: processes.output(one) or f"exit status {one.status}" for one in failed},
        plot=_draw(done),
        exit_code=code,
    )


def _status(one: SeedProcess) -> int:
    """The exit status of a failed run; a run that a signal has killed counts as failed."""
    return one.status if one.status is not None and one.status > 0 else 1


def _row(one: SeedProcess) -> dict[str, Any]:
    run = one.seed_run.run
    found = row(run) if run.path.is_dir() else {"name": run.name, "steps": None, "path": str(run.path)}
    return {"seed": one.seed_run.seed, **found, "state": one.state}


def _number(one: SeedProcess, key: str) -> float | None:
    return row(one.seed_run.run)[key]


def _summary(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = bootstrap_interval(known)
    return {"iqm": float(interquartile_mean(known)), "low": float(low), "high": float(high), "seeds": len(known)}


def _draw(done: Sequence[SeedProcess]) -> Path | None:
    """The curves of all seeds as a band; None if there are none, or they cannot be drawn."""
    from rookery.monitor.plots import CurveGroup, draw_groups

    runs = [one.seed_run.run for one in done]
    if not runs:
        return None
    for metric in (EVALUATION, EPISODE):
        curves = [read_curve(run.metrics, metric) for run in runs if run.metrics.is_file()]
        if any(len(curve.x) for curve in curves):
            break
    name = group_runs(runs)[0].name
    file = own_folder(runs[0].path.parent / "plots") / f"{name.partition(' ')[0]}-seeds.png"
    try:
        return draw_groups([CurveGroup(name, curves)], file, metric, title=str(row(runs[0])["world"]))
    except (MissingExtra, OSError) as error:
        say(f"the plot was not drawn: {error}")
        return None
