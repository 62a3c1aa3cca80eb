"""Where two runs part by what they recorded: lines of progress, evaluations, episodes, and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rookery.errors import CheckpointError
from rookery.monitor.jsonl import history
from rookery.training.rewind.trees import StateDifference, differences
from rookery.training.storage.checkpoint import Checkpoints, load
from rookery.training.storage.moments import recorded_episodes
from rookery.training.storage.run_dir import RunDir

SEEDED = ("episodes", "updates", "learning_rate")  # and all losses, returns and results of evaluations


@dataclass(frozen=True)
class Finding:
    """Whether two runs agree at a step, by one kind of record."""

    step: int
    kind: str
    different: list[StateDifference]


def compare_records(one: RunDir, other: RunDir) -> list[Finding]:
    """All that both have recorded, in the order of steps."""
    found = [*_metrics(one, other), *_episodes(one, other), *_checkpoints(one, other)]
    return sorted(found, key=lambda finding: finding.step)


def _metrics(one: RunDir, other: RunDir) -> Iterator[Finding]:
    """Lines of one step: of progress, of evaluations, and of checkpoints, which have a hash of the agent."""
    rows = [_rows(run) for run in (one, other)]
    for key in rows[0].keys() & rows[1].keys():
        kind, step = key
        pair = rows[0][key], rows[1][key]
        names = [name for name in pair[0] if name in pair[1] and pair[0][name] != pair[1][name]]
        yield Finding(step, kind, [StateDifference(name, values=(pair[0][name], pair[1][name])) for name in names])


def _rows(run: RunDir) -> dict[tuple[str, int], dict[str, Any]]:
    events = history(run.metrics) if run.metrics.is_file() else []
    kinds = ("progress", "evaluation", "checkpoint")
    return {(event.kind, event.step): _seeded(event.kind, event.values) for event in events if event.kind in kinds}


def _seeded(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that follow from the seed. An off-policy learner's losses are means since the run was opened."""
    if kind == "checkpoint":
        return {"agent": values["agent"]} if values.get("agent") else {}
    if kind == "evaluation":
        return {name: value for name, value in values.items() if name not in ("eval/seconds", "eval/restarts")}
    losses = ("loss/", "episode/") if "episodes_in_rollout" in values else ("episode/",)
    return {name: value for name, value in values.items() if name in SEEDED or name.startswith(losses)}


def _episodes(one: RunDir, other: RunDir) -> Iterator[Finding]:
    """The first episode that differs, and the last one before it."""
    equal: Finding | None = None
    for pair in zip(recorded_episodes(one), recorded_episodes(other), strict=False):
        names = [name for name in pair[0] if name != "step" and pair[0][name] != pair[1][name]]
        step = min(row["step"] for row in pair)
        if names:
            number, env = pair[0]["episode"], pair[0]["env"]
            texts = [
                StateDifference(f"episode {number} of env {env}: {x}", values=(pair[0][x], pair[1][x])) for x in names
            ]
            yield from [equal] if equal is not None else []
            yield Finding(step, "episode", texts)
            return
        equal = Finding(step, "episode", [])


def _checkpoints(one: RunDir, other: RunDir) -> Iterator[Finding]:
    entries = [{entry.step: entry.path for entry in Checkpoints(run.checkpoints).entries()} for run in (one, other)]
    for step in sorted(entries[0].keys() & entries[1].keys()):
        try:
            trees = [load(places[step]) for places in entries]
        except CheckpointError:
            continue
        yield Finding(step, "checkpoint", differences(*trees))
