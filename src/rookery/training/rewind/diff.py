"""`rookery.diff`: where two runs part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.errors import CheckpointError, OptionError
from rookery.gate import allow_given
from rookery.monitor.jsonl import history
from rookery.training.rewind.replay import Replay
from rookery.training.rewind.trees import StateDifference, differences
from rookery.training.storage.checkpoint import Checkpoints, load
from rookery.training.storage.moments import recorded_episodes
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import differences as config_differences
from rookery.training.storage.run_history import segments
from rookery.training.storage.runs_table import NamedRun, find_runs
from rookery.user_code import end_import

# Where two runs part by what they recorded: lines of progress, evaluations, episodes, and checkpoints.

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


SHOWN = 8  # arrays that differ at the step


@dataclass(frozen=True)
class DiffResult:
    """Returned by `rookery.diff`."""

    runs: tuple[str, str]
    step: int | None  # the first one after which the runs differ; None if they are equal as far as both go
    update: int | None  # updates made by then, if the step was found by playing both runs again
    agree_at: int | None  # the last step at which they are known to be equal
    source: str  # "replay", or the kind of record that shows it: "progress", "evaluation", "episode", "checkpoint"
    differences: list[StateDifference]  # at that step, causes first
    config: dict[str, tuple[Any, Any]]  # keys that differ
    made_with: dict[str, tuple[str, str]]  # versions and machines that differ

    @property
    def equal(self) -> bool:
        """Whether nothing was found that differs."""
        return self.step is None

    @property
    def env(self) -> int | None:
        """The first env that differs, where envs do and the weights do not."""
        weights = any(difference.name.startswith("agent.") for difference in self.differences)
        found = (difference.env for difference in self.differences if difference.env is not None)
        return None if weights else next(found, None)

    @property
    def layer(self) -> str | None:
        """The first parameter of the policy that differs."""
        name = next((found.name for found in self.differences if found.name.startswith("agent.policy.")), None)
        return None if name is None else name.removeprefix("agent.policy.")

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        found = [{"name": each.name, "count": each.count, "largest": each.largest, "text": str(each)}
                 for each in self.differences]  # fmt: skip
        return {
            "runs": list(self.runs), "equal": self.equal, "step": self.step, "update": self.update,
            "agree_at": self.agree_at, "source": self.source, "env": self.env, "layer": self.layer,
            "differences": found, "config": {key: list(pair) for key, pair in self.config.items()},
            "made_with": {key: list(pair) for key, pair in self.made_with.items()},
        }  # fmt: skip

    def print(self) -> None:
        """Print it."""
        print(self._verdict())
        for difference in self.differences[:SHOWN]:
            print(f"  {difference}")
        if len(self.differences) > SHOWN:
            print(f"  and {len(self.differences) - SHOWN} more")
        for title, pairs in (("config", self.config), ("made with", self.made_with)):
            for key, (one, other) in pairs.items():
                print(f"{title}: {key}: {one} and {other}")

    def _verdict(self) -> str:
        names = " and ".join(self.runs)
        if self.step is None:
            return f"{names} are equal in all that both recorded"
        agree = "" if self.agree_at is None else f" agree at step {self.agree_at:,} and"
        update = "" if self.update is None else f", after {self.update:,} updates"
        env = "" if self.env is None else f", in env {self.env}"
        return f"{names}{agree} differ at step {self.step:,}{update}{env} ({self.source})"


def diff(
    one: NamedRun, other: NamedRun, *, replay: bool = True, runs_dir: str | Path = "runs", trust: bool = False
) -> DiffResult:
    """Where two runs part: the first step, env and layer that differs, and by how much; with the keys of the
    configuration, the versions and the machines that differ.

    What both recorded is compared first: metrics, evaluations, episodes and checkpoints. Then both are played again
    from the last step at which they agree to the first at which they do not, step by step.

    Args:
        one: A result of `rookery.train`, or a run by its name, its path or as "latest".
        other: Another run.
        replay: Whether runs are played again, for the exact step.
        runs_dir: The folder of the runs.
        trust: Execute the Python files that the runs name without asking.
    """
    end_import("rookery.diff")
    allow_given([one, other])
    runs = find_runs([one, other], runs_dir)
    if len(runs) != 2:
        raise OptionError("two different runs are compared; these are one")
    findings = compare_records(*runs)
    parted = next((finding for finding in findings if finding.different), None)
    agreed = [finding.step for finding in findings if parted is None or finding.step < parted.step]
    last = max(agreed, default=None)
    found = None
    if parted is not None and replay and _same_rounds(*runs):
        low = max(0 if last is None else last, *map(_first_step, runs))
        found = _played(runs, low, max(low, parted.step), Path(runs_dir), trust)
    return _result(runs, parted, last, found)


@dataclass(frozen=True)
class Parting:
    """Where two runs that are played again part."""

    before: int | None  # the last step at which they are equal
    step: int
    updates: int
    different: list[StateDifference]


def _result(runs: list[RunDir], parted: Finding | None, last: int | None, found: Parting | None) -> DiffResult:
    facts: dict[str, Any] = {"step": None, "update": None, "agree_at": last, "source": "", "differences": []}
    if found is not None:
        facts = {"step": found.step, "update": found.updates, "agree_at": found.before, "source": "replay"}
        facts["differences"] = found.different
    elif parted is not None:
        facts |= {"step": parted.step, "source": parted.kind, "differences": parted.different}
    config = {key: (values[0], values[1]) for key, values in config_differences(runs).items()}
    return DiffResult(runs=(runs[0].name, runs[1].name), config=config, made_with=_made_with(runs), **facts)


def _made_with(runs: list[RunDir]) -> dict[str, tuple[str, str]]:
    """Versions and machines of the last opening of each."""
    made: list[dict[str, str]] = []
    for run in runs:
        parts = segments(run)
        made.append({**parts[-1].versions, "machine": parts[-1].machine} if parts else {})
    keys = [key for key in dict.fromkeys([*made[0], *made[1]]) if made[0].get(key) != made[1].get(key)]
    return {key: (made[0].get(key, "unknown"), made[1].get(key, "unknown")) for key in keys}


def _first_step(run: RunDir) -> int:
    """Where the run begins: a fork, at the moment at which it left its parent."""
    return next((part.step for part in segments(run)), 0)


def _same_rounds(one: RunDir, other: RunDir) -> bool:
    """Whether both count their steps alike: else no two states of theirs can be compared."""
    configs = [run.read_config() for run in (one, other)]
    return all(configs[0].get(key) == configs[1].get(key) for key in ("num_envs", "learner"))


def _played(runs: list[RunDir], low: int, high: int, runs_dir: Path, trust: bool) -> Parting | None:
    """Play both again: rollout by rollout, and from the last one at which they are equal step by step."""
    coarse = _parting(runs, low, high, None, runs_dir, trust)
    if coarse is None or coarse.before is None:
        return coarse
    return _parting(runs, coarse.before, coarse.step, 1, runs_dir, trust) or coarse


def _parting(runs: list[RunDir], low: int, high: int, most: int | None, runs_dir: Path, trust: bool) -> Parting | None:
    """The first difference after the step `low`, up to `high`; None if the difference does not repeat."""
    with ExitStack() as stack:
        pair = [stack.enter_context(closing(Replay(run, low, runs_dir, trust))) for run in runs]
        start = max(low, *(replay.began_at for replay in pair))
        for replay in pair:
            replay.to_step(start)
        before: int | None = None
        while True:
            loops = [replay.loop for replay in pair]
            found = differences(*(loop.tree() for loop in loops))
            if found:
                return Parting(before, loops[0].steps, loops[0].learner.updates, found)
            before = loops[0].steps
            if before >= high or any(replay.over for replay in pair):
                return None
            for replay in pair:
                replay.round(most)
