"""Takes trials from a study and records what becomes of them, wherever they are trained: which parts of a trial are
left, and what follows from their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optuna.trial import TrialState

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import LeaseLost, RookeryError, StorageLost
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import Claim, StudyStore
from rookery.studies.storage.trial_view import INTERVAL, PARTS, SECONDS
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import FAILED, FINISHED, HELPED, PartOutcome, outcome_of, reason_of
from rookery.studies.trials.plans import TrialPart, TrialPlan, Values, plan_for
from rookery.studies.trials.pruning import BY_EVALUATIONS, PRUNED, pruning_callback
from rookery.studies.workers.limits import Verdicts
from rookery.training.run.callbacks import Callback
from rookery.training.storage.run_dir import RunDir

LEASE = "lease"  # the state of a trial that another worker has taken over
WILCOXON = "wilcoxon"


class TrialClaims:
    """Claims the trials of a study, one after another."""

    def __init__(self, store: StudyStore, base: RunConfig, name: str, tell: Callable[..., None]) -> None:
        """`name` is this worker's; `tell` is called with facts for the supervisor."""
        self.store, self.base, self.name, self.tell = store, base, name, tell
        self.folder, self.search = store.folder, base.search
        self.space, self.plan = SearchSpace.of(base), plan_for(base)
        self.verdicts = Verdicts(self.folder.workers)

    def next_trial(self) -> OpenTrial | None:
        """The next trial; None if there is none to begin now. Those whose settings cannot work fail at once."""
        while (claim := self.store.claim(self.name, self.search.n_trials)) is not None:
            trial = self._opened(claim)
            if trial is not None:
                return trial
        return None

    def all_done(self) -> bool:
        """Whether nothing is left to begin or to wait for."""
        return self.store.all_done(self.search.n_trials)

    def other_values(self) -> list[Values]:
        """The values of the parts of all finished trials."""
        finished = self.store.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        parts = [trial.user_attrs.get(PARTS, {}) for trial in finished]
        return [{name: p["value"] for name, p in each.items() if p.get("value") is not None} for each in parts]

    def record(self, trial: OpenTrial, write: Callable[[], None]) -> None:
        """Write something about a trial, and tell the supervisor if it is over. A trial that another worker has taken
        over is not this one's any more."""
        try:
            write()
        except LeaseLost as error:
            say(str(error))
            trial.state = LEASE
        if trial.state:
            self.tell(event="end", trial=trial.number, state=trial.state, reason=trial.reason, value=trial.total)

    def release(self, trial: OpenTrial) -> None:
        """Give a trial back that was interrupted."""
        trial.claim.release()
        self.tell(event="end", trial=trial.number, state="interrupted", reason="", value=None)

    def _opened(self, claim: Claim) -> OpenTrial | None:
        verdict = self.verdicts.take(claim.number)
        if verdict is not None:
            self._failed(claim, verdict)
            self.verdicts.forget(claim.number)
            return None
        try:
            settings = claim.suggest(self.space.suggest)
            config = trial_config(self.base, settings, claim.number, self.folder.runs)
            return OpenTrial(claim, config, self.plan, self.base, self.folder)
        except (StorageLost, LeaseLost):
            raise
        except RookeryError as error:
            self._failed(claim, reason_of(error))
            return None

    def _failed(self, claim: Claim, reason: str) -> None:
        claim.fail(reason)
        self.tell(event="end", trial=claim.number, state="failed", reason=reason, value=None)


