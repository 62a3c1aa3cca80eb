"""The runs of a folder as rows of a table, from the files in each run's folder. A damaged run does not hide others."""

from __future__ import annotations

import fcntl
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.files import open_plain, read_plain
from rookery.monitor.formatting import duration
from rookery.training.storage.run_dir import LARGEST, RunDir

LARGEST_NUMBER, LONGEST_NAME = 1e300, 200
LONGEST_SECONDS = 1e10  # that are shown as a time
TAIL = 1 << 16  # bytes from the end of the metrics, which may have grown for days
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
    runs = [RunDir(path) for path in folder.iterdir() if _is_run(path)] if folder.is_dir() else []
    return [row(run) for run in sorted(runs, key=_age)]


def row(run: RunDir) -> dict[str, Any]:
    """The row of one run."""
    config, summary, metrics = _object(run.config), _object(run.summary), _lines(run.metrics)
    start = _last(metrics[:1], "start")
    progress = _last(metrics, "progress")
    last = metrics[-1] if metrics else summary
    evaluations = [line for line in _lines(run.evaluations) if _number(line.get("eval/return")) is not None]
    returns = [_number(line["eval/return"]) for line in evaluations]
    best = [_number(line["eval/return"]) for line in evaluations if line.get("eval/best") is not False]
    best.append(_number(summary.get("eval/best_return")))
    return {
        "name": run.name,
        "world": _name(_first(start.get("world"), config.get("world"))),
        "learner": _name(_first(start.get("learner"), config.get("learner"))),
        "num_envs": _first(*(_number(found.get("num_envs")) for found in (last, progress, start, config))),
        "steps": _first(_number(last.get("step")), _number(summary.get("steps"))),
        "episodes": _first(_number(last.get("episodes")), _number(progress.get("episodes"))),
        "seconds": _first(*(_number(found.get("seconds")) for found in (_end_of(last), progress))),
        "last_eval": _first(*returns[-1:], _number(summary.get("eval/return"))),
        "best_eval": max((value for value in best if value is not None), default=None),
        "state": _state(run, last, bool(config or summary or metrics)),
        "when": _when(run, last.get("time")),
        "steps_per_second": _first(_number(last.get("steps_per_second")), _number(progress.get("steps_per_second"))),
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


def _is_run(folder: Path) -> bool:
    try:
        return any((folder / name).is_file() for name in ("run.json", "config.json", "metrics.jsonl"))
    except OSError:
        return True  # it exists but cannot be read: show it


def _age(run: RunDir) -> tuple[float, str]:
    try:
        return -run.created, run.name
    except OSError:
        return 0.0, run.name


def _state(run: RunDir, last: dict[str, Any], readable: bool) -> str:
    if not readable:
        return "unreadable"
    reason = last.get("reason")
    if reason is None:
        return "running" if is_busy(run.path / "run.lock") else "interrupted"
    return next((word for word in ("interrupted", "failed") if str(reason).startswith(word)), "finished")


def is_busy(lock: Path) -> bool:
    """Whether a process holds the run's lock. A shared lock is tried: `Lock` would write to its file."""
    try:
        with os.fdopen(open_plain(lock, os.O_RDONLY), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _when(run: RunDir, seconds: Any) -> str | None:
    try:
        moment = datetime.fromtimestamp(_number(seconds) or run.path.stat().st_mtime)
    except (OSError, OverflowError, ValueError):
        return None
    return moment.isoformat(sep=" ", timespec="seconds")


def _object(path: Path) -> dict[str, Any]:
    try:
        return _as_object(read_plain(path, LARGEST).decode())
    except (OSError, ValueError):
        return {}


def _lines(path: Path) -> list[dict[str, Any]]:
    """The first line and the last ones; incomplete or damaged ones are skipped."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
            lines = [file.readline(TAIL)]
            rest = max(file.tell(), file.seek(0, os.SEEK_END) - TAIL)
            file.seek(rest)
            lines += file.read(TAIL).splitlines()
    except OSError:
        return []
    return [found for line in lines if (found := _as_object(line.decode("utf-8", "replace")))]


def _as_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _last(lines: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next((line for line in reversed(lines) if line.get("kind") == kind), {})


def _end_of(last: dict[str, Any]) -> dict[str, Any]:
    """The last event or the summary, if it is of a run's end: a checkpoint has other `seconds`."""
    return last if "reason" in last else {}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _name(value: Any) -> str | None:
    return None if value is None else printable(value)[:LONGEST_NAME]


def _number(value: Any) -> int | float | None:
    """A number that can be shown and compared."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if abs(value) < LARGEST_NUMBER else None
