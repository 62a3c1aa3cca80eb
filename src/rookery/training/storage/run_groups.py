"""Which runs differ only in their seed, and in what the others differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.config.layers import rename_old_keys
from rookery.errors import RookeryError
from rookery.learners.own_learners import learner_names
from rookery.monitor.formatting import count, duration, number, rate
from rookery.monitor.jsonl import history
from rookery.monitor.statistics import bootstrap_interval, interquartile_mean, mean_interval, seconds_of_training
from rookery.training.storage import runs_table
from rookery.training.storage.run_dir import RunDir

# What does not make another experiment: the seed, names and places, output, and who does the work.
NOT_COMPARED = {
    "seed", "name", "runs_dir", "monitor", "backend", "groups", "workers", "start_method", "tables", "checkpoints",
    "on_failure", "max_restarts", "on_out_of_memory", "devices", "evaluation.seed",
}  # fmt: skip
THREADS = "threads"  # of a learner


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration, with different seeds."""

    name: str
    runs: Sequence[RunDir]


def group_runs(runs: Sequence[RunDir]) -> list[RunGroup]:
    """The runs by configuration, in the order of the first run of each. Two runs with one seed are two groups, and so
    is a run whose config cannot be read."""
    found: dict[str, list[tuple[Any, RunDir]]] = {}
    for run in runs:
        config = read_config(run)
        key = json.dumps(experiment(config), sort_keys=True) if config else str(run.path)
        turn = sum(seed == config.get("seed") for seed, _ in found.get(key, ()))
        found.setdefault(key if turn == 0 else f"{key} {run.path}", []).append((config.get("seed"), run))
    return [RunGroup(_name(members), [run for _, run in members]) for members in found.values()]


def experiment(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a configuration that make an experiment, flat, with the options of its own learner only."""
    others = {name for name in learner_names() if name != config.get("learner")}
    flat = flat_config({key: value for key, value in config.items() if key not in others})
    return {key: value for key, value in flat if not _ignored(key)}


def differences(runs: Sequence[RunDir]) -> dict[str, list[Any]]:
    """The keys in which the configurations of runs differ, with the value of each run; None where it has none. What a
    run only shows or stores of itself is not named."""
    configs = [dict(flat_config(read_config(run))) for run in runs]
    keys = [key for key in dict.fromkeys(key for config in configs for key in config) if key not in ("name", "tables")]
    values = {key: [config.get(key) for config in configs] for key in keys}
    learners = {str(config.get("learner")) for config in configs}
    unused = tuple(f"{name}." for name in learner_names() if name not in learners)
    return {
        key: found
        for key, found in values.items()
        if any(value != found[0] for value in found) and not key.startswith(("tables.", "monitor.", *unused))
    }


def read_config(run: RunDir) -> dict[str, Any]:
    """The configuration of a run; {} if it cannot be read."""
    try:
        return rename_old_keys(run.read_config())  # so that runs of earlier versions compare
    except (RookeryError, OSError):
        return {}


def _ignored(key: str) -> bool:
    section, _, name = key.rpartition(".")
    return bool({key, key.partition(".")[0]} & NOT_COMPARED) or (name == THREADS and section in learner_names())


def flat_config(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a configuration with those of its sections, such as `ppo.clip`, and their values."""
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from flat_config(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _name(members: Sequence[tuple[Any, RunDir]]) -> str:
    """The run's name; of several, the part of their names that does not contain the seed, if they agree in it."""
    names = [run.name for _, run in members]
    if len(names) == 1:
        return names[0]
    without = {re.sub(rf"-s{re.escape(str(seed))}(?=[_-]|$)", "", run.name) for seed, run in members}
    shared = without.pop() if len(without) == 1 else f"{names[0]} and others"
    return f"{shared} ({len(names)} seeds)"


COLUMNS = ("run", "last eval>", "95 % interval", "best eval>", "steps>", "time>", "steps/s>", "state")
LONGEST_VALUE = 40


def group_rows(groups: Sequence[RunGroup]) -> list[dict[str, Any]]:
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
        interval = "-" if row["interval"] is None else " to ".join(map(number, row["interval"]))
        evaluations = (number(row["last_eval"]), interval, number(row["best_eval"]))
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


def _value_text(value: Any) -> str:
    from rookery.console import printable

    text = "-" if value is None else printable(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
