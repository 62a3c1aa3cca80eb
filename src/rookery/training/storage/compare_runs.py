"""Runs side by side: evaluations with intervals, steps, time and speed. The seeds of one configuration are one row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.monitor.formatting import count, duration, number, rate
from rookery.monitor.jsonl import history
from rookery.monitor.statistics import bootstrap_interval, interquartile_mean, mean_interval, seconds_of_training
from rookery.training.storage import runs_table
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import RunGroup

COLUMNS = ("run", "last eval>", "95 % interval", "best eval>", "steps>", "time>", "steps/s>", "state")
LONGEST_VALUE = 40


def compare(groups: Sequence[RunGroup]) -> list[dict[str, Any]]:
    """One row per group; what is not known is None.

    Keys: name, runs, last_eval, interval (two numbers), best_eval, steps, seconds, steps_per_second, state. With
    several runs, evaluations are interquartile means, the interval is by bootstrap, and the others are means.
    """
    return [_joined(group.name, [_row(run) for run in group.runs]) for group in groups]


def print_comparison(rows: Sequence[dict[str, Any]], different: dict[str, list[Any]], names: Sequence[str]) -> None:
    """Print the rows as a table, and below it the keys of the configuration that differ."""
    from rookery import printing

    shown, out = printing.table("", *COLUMNS), printing.console()
    for row in rows:
        figures = (count(row["steps"]), duration(row["seconds"]), rate(row["steps_per_second"]))
        evaluations = (number(row["last_eval"]), _interval_text(row["interval"]), number(row["best_eval"]))
        shown.add_row(row["name"], *evaluations, *figures, row["state"])
    printing.print_table(out, shown)
    if different:
        out.print()
        values = printing.table("", "what differs", *names)
        for key, found in different.items():
            values.add_row(key, *(_value_text(value) for value in found))
        printing.print_table(out, values)


def _row(run: RunDir) -> dict[str, Any]:
    row = runs_table.row(run)
    events = history(run.metrics) if run.metrics.is_file() else []
    seconds = seconds_of_training(events)
    last = next((event.values for event in reversed(events) if event.kind == "evaluation"), {})
    return row | {"seconds": float(seconds[-1]) if len(seconds) else None, "interval": _interval(last)}


def _interval(evaluation: Mapping[str, Any]) -> list[float] | None:
    """The interval of an evaluation's mean return; of an older run, from the standard deviation."""
    ends = [evaluation.get(f"eval/return_{side}") for side in ("low", "high")]
    if all(isinstance(end, int | float) for end in ends):
        return ends  # type: ignore[return-value]
    names = ("eval/return", "eval/return_std", "eval/episodes")
    mean, spread, episodes = (evaluation.get(name) for name in names)
    if not all(isinstance(value, int | float) for value in (mean, spread, episodes)):
        return None
    return list(mean_interval(mean, spread, int(episodes)))  # type: ignore[arg-type]


def _joined(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Several seeds as one row."""
    names = {"name": name, "runs": [row["name"] for row in rows]}
    if len(rows) == 1:
        keys = ("last_eval", "interval", "best_eval", "steps", "seconds", "steps_per_second", "state")
        return names | {key: rows[0][key] for key in keys}
    last, best = (_known(row[key] for row in rows) for key in ("last_eval", "best_eval"))
    states = list(dict.fromkeys(row["state"] for row in rows))
    return {
        **names,
        "last_eval": float(interquartile_mean(last)) if last else None,
        "interval": [float(end) for end in bootstrap_interval(last)] if len(last) > 1 else None,
        "best_eval": float(interquartile_mean(best)) if best else None,
        **{key: _mean(row[key] for row in rows) for key in ("steps", "seconds", "steps_per_second")},
        "state": ", ".join(states),
    }


def _known(values: Iterable[Any]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[Any]) -> float | None:
    known = _known(values)
    return float(np.mean(known)) if known else None


def _interval_text(ends: Sequence[float] | None) -> str:
    return "-" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def _value_text(value: Any) -> str:
    from rookery.console import printable

    text = "-" if value is None else printable(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
