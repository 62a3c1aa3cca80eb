"""Takes trials from a study and records what becomes of them, wherever they are trained."""

from __future__ import annotations

from collections.abc import Callable

from optuna.trial import TrialState

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import LeaseLost, RookeryError, StorageLost
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.claim import Claim
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.storage.trial_attributes import PARTS
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import reason_of
from rookery.studies.trials.plans import plan_for
from rookery.studies.trials.trial_plan import Values
from rookery.studies.workers.limits import Verdicts
from rookery.studies.workers.open_trial import OpenTrial

LEASE = "lease"  # the state of a trial that another worker has taken over


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
