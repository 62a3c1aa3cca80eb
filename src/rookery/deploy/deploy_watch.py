"""`rookery deploy --watch`: follow a study, and promote what is better as soon as it is verified."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rookery.console import printable
from rookery.deploy.candidate import find_candidate
from rookery.deploy.comparison import ComparisonOptions
from rookery.deploy.history import History
from rookery.deploy.promotion import Deployer, Deployment
from rookery.deploy.registry import Registry
from rookery.errors import CheckpointError, DataError, FileError, RegistryError, RunError, StudyError
from rookery.monitor.alerts import Alerts

EVERY = 60.0  # seconds between two looks at the study
PASSING = (StudyError, RegistryError, RunError, CheckpointError, FileError, DataError, OSError)  # may be over soon


class Watcher:
    """Follows one study for one registry. What it has decided is in the registry's log, so that a new watcher goes on
    where the last one ended, and promotes no trial twice."""

    def __init__(
        self,
        study: str | Path,
        to: str | Path,
        options: ComparisonOptions | None = None,
        *,
        where: dict[str, Any] | None = None,
        alerts: Alerts | None = None,
        tell: Callable[[str], None] = print,
        on_decision: Callable[[Deployment], None] = lambda decision: None,
    ) -> None:
        """`where` holds options of `find_candidate`. `tell` gets a line per decision, and one when the study cannot be
        read; `on_decision` every decision."""
        self.study, self.where, self.tell, self.on_decision = study, where or {}, tell, on_decision
        self._stopped = threading.Event()
        options = replace(options or ComparisonOptions(), stop=self._stopped.is_set)
        self._registry = Registry(to)
        self._deployer = Deployer(self._registry, options, dry_run=False, alerts=alerts or Alerts.from_environment())
        self._told = ""

    def stop(self) -> None:
        """End `run` soon, also from a signal handler. A comparison that is going on is given up."""
        self._stopped.set()

    def run(self, every: float = EVERY) -> None:
        """Look at the study again and again, until `stop()`."""
        while not self._stopped.is_set():
            try:
                self.look()
            except PASSING as error:
                self._tell(f"waiting: {error}")
            self._stopped.wait(every)

    def look(self) -> Deployment | None:
        """Look once; returns the decision, or None if there is nothing to decide."""
        candidate = find_candidate(self.study, **self.where)
        if candidate is None:
            self._tell(f"waiting: no trial of {printable(self.study)} is verified yet")
            return None
        version = History(self._registry).promoted_trial(candidate)
        if version is not None:
            self._tell(f"nothing new: {candidate.name} was promoted as version {version}")
            return None
        decision = self._deployer.decide(candidate)
        self._tell(f"{decision.action}: {decision.text}")
        self.on_decision(decision)
        return decision

    def _tell(self, line: str) -> None:
        if line != self._told:  # a study that is not there for a day is one line
            self.tell(line)
        self._told = line
