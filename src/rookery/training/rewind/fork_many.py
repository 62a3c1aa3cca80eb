"""`rookery.fork_many`: several forks from one moment, side by side, and how much of their difference was luck."""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import RunConfig, build_config
from rookery.console import say
from rookery.engine.machine import available_memory, usable_cores
from rookery.errors import OptionError
from rookery.gate import allow_given
from rookery.monitor.formatting import count, number
from rookery.printing import plain_table
from rookery.training.seeds.processes import NEW, SeedProcesses, SeedRun, Shares, divide
from rookery.training.seeds.train_seeds import seed_list
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import NamedRun, find_runs, row
from rookery.training.storage.trust import check_run
from rookery.user_code import end_import

MOST = 200
POLL_SECONDS = 0.1
HEADS = ("fork", "seed", "settings", "steps", "last eval", "best eval", "state")


@dataclass(frozen=True)
class ForksResult:
    """Returned by `rookery.fork_many`."""

    parent: dict[str, Any]  # a row of `rookery runs`
    forks: list[dict[str, Any]]  # such rows, each with its `seed` (None: the parent's), `settings`, `state` and `error`
    at: int | str  # the moment

    @property
    def luck(self) -> float | None:
        """How far seeds alone move the last evaluation: its standard deviation among forks with the same settings."""
        groups = [values for values in self._scores().values() if len(values) > 1]
        spread = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in groups)
        free = sum(len(values) - 1 for values in groups)
        return (spread / free) ** 0.5 if free else None

    @property
    def effect(self) -> float | None:
        """How far settings move it: the largest difference between the means of two settings."""
        means = [float(np.mean(values)) for values in self._scores().values()]
        return max(means) - min(means) if len(means) > 1 else None

    def _scores(self) -> dict[str, list[float]]:
        found = defaultdict[str, list[float]](list)
        for fork in self.forks:
            if fork["last_eval"] is not None:
                found[json.dumps(fork["settings"])].append(fork["last_eval"])
        return found

    @property
    def verdict(self) -> str:
        """How much was luck."""
        luck, effect = self.luck, self.effect
        if luck is None and effect is None:
            return "no two forks have an evaluation that could be compared"
        if luck is None:
            return (
                f"settings move the last evaluation by {number(effect)}; with --seeds you know how much of it is luck"
            )
        said = f"seeds alone move the last evaluation by {number(luck)} (standard deviation)"
        return said if effect is None else f"{said}, settings by {number(effect)} (largest difference of two means)"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        facts = {"luck": self.luck, "effect": self.effect, "verdict": self.verdict}
        return {"parent": self.parent, "forks": self.forks, "at": self.at, **facts}

    def print(self) -> None:
        """Print the table, the parent first."""
        rows = [{**self.parent, "seed": None, "settings": {}}, *self.forks]
        print(*plain_table(HEADS, [_cells(each) for each in rows]), sep="\n")
        for fork in self.forks:
            if fork["error"]:
                print(f"{fork['name']} failed: {fork['error']}")
        print(self.verdict)


def _cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    seed = "" if found["seed"] is None else str(found["seed"])
    settings = ", ".join(f"{key}={value}" for key, value in found["settings"].items())
    scores = ("" if found[key] is None else number(found[key]) for key in ("last_eval", "best_eval"))
    return str(found["name"]), seed, settings, count(found["steps"] or 0), *scores, str(found["state"])


