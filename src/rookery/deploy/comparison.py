"""Who may become the champion, what was compared before, and the comparison itself, by the gate of the world.

A candidate is the best verified trial of a study, or a run. Every comparison is logged before it begins, so that one
that is killed counts too.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rookery.config import RunConfig, build_config
from rookery.console import printable
from rookery.deploy.gates import EPISODES, GAMES, GateResult, evaluation_gate, games_gate
from rookery.deploy.market_conditions import Limits
from rookery.deploy.market_gate import last_segment, market_gate, share_bars
from rookery.deploy.registry import Registry, Version
from rookery.deploy.registry_files import Entry
from rookery.errors import OptionError, RegistryError, RunError, StudyError
from rookery.studies.storage.study_view import StudyView, VerifiedTrial, open_study
from rookery.studies.trials.plans import is_market, metric_of
from rookery.training.resolve import world_choice
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run
from rookery.worlds import registry as worlds

Kind = Literal["market", "games", "episodes"]
DECISIONS = ("promote", "refuse")


@dataclass(frozen=True)
class ComparisonOptions:
    """How agents are compared. `margin` and `episodes` are the gate's own if they are omitted."""

    margin: float | None = None
    episodes: int | None = None
    seed: int | None = None
    trust: bool = False
    stop: Callable[[], bool] = lambda: False


def gate_kind(config: RunConfig) -> Kind:
    """Which gate a world has. It imports the world's code, so the run should have been checked."""
    if is_market(config):
        return "market"
    opponents = [opponent for phase in config.all_phases for opponent in phase.opponents]
    if config.evaluation.opponents or opponents:
        return "games"
    world = world_choice.find(config.world, config.takes_compiled, config.learner, config.world_options)
    spec = worlds.by_source(world.source)
    is_game = (spec is not None and spec.two_player is not None) or world_choice.num_agents(world) == 2
    return "games" if is_game else "episodes"


def compare(
    candidate: Candidate,
    run: RunDir,
    champion: RunDir | None,
    history: History,
    options: ComparisonOptions,
    log: Callable[[dict[str, Any]], None],
) -> GateResult | None:
    """Compare the agent in `run`, a version made from the candidate or its own folder, with the champion. `log` is
    called with what decides about the comparison before anything is played. None if it was stopped."""
    config = candidate.config
    check_run(candidate.run, config, options.trust, playing=True)
    kind = gate_kind(config)
    if kind == "market":
        # There are no new bars for every comparison, so that each one counts as an attempt in those that follow.
        segment = last_segment(run).key
        before = history.comparisons_on(segment)
        log({"gate": kind, "segment": segment, "comparisons_before": before})
        study = candidate.study or StudyView(candidate.run.name, None, "", True, ())
        limits = Limits().with_margin(options.margin)
        return market_gate(run, champion, study=study, comparisons=before, limits=limits)
    seed = _unused_seed(options.seed, history)
    count = options.episodes or (GAMES if kind == "games" else EPISODES)
    log({"gate": kind, "seed": seed, "episodes": count})
    how: dict[str, Any] = {
        "seed": seed,
        "margin": options.margin or 0.0,
        "checkpoint": candidate.checkpoint,
        "trust": options.trust,
        "stop": options.stop,
    }
    if kind == "games":
        return games_gate(run, champion, games=count, **how)
    return evaluation_gate(run, champion, episodes=count, **how)


def _unused_seed(given: int | None, history: History) -> int:
    """A seed that no comparison in this registry has used: agents are compared on new episodes."""
    if given is not None and given in history.seeds:
        raise OptionError(f"seed = {given}: a comparison has used it, and agents are compared on new episodes; omit it")
    seed = secrets.randbits(62) if given is None else given
    while seed in history.seeds:
        seed = secrets.randbits(62)
    return seed


class History:
    """The past of a registry, read once."""

    def __init__(self, registry: Registry) -> None:
        self.entries: Sequence[Entry] = registry.audit() if registry.exists else []
        self._versions = (
            [version for version in registry.versions() if _is_readable(version)] if registry.exists else []
        )

    @property
    def seeds(self) -> set[int]:
        """Seeds of all comparisons, also of those that were never finished."""
        return {entry["evidence"]["seed"] for entry in self._comparisons() if "seed" in entry["evidence"]}

    def comparisons_on(self, segment: str) -> int:
        """How many comparisons were begun on these bars, or on some of them."""
        used = [entry["evidence"]["segment"] for entry in self._comparisons() if "segment" in entry["evidence"]]
        return sum(share_bars(key, segment) for key in used)

    def decision(self, version: int, champion: int | None) -> Entry | None:
        """The last decision about a version against this champion."""
        found = [entry for entry in self._about(version, *DECISIONS) if entry.get("from") == champion]
        return found[-1] if found else None

    def version_of(self, candidate: Candidate, step: int) -> Version | None:
        """The version that was made from the same checkpoint."""
        return next((version for version in self._versions if _is_same(version.about, candidate, step)), None)

    def promoted_trial(self, candidate: Candidate) -> int | None:
        """The version by which the candidate's trial, with whatever seed, was promoted before."""
        for version in self._versions:
            if self._about(version.number, "promote") and _is_same_trial(version.about, candidate):
                return version.number
        return None

    def _about(self, version: int, *what: str) -> list[Entry]:
        return [entry for entry in self.entries if entry["what"] in what and entry.get("version") == version]

    def _comparisons(self) -> list[Entry]:
        return [entry for entry in self.entries if entry["what"] == "compare" and isinstance(entry["evidence"], dict)]


