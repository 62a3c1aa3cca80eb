"""What a worker does once no trial is left to begin: it trains parts of the last ones, such as folds, last first.
The worker of such a trial finds them trained when it comes to them, or waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from optuna.trial import TrialState

from rookery.config import RunConfig
from rookery.errors import RookeryError, RunBusy
from rookery.studies.storage.leases import owner_is_here
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.storage.trial_view import PARTS, SETTINGS
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import FINISHED, HELPED, INTERRUPTED, part_lock, train_part
from rookery.studies.trials.plans import TrialPart, plan_for
from rookery.studies.workers.limits import StopSignals


def trains_one_by_one(base: RunConfig) -> bool:
    """Whether a worker trains the parts of a trial one after another: on one core, where they would only drive each
    other out of its cache, or so that a bad one spares the others."""
    one_core = base.workers == 1 and not base.device.startswith("cuda")
    return one_core or (base.search.population.size == 1 and base.search.pruner != "none")


class PartHelper:
    """Trains parts of trials that other workers of this machine have."""

    def __init__(self, store: StudyStore, base: RunConfig, stop: StopSignals, tell: Callable[..., None]) -> None:
        """`base` is the configuration of the study; `tell` is called with facts for the supervisor."""
        self.store, self.base, self.stop, self.tell = store, base, stop, tell
        self.plan = plan_for(base)
        self._first_parts: dict[int, list[TrialPart]] = {}  # by trial; finding those of crypto takes 34 ms

    def train(self) -> bool:
        """Train one part; returns whether there was one."""
        for number, part in self._open_parts() if trains_one_by_one(self.base) else ():
            with part_lock(self.store.folder.workers, part) as free:
                # What somebody has begun is left to its own worker: it may be what kills those that train it.
                if free and not (self.store.folder.runs / part.run_name).exists():
                    self._train(number, part)
                    return True
        return False

    def _train(self, number: int, part: TrialPart) -> None:
        self.tell(event="help", trial=number, part=part.name, seconds_left=self.base.search.trial_timeout)
        try:
            outcome = train_part(part)
            if outcome.state == FINISHED:
                outcome.run.remember(**{HELPED: True})
            elif outcome.state == INTERRUPTED:
                self.stop.noticed()
        except RunBusy:
            """Somebody else trains it."""
        self.tell(event="helped", trial=number, part=part.name)

    def _open_parts(self) -> Iterator[tuple[int, TrialPart]]:
        """The parts of running trials that are not known, but for each trial's next one, the last ones first."""
        leases = self.store.storage.transaction(self.store.leases.running)
        here = {lease.trial_id for lease in leases if not lease.expired and owner_is_here(lease.owner)}
        for trial in self.store.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            settings = trial.user_attrs.get(SETTINGS)
            if trial._trial_id not in here or settings is None:
                continue
            if trial.number not in self._first_parts:
                try:
                    config = trial_config(self.base, settings, trial.number, self.store.folder.runs)
                    self._first_parts[trial.number] = self.plan.first_parts(config)
                except RookeryError:  # its own worker says what is wrong with it
                    continue
            known = trial.user_attrs.get(PARTS, {})
            left = [part for part in self._first_parts[trial.number] if part.name not in known]
            yield from ((trial.number, part) for part in reversed(left[1:]))
