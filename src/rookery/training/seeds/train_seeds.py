"""Trains one configuration with several seeds, and sums the results up."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, Unpack

from rookery.config import RunConfig, user_config
from rookery.config.schema import SEEDS
from rookery.config.train_options import TrainOptions
from rookery.console import say, silent
from rookery.engine.machine import available_memory, usable_cores
from rookery.errors import OptionError
from rookery.files import own_folder
from rookery.monitor.formatting import count, number, percent, rate
from rookery.monitor.plots import drawn_if_possible
from rookery.monitor.statistics import CONFIDENCE, bootstrap_interval, interquartile_mean
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_run
from rookery.training.resolve.seats import NO_STEP_LIMIT
from rookery.training.seeds.processes import (
    FINISHED,
    NEW,
    RESUME,
    SeedProcess,
    SeedProcesses,
    SeedRun,
    Shares,
    divide,
    seed_runs,
    with_known_engine,
)
from rookery.training.show.comparison import plot
from rookery.training.storage.run_groups import group_runs
from rookery.training.storage.runs_table import row
from rookery.user_code import end_import

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


def train_seeds(
    world: str | Path | Mapping[str, Any] | RunConfig,
    /,
    seeds: int | Sequence[int] = 5,
    jobs: int | None = None,
    **options: Unpack[TrainOptions],
) -> SeedsResult:
    """Train each seed as a run of its own, several at a time where that is faster. A seed whose run has finished is not
    trained again, and one whose run has not is resumed.

    Args:
        world: A world, or a configuration: its path, a dict or a `RunConfig`. Other processes must find the world, so
            that it cannot be a lambda or an env object.
        seeds: How many, counted from `seed`; or a list of them.
        jobs: How many runs are trained at a time; if omitted, by cores and backend.
        options: Keys of the configuration, as for `rookery.train`.
    """
    end_import("rookery.train_seeds")
    config = world if isinstance(world, RunConfig) else user_config(world, **options)
    if isinstance(seeds, (int, str)):
        seeds = seed_list(str(seeds), config.seed)
    with silent(not config.monitor.verbose):
        from rookery.training.run.initial_weights import with_initial_nets

        return _train_seeds(with_initial_nets(config), seeds, jobs)


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
    text = f"interquartile mean {number(found['iqm'])} over {found['seeds']:.0f} seeds"
    return text if found["seeds"] < 2 else f"{text}, 95 % interval {number(found['low'])} to {number(found['high'])}"


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
    options = final.learner_options
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
    last, best = ([row(one.seed_run.run)[key] for one in done] for key in ("last_eval", "best_eval"))
    stopped = None if len(done) == len(processes.all) else processes.signal
    worst = max((max(one.status or 0, 1) for one in failed), default=0)  # that of a run that a signal killed is below 0
    return SeedsResult(
        runs=[_row(one) for one in processes.all],
        evaluation=_summary(last),
        best_evaluation=_summary(best),
        errors={one.seed_run.seed: processes.output(one) or f"exit status {one.status}" for one in failed},
        plot=_draw(done),
        exit_code=worst if stopped is None else 128 + stopped,
    )


def _row(one: SeedProcess) -> dict[str, Any]:
    run = one.seed_run.run
    found = row(run) if run.path.is_dir() else {"name": run.name, "steps": None, "path": str(run.path)}
    return {"seed": one.seed_run.seed, **found, "state": one.state}


def _summary(values: Sequence[float | None]) -> dict[str, float] | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    low, high = bootstrap_interval(known)
    return {"iqm": float(interquartile_mean(known)), "low": float(low), "high": float(high), "seeds": len(known)}


def _draw(done: Sequence[SeedProcess]) -> Path | None:
    """The curves of all seeds as a band; None if there are none, or they cannot be drawn."""
    runs = [one.seed_run.run for one in done]
    if not runs:
        return None
    name = group_runs(runs)[0].name.partition(" ")[0]
    file = own_folder(runs[0].path.parent / "plots") / f"{name}-seeds.png"
    return drawn_if_possible(lambda: plot(*(run.path for run in runs), x="steps", out=file))


REDRAW_SECONDS, LINE_SECONDS = 0.5, 10.0
COLUMNS = ("seed>", "run", "steps>", "", "steps/s>", "last eval>", "best eval>", "state")


class SeedScreen:
    """Shows what the runs do, for people. `update` may be called as often as one likes."""

    def __init__(self, steps: int, panel: bool = True, verbose: bool = True, stream: TextIO | None = None) -> None:
        """With `panel`, on a terminal, the table; without `verbose`, nothing is shown."""
        self._steps = steps if steps < NO_STEP_LIMIT else None
        self._panel, self._verbose = panel, verbose
        self._stream = stream or sys.stdout
        self._live: Any = None
        self._due = 0.0
        self._said: dict[int, tuple[str, Any]] = {}

    def __enter__(self) -> SeedScreen:
        if self._panel and self._verbose and self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
            self._live = Live(console=console, auto_refresh=False)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def update(self, processes: Sequence[SeedProcess], last: bool = False) -> None:
        """Show the present state, if it is time for it; a line also whenever a run starts or ends."""
        if not self._verbose:
            return
        due = last or time.monotonic() >= self._due
        changed = [one for one in processes if self._said.get(one.seed_run.seed, ("",))[0] != one.state]
        if not due and not changed:
            return
        if self._live is not None:
            self._live.update(self._table(processes), refresh=True)
        for one in processes if due and not last else changed:
            self._say(one)
        if due:
            self._due = time.monotonic() + (LINE_SECONDS if self._live is None else REDRAW_SECONDS)

    def _say(self, one: SeedProcess) -> None:
        """A line about a run, if there is something new."""
        seed, cells = one.seed_run.seed, self._cells(one)
        before, self._said[seed] = self._said.get(seed), (one.state, cells)
        if self._live is not None or before == self._said[seed] or one.state == "waiting":
            return
        _, name, steps, share, speed, last_eval, best_eval, state = cells
        made = f"{steps} steps{f' ({share})' if share else ''}, {speed} steps/s"
        text = f"{made}, last evaluation {last_eval}, best {best_eval}"
        self._stream.write(f"seed {seed} ({name}): {state}{'' if steps == '-' else f', {text}'}\n")
        self._stream.flush()

    def _table(self, processes: Sequence[SeedProcess]) -> Any:
        from rookery import printing

        table = printing.table("", *COLUMNS)
        for one in processes:
            table.add_row(*self._cells(one))
        return table

    def _cells(self, one: SeedProcess) -> tuple[str, ...]:
        run = one.seed_run.run
        found: dict[str, Any] = row(run) if run.path.is_dir() else {}
        steps = found.get("steps")
        share = percent(min(1.0, steps / self._steps)) if steps is not None and self._steps else ""
        evaluations = (number(found.get("last_eval")), number(found.get("best_eval")))
        return (
            str(one.seed_run.seed), run.name, count(steps), share, rate(found.get("steps_per_second")), *evaluations,
            one.state,
        )  # fmt: skip


MOST = 1000


def seed_list(text: str, first: int = 0) -> list[int]:
    """The seeds that a number or a list names. A number counts from `first`, the seed of the configuration.

    >>> seed_list("3"), seed_list("3", first=7), seed_list("1,2,5"), seed_list("4,")
    ([0, 1, 2], [7, 8, 9], [1, 2, 5], [4])
    """
    words = [word.strip() for word in text.split(",")]
    listed = len(words) > 1
    try:
        numbers = [int(word) for word in words if word]
    except ValueError:
        raise _wrong(text) from None
    seeds = numbers if listed else list(range(first, first + min(numbers[0], MOST + 1))) if numbers else []
    if not seeds or len(seeds) > MOST or any(not 0 <= seed < SEEDS for seed in seeds):
        raise _wrong(text)
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise OptionError(f"--seeds {text}: seed {twice[0]} is given twice; the same seed gives the same run")
    return seeds


def _wrong(text: str) -> OptionError:
    return OptionError(
        f"--seeds should be a number of seeds from 1 to {MOST}, such as 5, or a list of seeds >= 0, such as 1,2,3; "
        f"got {text!r}"
    )
