"""The runs of a folder as rows of a table, from the files in each run's folder. A damaged run does not hide others."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from rookery.console import printable
from rookery.errors import OptionError, OptionTypeError, RookeryError
from rookery.foreign_names import explains_keywords
from rookery.monitor.formatting import NOT_BETTER, duration
from rookery.printing import plain_table
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


class HasPath(Protocol):
    """The result of a training."""

    @property
    def path(self) -> Path: ...


NamedRun = str | Path | HasPath  # how users say which run they mean


class Runs(list[dict[str, Any]]):
    """Rows of `rookery.runs`, the run that was started last first. Keys: see `table`."""

    def __repr__(self) -> str:
        return "\n".join(_lines(list(COLUMNS), self)) if self else "Runs([])"

    def print(self) -> None:
        """Print them as a table."""
        print_table(self)


@explains_keywords({}, "it takes names of runs, `world`, `sort` and `runs_dir`")
def runs(*names: NamedRun, world: str | None = None, sort: str | None = None, runs_dir: str | Path = "runs") -> Runs:
    """The runs of a folder, as a list of dicts: their worlds, steps, evaluations and states.

    Args:
        names: Only these runs: names, paths, or "latest"; if omitted, all.
        world: Only runs of this world, whatever the case of its letters.
        sort: The key to sort by, such as "best_eval": the largest number first, names from A to Z.
        runs_dir: The folder of the runs.
    """
    rows = [row(run) for run in find_runs(names, runs_dir)] if names else table(runs_dir)
    found = Runs(rows if world is None else [one for one in rows if _is_of(one, world)])
    if sort is not None:
        found.sort(key=_order_by(sort))
    return found


def _order_by(key: str) -> Callable[[dict[str, Any]], Any]:
    """What `sort` compares; runs that have no such value come last."""
    if key not in COLUMNS.values():
        raise OptionError(f"runs cannot be sorted by {key!r}; use one of {', '.join(COLUMNS.values())}")

    def order(row: dict[str, Any]) -> Any:
        value = row[key]
        return value is None, value if isinstance(value, str) else -(value or 0)

    return order


def find_runs(names: Iterable[NamedRun], runs_dir: str | Path) -> list[RunDir]:
    """The runs of these names, each once."""
    found = [RunDir.find(_place(name), Path(runs_dir)) for name in names]
    return list({run.path.absolute(): run for run in found}.values())


def _place(run: Any) -> str | Path:
    """The name or path of a run, of the result of a training, or of the run that an agent is from."""
    place = run if isinstance(run, (str, Path)) else getattr(run, "path", getattr(run, "run", None))
    if place is None:
        raise OptionTypeError(f"expected a run: its name, its path or the result of rookery.train, got {run!r:.80}")
    return place


def _is_of(row: dict[str, Any], world: str) -> bool:
    """Whether a run is of this world; a file's world also by the name of the file and the class alone."""
    have, wanted = str(row["world"] or "").lower(), world.lower()
    return have == wanted or (":" in wanted and have.endswith(f"/{wanted}"))


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
    """Print the rows; on a narrow terminal, without the columns that matter least."""
    columns = list(COLUMNS)
    lines = _lines(columns, rows)
    for least in LEAST if sys.stdout.isatty() else ():
        if max(map(len, lines)) <= shutil.get_terminal_size().columns:
            break
        columns.remove(least)
        lines = _lines(columns, rows)
    print(*lines, sep="\n")
    if any(None not in (row["last_eval"], row["best_eval"]) and row["last_eval"] > row["best_eval"] for row in rows):
        print(f"\na last eval above the best eval is {NOT_BETTER}")


def _lines(columns: list[str], rows: list[dict[str, Any]]) -> list[str]:
    return plain_table(columns, [[_text(column, row[COLUMNS[column]]) for column in columns] for row in rows])


def _text(heading: str, value: Any) -> str:
    if heading == "time>":
        return duration(value) if value is not None and 0 <= value < LONGEST_SECONDS else "-"
    if heading.endswith(">") and value is not None:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value or "-")


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


@dataclass
class Deleted:
    """What became of runs that were to be deleted."""

    names: list[str] = field(default_factory=list)
    freed: int = 0  # bytes
    kept: dict[str, str] = field(default_factory=dict)  # the reason, by name
    notes: list[str] = field(default_factory=list)


def delete_runs(*runs: NamedRun, runs_dir: str | Path = "runs") -> Deleted:
    """Delete runs, with their checkpoints. Those that are in use or cannot be deleted are kept, with the reason."""
    done = Deleted()
    for run in find_runs(runs, runs_dir):
        try:
            why = refusal(run, Path(runs_dir))
            if why:
                done.kept[run.name] = why
                continue
            outside = _outside_checkpoints(run)
            with run.lock():
                size = disk_usage(run.path)
                shutil.rmtree(run.path)
        except (RookeryError, OSError) as error:
            done.kept[run.name] = printable(error)
            continue
        done.names.append(run.name)
        done.freed += size
        if outside is not None:
            done.notes.append(f"the checkpoints of {run.name} are kept: they are outside, in {printable(outside)}")
    return done


def refusal(run: RunDir, runs_dir: Path) -> str:
    """Why a run's folder must not be deleted, whatever the user says; "" if it may be."""
    path = Path(os.path.abspath(run.path))
    if path.is_symlink():
        return f"{printable(run.path)} is a link that leads elsewhere; remove the link by hand"
    if run.outputs != run.path:
        return "it is a version in a registry, and others may use it"
    if path.parent.resolve() != Path(runs_dir).resolve():
        return f"it is not in {printable(runs_dir)}: give its folder with --runs-dir"
    return ""


def disk_usage(folder: Path) -> int:
    """Bytes on disk that deleting a folder frees. Links are not followed; files with a second name are not freed."""
    total = 0
    for place, _, files in os.walk(folder, followlinks=False):
        for name in files:
            found = os.lstat(os.path.join(place, name))
            total += 512 * found.st_blocks * (found.st_nlink == 1)
    return total


def _outside_checkpoints(run: RunDir) -> Path | None:
    """The folder of the run's checkpoints, if that is outside of its own."""
    try:
        outside = run.keeps_checkpoints_outside
        return run.checkpoints if outside and run.checkpoints.exists() else None
    except RookeryError:  # its config is damaged
        return None
