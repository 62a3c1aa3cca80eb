"""Which run belongs to each seed: one that is there already, finished or not, or a new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import experiment, read_config
from rookery.training.storage.runs_table import row

NEW, RESUME, FINISHED = "new", "resume", "finished"
OPEN = (None, "auto")  # values that a run fills in
ENGINE = ("num_envs", "backend", "groups", "device")  # measured where the user leaves them open


@dataclass(frozen=True)
class SeedRun:
    """The run of one seed, and what is left to do about it: NEW, RESUME or FINISHED."""

    seed: int
    run: RunDir
    state: str


def seed_runs(resolved: ResolvedRun, seeds: Sequence[int]) -> list[SeedRun]:
    """The run of each seed. A run in the runs folder with the same configuration and seed is used again; with a name
    given, only if it has that name too."""
    base = Path(resolved.config.runs_dir)
    known = list(_known_runs(base))
    return [_seed_run(resolved, seed, base, known) for seed in seeds]


def with_known_engine(config: RunConfig, resolved: ResolvedRun) -> dict[str, Any]:
    """The engine of the newest run with this configuration, for the keys that the user leaves open: a second
    measurement may give another number of envs, and the seeds would not be comparable."""
    left_open = [key for key in ENGINE if getattr(config, key) in OPEN]
    wanted = {key: value for key, value in _experiment(resolved).items() if key not in left_open}
    for _, recorded in sorted(_known_runs(Path(config.runs_dir)), key=lambda known: -known[0].created):
        if _matches(wanted, recorded) and _has_name(config.name, recorded):
            return {key: recorded[key] for key in left_open if recorded.get(key) not in OPEN}
    return {}


def name_of(resolved: ResolvedRun, seed: int) -> str:
    """The name of a seed's run."""
    name = resolved.config.name
    return resolved.with_config(seed=seed).title if name is None else f"{name}-s{seed}"


def _seed_run(
    resolved: ResolvedRun, seed: int, base: Path, known: Sequence[tuple[RunDir, Mapping[str, Any]]]
) -> SeedRun:
    wanted, name = _experiment(resolved), name_of(resolved, seed)
    for run, recorded in reversed(known):
        same = recorded.get("seed") == seed and _matches(wanted, recorded)
        if same and (resolved.config.name is None or recorded.get("name") == name):
            return SeedRun(seed, run, FINISHED if row(run)["state"] == "finished" else RESUME)
    return SeedRun(seed, RunDir(base / _free_name(base, name)), NEW)


def _known_runs(base: Path) -> Iterator[tuple[RunDir, dict[str, Any]]]:
    """All runs, the oldest first, with their configurations."""
    for run in RunDir.all(base):
        recorded = read_config(run)
        if recorded:
            yield run, recorded


def _experiment(resolved: ResolvedRun) -> dict[str, Any]:
    return experiment(resolved.config.model_dump(mode="json"))


def _matches(wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    have = experiment(recorded)
    return all(value in OPEN or have.get(key) == value for key, value in wanted.items())


def _has_name(name: str | None, recorded: Mapping[str, Any]) -> bool:
    return name is None or recorded.get("name") == f"{name}-s{recorded.get('seed')}"


def _free_name(base: Path, name: str) -> str:
    """The name, or with a number behind it, if another run has it."""
    number = 1
    while (base / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return name if number == 1 else f"{name}-{number}"
