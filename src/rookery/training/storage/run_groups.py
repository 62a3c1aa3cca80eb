"""Which runs differ only in their seed, and in what the others differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rookery.errors import RookeryError
from rookery.learners.own_learners import learner_names
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
    """The keys in which the configurations of runs differ, with the value of each run; None where it has none."""
    configs = [dict(flat_config(read_config(run))) for run in runs]
    keys = [key for key in dict.fromkeys(key for config in configs for key in config) if key not in ("name", "tables")]
    values = {key: [config.get(key) for config in configs] for key in keys}
    learners = {str(config.get("learner")) for config in configs}
    unused = tuple(f"{name}." for name in learner_names() if name not in learners)
    return {
        key: found
        for key, found in values.items()
        if any(value != found[0] for value in found) and not key.startswith(("tables.", *unused))
    }


def read_config(run: RunDir) -> dict[str, Any]:
    """The configuration of a run; {} if it cannot be read."""
    try:
        return run.read_config()
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
