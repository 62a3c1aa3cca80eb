"""The progress of a search: a panel on a terminal, else a line for each trial; and the summary at the end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rookery.monitor.formatting import duration, number, percent
from rookery.studies.storage.study_view import StudyView, TrialView
from rookery.studies.study_result import BestTrial, StudyResult

REDRAW_SECONDS = 0.5
HOUR = 3600.0
ENDED = ("finished", "failed", "pruned")
MOST_SHOWN = 3  # trials that are shown with their settings


class SearchScreen:
    """Shows what a search does, for people."""

    def __init__(self, n_trials: int, panel: bool = True, verbose: bool = True, stream: TextIO | None = None) -> None:
        """With `panel`, on a terminal, a table that is drawn again; without `verbose`, nothing is shown."""
        self._n_trials, self._panel, self._verbose = n_trials, panel, verbose
        self._stream = stream or sys.stdout
        self._live: Any = None
        self._due = 0.0
        self._began, self._ended = time.monotonic(), 0
        self._doing: dict[int, str] = {}
        self._said: set[str] = set()  # two workers may notice the same

    def __enter__(self) -> SearchScreen:
        if self._panel and self._verbose and self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, highlight=False, markup=False, emoji=False)
            self._live = Live(console=console, auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)
            self._live = None

    @property
    def due(self) -> bool:
        """Whether the panel should be drawn again."""
        return self._live is not None and time.monotonic() >= self._due

    def heard(self, event: Mapping[str, Any], view: StudyView) -> None:
        """Show an event of a worker."""
        trial = event["trial"]
        if event["event"] == "begin":
            self._doing[trial] = f"trial {trial}"
        elif event["event"] == "end":
            self._doing.pop(trial, None)
            self._ended += event["state"] in ENDED
            if event["state"] in ENDED:
                self.say(f"{_end_text(event)}; {self._progress_text(view)}")
        elif event["event"] == "verify":
            self._doing[trial] = f"verifying trial {trial}"
            self._say_once(f"verifying trial {trial} on held-out seeds")
        elif event["event"] == "verified":
            self._doing.pop(trial, None)
            self._say_once(f"trial {trial} reached {number(event['value'])} on held-out seeds")

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)

    def say(self, text: str) -> None:
        """A line, where there is no panel."""
        if self._verbose and self._live is None:
            self._stream.write(text + "\n")
            self._stream.flush()

    def draw(self, view: StudyView) -> None:
        if self._live is not None:
            self._live.update(self._table(view), refresh=True)
            self._due = time.monotonic() + REDRAW_SECONDS

    # --- texts --------------------------------------------------------------------------------------------------

    def _table(self, view: StudyView) -> Any:
        from rich.panel import Panel
        from rich.table import Table

        rows = Table.grid(padding=(0, 2))
        rows.add_row("trials", self._progress_text(view))
        rows.add_row("now", ", ".join(self._doing.values()) or ("finishing" if self._ended else "starting workers"))
        known = sorted(view.comparable, key=lambda trial: (-trial.values[0], trial.number))
        for place, trial in enumerate(known[:MOST_SHOWN]):
            rows.add_row("best" if place == 0 else "", _trial_text(trial))
        for one in sorted(view.verified.values(), key=lambda found: -found.iqm):
            rows.add_row("held-out", f"{_value_text(one.iqm, one.interval)}  trial {one.number}")
        failed = view.of_state("failed")
        if failed:
            rows.add_row("failed", f"trial {failed[-1].number}: {failed[-1].reason}")
        return Panel(rows, title=f"search {view.name}", title_align="left", expand=False)

    def _progress_text(self, view: StudyView) -> str:
        counts = {state: len(view.of_state(state)) for state in (*ENDED, "running")}  # type: ignore[arg-type]
        done = sum(counts[state] for state in ENDED)
        words = [f"{done} of {self._n_trials} done"]
        words += [f"{counts[state]} {state}" for state in ("running", "failed", "pruned") if counts[state]]
        seconds = time.monotonic() - self._began
        if self._ended:
            words.append(f"{self._ended * HOUR / seconds:,.0f} trials/h")
            left = (self._n_trials - done) * seconds / self._ended
            words += [f"{duration(left)} left"] if left > 0 else []
        best = view.best
        if best is not None and self._live is None:
            words.append(f"best {number(best.value)} (trial {best.number})")
        return ", ".join(words)


def print_result(result: StudyResult, command: str) -> None:
    """Print the summary; `command` is what the user has typed."""
    counts = [f"{result.finished} finished"]
    counts += [f"{n} {what}" for n, what in ((result.failed, "failed"), (result.pruned, "pruned")) if n]
    print(f"study {result.study_name}: {', '.join(counts)} trials in {duration(result.seconds)}")
    if result.pruning:
        print(_pruning_text(result.pruning))
    if result.front:
        print("Pareto front (value, seconds):")
        for one in result.front:
            print(f"  trial {one['number']}: {number(one['value'])}, {duration(one['seconds'])}")
    if result.best is not None:
        _print_best(result.best, result)
    if result.reason not in ("finished", "timeout"):
        print(f"{_because(result.reason)}. To continue:\n  {command}")
    elif result.best is not None:
        _print_next(result)
    else:
        print(f"no trial has finished in this time. To continue:\n  {command}")


def _print_best(best: BestTrial, result: StudyResult) -> None:
    held_out = "not verified with held-out seeds"
    if best.verified_value is not None:
        held_out = f"{_value_text(best.verified_value, best.verified_interval)} on held-out seeds"
    print(f"best: trial {best.number}: {held_out}; {_value_text(best.value, best.interval)} on tuning seeds")
    for key, value in best.settings.items():
        print(f"  {key} = {_shown(value)}")
    for other in result.verified[1:]:
        print(
            f"also verified: trial {other.number}: {number(other.verified_value)} on held-out seeds, "
            f"{number(other.value)} on tuning seeds"
        )


def _print_next(result: StudyResult) -> None:
    usual = result.path.parent.name == "studies"
    name = shlex.quote(result.study_name if usual else str(result.path))
    print(f"the report: rookery study {name}")
    print(f"the best as a configuration: rookery study {name} --export-config best.toml")
    print("train with it: rookery train best.toml")
    if result.verified:  # others are not deployed
        print(f"put it to use: rookery deploy {name} --to champions")


def _pruning_text(found: Mapping[str, Any]) -> str:
    text = f"pruning stopped {found['pruned']} trials and saved {percent(found['share_saved'])} of the steps"
    ahead = found["ahead_of_best"]
    return f"{text}; {ahead} of them {'was' if ahead == 1 else 'were'} not behind the best trial when stopped"


def _because(reason: str) -> str:
    return "the search was interrupted; nothing is lost" if reason == "interrupted" else reason


def _end_text(event: Mapping[str, Any]) -> str:
    reason = f" ({event['reason']})" if event.get("reason") else ""
    value = f": {number(event['value'])}" if event.get("value") is not None else ""
    return f"trial {event['trial']} {event['state']}{value}{reason}"


def _trial_text(trial: TrialView) -> str:
    settings = ", ".join(f"{key.rpartition('.')[2]} {_shown(value)}" for key, value in trial.settings.items())
    return f"{_value_text(trial.value, trial.interval)}  trial {trial.number}: {settings}"


def _value_text(value: float | None, interval: tuple[float, float] | None) -> str:
    return number(value) + (f" [{number(interval[0])}, {number(interval[1])}]" if interval else "")


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