def _is_readable(version: Version) -> bool:
    """Whether a version says what it is. An old one that is damaged must not stop all others."""
    try:
        return bool(version.about)
    except RegistryError:
        return False


def _is_same(about: dict[str, Any], candidate: Candidate, step: int) -> bool:
    mine = candidate.run.id or str(candidate.run.path.resolve())
    theirs = about.get("run_id") or about.get("run_path")
    return mine == theirs and about.get("step") == step


def _is_same_trial(about: dict[str, Any], candidate: Candidate) -> bool:
    """A study that was deleted and begun again has the same name and numbers, and other runs."""
    if candidate.study is None:
        return about.get("run_id") is not None and about["run_id"] == candidate.run.id
    same = about.get("study") == candidate.study.name and about.get("trial") == candidate.trial
    return same and about.get("run_id") in candidate.sibling_ids


@dataclass(frozen=True)
class Candidate:
    """A run, and what is known about where it comes from. `checkpoint` is which of its agents is meant."""

    run: RunDir
    checkpoint: str = "best"  # or "latest"
    study: StudyView | None = None
    trial: int | None = None
    sibling_ids: frozenset[str] = field(default_factory=frozenset)  # of all verified runs of the trial

    @property
    def config(self) -> RunConfig:
        return build_config(self.run.read_config())

    @property
    def name(self) -> str:
        """For messages."""
        if self.study is None:
            return f"run {self.run.name}"
        return f"trial {self.trial} of study {printable(self.study.name)} ({self.run.name})"

    @property
    def source(self) -> dict[str, Any]:
        """As a version records it."""
        return {"study": None if self.study is None else self.study.name, "trial": self.trial}


def find_candidate(
    what: str | Path,
    *,
    studies_dir: str | Path = "studies",
    runs_dir: str | Path = "runs",
    storage: str | None = None,
    checkpoint: str | None = None,
) -> Candidate | None:
    """The candidate of a study or run; None if no trial of the study is verified yet. `checkpoint` is "best" or
    "latest"; if omitted, the one whose value the study compared, and the best of a single run."""
    study = _study(what, studies_dir, runs_dir, storage)
    if study is None:
        return Candidate(RunDir.find(what, Path(runs_dir)), checkpoint or "best")
    trial = study.best_verified
    if trial is None:
        return None
    runs = [_inside(study, path) for path in trial.runs]
    run = runs[_best_run(trial, study.maximise)]
    if not run.path.is_dir():
        raise StudyError(f"study {printable(study.name)}: {printable(run.path)} is missing, the run of its best trial")
    ids = frozenset(found.id for found in runs if found.id is not None)
    return Candidate(run, checkpoint or _usual_checkpoint(run), study, trial.number, ids)


def _study(what: str | Path, studies_dir: str | Path, runs_dir: str | Path, storage: str | None) -> StudyView | None:
    """The study of this name; None if a run is meant."""
    try:
        RunDir.find(what, Path(runs_dir))
    except RunError as error:
        return _read_study(what, studies_dir, storage, error)
    if storage is None and not _is_study(what, studies_dir):
        return None
    if Path(what).is_absolute() or storage is not None:
        return open_study(what, studies_dir, storage)
    raise RegistryError(
        f"{printable(what)} is a study and a run: give the path, such as {printable(Path(studies_dir) / what)}"
    )


def _read_study(what: str | Path, studies_dir: str | Path, storage: str | None, no_run: RunError) -> StudyView:
    try:
        return open_study(what, studies_dir, storage)
    except StudyError as error:
        if storage is not None or _is_study(what, studies_dir):
            raise
        raise StudyError(f"{error}; nor is it a run: {no_run}") from None


def _is_study(what: str | Path, studies_dir: str | Path) -> bool:
    return any(
        (place / name).is_file()
        for place in (Path(studies_dir) / what, Path(what))
        for name in ("study.json", "study.db")
    )


def _inside(study: StudyView, path: str) -> RunDir:
    """A run of a study. Its path is from the study's database: it must not lead out of the study's folder."""
    if study.folder is None:
        raise StudyError(
            f"study {printable(study.name)} has no folder here, and so no runs: name its folder, not its database"
        )
    found = (study.folder / path).resolve()
    if not found.is_relative_to(study.folder.resolve()):
        raise StudyError(f"study {printable(study.name)}: its run {printable(path)!r} is outside of the study's folder")
    return RunDir(found)


def _best_run(trial: VerifiedTrial, maximise: bool) -> int:
    """The index of the run with the best value. The gate measures it again, so that the luck of the choice does not
    count."""
    if not trial.runs:
        raise StudyError(f"trial {trial.number} was verified, and its runs are not recorded")
    values = list(trial.values.values())
    if len(values) != len(trial.runs):
        return 0
    sign = 1 if maximise else -1
    return max(range(len(values)), key=lambda k: sign * values[k] if math.isfinite(values[k]) else -math.inf)


def _usual_checkpoint(run: RunDir) -> str:
    """The checkpoint that a study's metric is about."""
    return "latest" if metric_of(build_config(run.read_config())) == "evaluation" else "best"