class OpenTrial:
    """A claimed trial and its parts. It is over once `state` is not ""."""

    def __init__(self, claim: Claim, config: RunConfig, plan: TrialPlan, base: RunConfig, folder: StudyFolder) -> None:
        """`config` is that of the trial, `base` that of the study."""
        self.claim, self.config, self._plan, self._folder = claim, config, plan, folder
        self._search = base.search
        self.values = {name: part["value"] for name, part in claim.parts.items() if part.get("value") is not None}
        self._first = [part.name for part in plan.first_parts(config)]
        self.state, self.reason = "", ""
        self.total: float | None = None

    @property
    def number(self) -> int:
        return self.claim.number

    def next_parts(self, others: Sequence[Values]) -> list[TrialPart]:
        """The parts to train now; none if the trial is complete."""
        first = [part for part in self._plan.first_parts(self.config) if part.name not in self.values]
        return first or self._plan.more_parts(self.config, self.values, others)

    def seconds_so_far(self) -> float:
        """Seconds of training, also of parts that were interrupted: one, or several side by side."""
        left = [part for part in self._plan.first_parts(self.config) if part.name not in self.values]
        begun = [outcome_of(RunDir(self._folder.runs / part.run_name)) for part in left]
        interrupted = max((outcome.seconds for outcome in begun if outcome is not None), default=0.0)
        return wall_seconds(self.claim.parts) + interrupted

    def watcher(self, part: TrialPart) -> Callback | None:
        """The callback that may prune a part."""
        if self._search.pruner in BY_EVALUATIONS and part.name == self._first[0]:
            return pruning_callback(self.claim, part.config)
        return None

    def add(self, part: TrialPart, outcome: PartOutcome) -> None:
        """Record what became of a part. One that was interrupted from outside stays open."""
        if outcome.state == FAILED:
            self.claim.set_part(part.name, outcome.facts(None, self._folder.path))
            self.fail(f"{part.name}: {outcome.reason}")
        elif outcome.state == FINISHED:
            self._add_value(part, outcome)
        elif outcome.reason == PRUNED:
            self.claim.set_part(part.name, outcome.facts(None, self._folder.path))
            self._prune(f"{part.name} was behind others at step {outcome.steps}")

    def fail(self, reason: str) -> None:
        self.claim.fail(reason)
        self.state, self.reason = "failed", reason

    def finish(self) -> None:
        """Record the trial's value, from those of its parts."""
        self.total = self._plan.total(self.values)
        interval = self._plan.interval(self.values)
        if interval is not None:
            self.claim.set_attribute(INTERVAL, list(interval))
        self.claim.set_attribute(SECONDS, wall_seconds(self.claim.parts))
        each = [part.get("seconds") or 0.0 for part in self.claim.parts.values()]
        with_seconds = self._search.objectives != "value"
        self.claim.finish([self.total, sum(each) / len(self.values)] if with_seconds else [self.total])
        self.state = "finished"

    def _add_value(self, part: TrialPart, outcome: PartOutcome) -> None:
        value = self._plan.value(part, outcome.run)
        self.claim.set_part(part.name, outcome.facts(value if math.isfinite(value) else None, self._folder.path))
        if not math.isfinite(value):
            self.fail(f"{part.name}: its value is {value}: the run has diverged, or was never evaluated")
            return
        self.values[part.name] = value
        if self._search.pruner == WILCOXON:
            self.claim.report(value, len(self.values) - 1)
            if self.claim.should_prune():
                self._prune(f"behind the best trial after {len(self.values)} of its parts")

    def _prune(self, reason: str) -> None:
        self.claim.prune(reason)
        self.state, self.reason = "pruned", reason


def wall_seconds(parts: Mapping[str, Mapping[str, Any]]) -> float:
    """How long the parts of a trial took: those that were trained side by side took their time together, and those that
    another worker trained for it took none.

    >>> wall_seconds({"a": {"seconds": 8.0, "beside": "first"}, "b": {"seconds": 9.0, "beside": "first"}})
    9.0
    >>> wall_seconds({"a": {"seconds": 8.0}, "b": {"seconds": 9.0}})
    17.0
    >>> wall_seconds({"a": {"seconds": 8.0}, "b": {"seconds": 9.0, "beside": HELPED}})
    8.0
    """
    longest: dict[str, float] = {}
    for name, part in parts.items():
        group = part.get("beside") or f"{name} alone"
        if group == HELPED:
            continue
        longest[group] = max(longest.get(group, 0.0), part.get("seconds") or 0.0)
    return sum(longest.values())
