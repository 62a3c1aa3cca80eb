"""The progress of several runs: a table that is drawn again on a terminal, else a line per run from time to time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from rookery.monitor.formatting import count, number, percent, rate
from rookery.training.resolve.curriculum_config import NO_STEP_LIMIT
from rookery.training.seeds.processes import SeedProcess
from rookery.training.storage.runs_table import row

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
