"""A trial that a worker has claimed: which of its parts are left, and what they make of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rookery.config import RunConfig
from rookery.studies.storage.claim import Claim
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.trial_attributes import INTERVAL, SECONDS
from rookery.studies.trials.part_training import FAILED, FINISHED, PartOutcome, outcome_of
from rookery.studies.trials.pruning import BY_EVALUATIONS, PRUNED, pruning_callback
from rookery.studies.trials.trial_plan import TrialPart, TrialPlan, Values
from rookery.training.run.callbacks import Callback
from rookery.training.storage.run_dir import RunDir

WILCOXON = "wilcoxon"


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
        """Seconds of training, also of a part that was interrupted."""
        left = [part for part in self._plan.first_parts(self.config) if part.name not in self.values]
        begun = [outcome_of(RunDir(self._folder.runs / part.run_name)) for part in left]
        return self._recorded_seconds() + sum(outcome.seconds for outcome in begun if outcome is not None)

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
        seconds = self._recorded_seconds()
        self.claim.set_attribute(SECONDS, seconds)
        with_seconds = self._search.objectives != "value"
        self.claim.finish([self.total, seconds / len(self.values)] if with_seconds else [self.total])
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

    def _recorded_seconds(self) -> float:
        return sum(part.get("seconds") or 0.0 for part in self.claim.parts.values())