def fork_many(
    run: NamedRun,
    at: int | str,
    *,
    settings: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] | None = None,
    name: str | None = None,
    steps: int | None = None,
    jobs: int | None = None,
    runs_dir: str | Path = "runs",
    trust: bool = False,
) -> ForksResult:
    """Fork a run several times from one moment, in processes side by side: once for each combination of settings and
    seeds.

    Args:
        run: The parent: a result of `rookery.train`, or a run by its name, its path or as "latest".
        at: The moment, as for `rookery.rewind`: a step, or a word such as "drop".
        settings: Values of settings that a resume can change, such as `{"ppo.clip": [0.1, 0.2]}`.
        seeds: How many seeds, counted from the one after the parent's; or a list of them.
        name: What the names of the forks begin with; if omitted, that of their parent and "-fork".
        steps: Train until each fork has so many steps in all; if omitted, as many as the parent.
        jobs: How many are trained at a time; if omitted, by cores and backend.
        runs_dir: The folder of the runs.
        trust: Execute the Python files that the run names without asking.
    """
    end_import("rookery.fork_many")
    allow_given(run)
    (parent,) = find_runs([run], runs_dir)
    config = build_config(parent.read_config())
    check_run(parent, config, trust)
    wanted = _wanted(config, settings or {}, seeds)
    base = name or f"{parent.path.resolve().name}-fork"
    members = [SeedRun(config.seed if seed is None else seed, RunDir(Path(runs_dir) / _name(base, seed, values)), NEW)
               for values, seed in wanted]  # fmt: skip
    taken = next((member.run.name for member in members if member.run.path.exists()), None)
    if taken is not None:
        raise OptionError(f"there is a run {taken!r} already: give the forks another `name`")
    said = [str(parent.path), "--at", str(at), "--runs-dir", str(runs_dir), "--no-panel"]
    said += [] if steps is None else ["--steps", str(steps)]
    said += ["--trust"] if trust else []
    words = {member.run.name: [*said, *_words(seed, values)]
             for member, (values, seed) in zip(members, wanted, strict=True)}  # fmt: skip
    shares = divide(config, len(members), usable_cores(), available_memory(), jobs)
    say(f"{len(members)} forks of {parent.name} at {at}, {shares.jobs} at a time")
    with (
        tempfile.TemporaryDirectory(prefix="rookery-forks-") as scratch,
        ForkProcesses(config, members, shares, Path(scratch), words) as processes,
    ):
        while processes.advance():
            time.sleep(POLL_SECONDS)
        rows = [_row(processes, one, *each) for one, each in zip(processes.all, wanted, strict=True)]
    return ForksResult(dict(row(parent)), rows, at)


class ForkProcesses(SeedProcesses):
    """Runs `rookery fork` once for each fork."""

    def __init__(
        self, config: RunConfig, runs: Sequence[SeedRun], shares: Shares, scratch: Path, words: Mapping[str, list[str]]
    ) -> None:
        super().__init__(config, runs, shares, scratch)
        self._words = words

    def _arguments(self, seed_run: SeedRun) -> list[str]:
        return ["fork", *self._words[seed_run.run.name], "--name", seed_run.run.name]


def _wanted(
    config: RunConfig, settings: Mapping[str, Sequence[Any]], seeds: int | Sequence[int] | None
) -> list[tuple[dict[str, Any], int | None]]:
    if isinstance(seeds, int):
        seeds = seed_list(str(seeds), config.seed + 1)
    combined = [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]
    drawn: Sequence[int | None] = seeds or [None]
    found = [(values, seed) for values in combined for seed in drawn]
    if not 2 <= len(found) <= MOST:
        raise OptionError(f"give several seeds, or several values of a setting: 2 to {MOST} forks, not {len(found)}")
    return found


def _name(base: str, seed: int | None, values: Mapping[str, Any]) -> str:
    parts = [f"{key.rpartition('.')[2]}={value}" for key, value in values.items()]
    return "-".join([base, *parts, *([] if seed is None else [f"s{seed}"])])


def _words(seed: int | None, values: Mapping[str, Any]) -> list[str]:
    found = [] if seed is None else ["--seed", str(seed)]
    return found + [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]


def _row(processes: SeedProcesses, one: Any, values: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
    run = one.seed_run.run
    empty = {"name": run.name, "steps": None, "last_eval": None, "best_eval": None, "path": str(run.path)}
    found = row(run) if run.path.is_dir() else empty
    error = processes.output(one) or f"exit status {one.status}" if one.state == "failed" else None
    return {**found, "seed": seed, "settings": dict(values), "state": one.state, "error": error}
