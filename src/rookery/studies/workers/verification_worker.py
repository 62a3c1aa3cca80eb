"""What a worker does once all trials have ended: it trains the best of them with held-out seeds, with the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rookery.config import RunConfig
from rookery.errors import RunBusy
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.storage.trial_attributes import SETTINGS
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import INTERRUPTED, reason_of, train_part
from rookery.studies.trials.plans import plan_for
from rookery.studies.trials.trial_plan import TrialPart
from rookery.studies.trials.verification import (
    add_value,
    failed_facts,
    is_verified,
    known_value,
    part_lock,
    to_verify,
    verified_facts,
)
from rookery.studies.workers.stop_signals import StopSignals

POLL_SECONDS = 0.5  # while other workers have what is left


class VerificationWorker:
    """Verifies the best trials of a study. Workers divide the runs between them by locks."""

    def __init__(self, store: StudyStore, base: RunConfig, stop: StopSignals, tell: Callable[..., None]) -> None:
        """`base` is the configuration of the study; `tell` is called with facts for the supervisor."""
        self.store, self.base, self.stop, self.tell = store, base, stop, tell
        self.plan = plan_for(base)

    def run(self) -> None:
        """Until all are verified, or it is asked to stop."""
        parts = parts_to_verify(self.store, self.base)
        while not self.stop:
            open_numbers = [number for number in parts if not is_verified(self.store.study, number)]
            if not open_numbers:
                return
            if not any([self._verify(number, parts[number]) for number in open_numbers]):
                time.sleep(POLL_SECONDS)

    def _verify(self, number: int, parts: Sequence[TrialPart]) -> bool:
        """Train those parts of a trial that no other worker has; returns whether anything was done."""
        busy = False
        for part in parts:
            if self.stop:
                return True
            if known_value(part) is not None:
                continue
            with part_lock(self.store.folder.workers, part) as free:
                if not free or known_value(part) is not None:
                    continue
                busy = True
                reason = self._train(number, part)
            if reason:
                self.store.set_verified(number, failed_facts(parts, reason))
                return True
        facts = verified_facts(self.plan, parts)
        if facts is not None:
            self.store.set_verified(number, facts)
            self.tell(event="verified", trial=number, value=facts["iqm"])
        return busy or facts is not None

    def _train(self, number: int, part: TrialPart) -> str:
        """Train a part; returns why it cannot be valued, or ""."""
        self.tell(event="verify", trial=number, part=part.name)
        try:
            outcome = train_part(part)
        except RunBusy as error:
            return reason_of(error)
        if outcome.state == INTERRUPTED:
            self.stop.noticed()
            return ""
        return add_value(self.plan, part, outcome)


def parts_to_verify(store: StudyStore, base: RunConfig) -> dict[int, list[TrialPart]]:
    """The runs of each trial that is to be verified, the best trial first."""
    plan, runs = plan_for(base), store.folder.runs
    chosen = to_verify(store.study.get_trials(deepcopy=False), base.search.verify)
    configs = {trial.number: trial_config(base, trial.user_attrs[SETTINGS], trial.number, runs) for trial in chosen}
    return {number: plan.verify_parts(config) for number, config in configs.items()}
