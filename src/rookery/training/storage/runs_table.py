"""The runs of a folder as rows of a table, from the files in each run's folder. A damaged run does not hide others."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.monitor.formatting import duration
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord, number

LONGEST_NAME = 200
LONGEST_SECONDS = 1e10  # that are shown as a time
COLUMNS = {
    "run": "name", "world": "world", "learner": "learner", "envs>": "num_envs", "steps>": "steps",
    "episodes>": "episodes", "time>": "seconds", "steps/s>": "steps_per_second", "last eval>": "last_eval",
    "best eval>": "best_eval", "state": "state", "when": "when",
}  # fmt: skip
# Columns that a narrow terminal omits, in this order.
LEAST = ("when", "learner", "world", "episodes>", "envs>", "time>", "steps/s>")


def table(runs_dir: str | Path = "runs") -> list[dict[str, Any]]:
    """One row per run, the newest first; what is not known is None.

    Keys: name, world, learner, num_envs, steps, episodes, seconds (of training, without pauses before it was resumed),
    last_eval, best_eval, state ("running", "finished", "interrupted", "failed" or "unreadable"), when (of its last
    event), steps_per_second (on average, or of late while it runs), path.
    """
    folder = Path(runs_dir)
    runs = [RunDir(path) for path in folder.iterdir() if is_run(path)] if folder.is_dir() else []
    return [row(run) for run in sorted(runs, key=_age)]


def row(run: RunDir) -> dict[str, Any]:
    """The row of one run."""
    return row_of(RunRecord(run))


def row_of(record: RunRecord) -> dict[str, Any]:
    """The row of the run whose files these are."""
    run, config, summary, start = record.run, record.config, record.summary, record.start
    last, progress = record.last, record.progress
    return {
        "name": run.name,
        "world": _name(first_known(start.get("world"), config.get("world"))),
        "learner": _name(first_known(start.get("learner"), config.get("learner"))),
        "num_envs": first_known(*(number(found.get("num_envs")) for found in (last, progress, start, config))),
        "steps": first_known(number(last.get("step")), number(summary.get("steps"))),
        "episodes": first_known(number(last.get("episodes")), number(progress.get("episodes"))),
        "seconds": first_known(*(number(found.get("seconds")) for found in (_end_of(last), progress))),
        "last_eval": first_known(record.last_return, number(summary.get("eval/return"))),
        "best_eval": record.best_return,
        "state": record.state(),
        "when": _when(run, last.get("time")),
        "steps_per_second": first_known(*(number(found.get("steps_per_second")) for found in (last, progress))),
        "path": str(run.path),
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the rows."""
    from rookery import printing

    out, headings = printing.console(), list(COLUMNS)
    shown = _table(headings, rows)
    for least in LEAST if out.is_terminal else ():
        if printing.width(out, shown) <= out.width:
            break
        headings.remove(least)
        shown = _table(headings, rows)
    printing.print_table(out, shown)


def _table(headings: list[str], rows: list[dict[str, Any]]) -> Any:
    from rookery import printing

    shown = printing.table("", *headings)
    for found in rows:
        cells = [(heading, found[COLUMNS[heading]]) for heading in headings]
        shown.add_row(*(_text(heading, value) for heading, value in cells))
    return shown


def _text(heading: str, value: Any) -> str:
    if heading == "time>":
        return duration(value) if value is not None and 0 <= value < LONGEST_SECONDS else "-"
    return _number_text(value) if heading.endswith(">") else str(value or "-")


def _number_text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def is_run(folder: Path) -> bool:
    """Whether there is anything of a run in a folder."""
    try:
        return any((folder / name).is_file() for name in ("run.json", "config.json", "metrics.jsonl"))
    except OSError:
        return True  # it exists but cannot be read: show it


def _age(run: RunDir) -> tuple[float, str]:
    try:
        return -run.created, run.name
    except OSError:
        return 0.0, run.name


def _when(run: RunDir, seconds: Any) -> str | None:
    try:
        moment = datetime.fromtimestamp(number(seconds) or run.path.stat().st_mtime)
    except (OSError, OverflowError, ValueError):
        return None
    return moment.isoformat(sep=" ", timespec="seconds")


def _end_of(last: dict[str, Any]) -> dict[str, Any]:
    """The last event or the summary, if it is of a run's end: a checkpoint has other `seconds`."""
    return last if "reason" in last else {}


def first_known(*values: Any) -> Any:
    """The first of the values that is not None."""
    return next((value for value in values if value is not None), None)


def _name(value: Any) -> str | None:
    return None if value is None else printable(value)[:LONGEST_NAME]
