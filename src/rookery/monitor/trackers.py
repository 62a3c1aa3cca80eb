"""Experiment trackers: Weights & Biases and MLflow, imported only if they are used.

They get the facts named in `FACTS` and the scalars, never environment variables, the command line or files.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rookery.errors import MissingExtra, OptionError
from rookery.files import read_plain, replace_file
from rookery.monitor.events import Event, scalars

FACTS = ("run", "world", "learner", "num_envs", "backend", "workers", "groups", "device", "steps", "seed")
LONGEST_ID = 1 << 20


class Tracker(ABC):
    """What both trackers share. The service's id of the run is stored in the run's folder, and used on resume."""

    package: str

    def __init__(self, project: str = "rookery", **options: Any) -> None:
        """`options` are passed to the service's call that starts a run. Fails at once if its package is missing."""
        self._module = _imported(self.package)
        self._project, self._options = project, options
        self._started = False

    def write(self, event: Event) -> None:
        if event.kind == "start":
            self._begin(event.values)
        elif event.kind == "end" and self._started:
            self._finish(str(event.values.get("reason", "finished")))
        elif self._started:
            finite = {name: value for name, value in scalars(event).items() if math.isfinite(value)}
            if finite:
                self._log(finite, event.step)

    def close(self) -> None:
        """A run that is closed before its end event has failed."""
        if self._started:
            self._finish("failed")

    def _begin(self, facts: Mapping[str, Any]) -> None:
        id_file = Path(facts["path"]) / f"{self.package}.id"
        resumed = facts.get("resumed_from") is not None and id_file.is_file()
        known = read_plain(id_file, LONGEST_ID).decode("utf-8", "replace").strip() if resumed else None
        sent = {name: facts[name] for name in FACTS if facts.get(name) is not None}
        run_id = self._start(str(facts["run"]), Path(facts["path"]), sent, known)
        self._started = True
        replace_file(id_file, [f"{run_id}\n".encode()])

    def _finish(self, reason: str) -> None:
        self._started = False
        self._stop(reason)

    @abstractmethod
    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        """Start a run, or resume the one of that id; returns the service's id of it."""

    @abstractmethod
    def _log(self, values: dict[str, float], step: int) -> None: ...

    @abstractmethod
    def _stop(self, reason: str) -> None: ...


class WandB(Tracker):
    """Weights & Biases, without code, git state and console output."""

    package = "wandb"

    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        quiet = self._module.Settings(disable_git=True, console="off")
        defaults: dict[str, Any] = {"project": self._project, "name": run, "dir": str(folder), "save_code": False}
        resume = {"id": known_id, "resume": "allow"} if known_id else {}
        self._run = self._module.init(**{**defaults, "config": facts, "settings": quiet, **resume, **self._options})
        return str(self._run.id)

    def _log(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def _stop(self, reason: str) -> None:
        self._run.finish(exit_code=1 if reason.startswith("failed") else 0)


class MLflow(Tracker):
    """MLflow, with the tracking server of its own settings."""

    package = "mlflow"

    def _start(self, run: str, folder: Path, facts: dict[str, Any], known_id: str | None) -> str:
        self._module.set_experiment(self._project)
        which = {"run_id": known_id} if known_id else {"run_name": run}
        started = self._module.start_run(**{**which, **self._options})
        if not known_id:  # parameters cannot be set twice
            self._module.log_params(facts)
        return str(started.info.run_id)

    def _log(self, values: dict[str, float], step: int) -> None:
        self._module.log_metrics(values, step=step)

    def _stop(self, reason: str) -> None:
        status = {"failed": "FAILED", "interrupted": "KILLED"}.get(reason.partition(":")[0], "FINISHED")
        self._module.end_run(status=status)


TRACKERS: dict[str, type[Tracker]] = {"wandb": WandB, "mlflow": MLflow}


def make_tracker(name: str, **options: Any) -> Tracker:
    """The tracker of that name, a sink for a run."""
    if name not in TRACKERS:
        raise OptionError(f"unknown tracker {name!r}; valid: {', '.join(TRACKERS)}")
    return TRACKERS[name](**options)


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers whose package is not installed, before anything is started."""
    for name in names:
        if find_spec(TRACKERS[name].package) is None:
            raise _missing(name)


def _missing(package: str) -> MissingExtra:
    return MissingExtra(f"tracking with {package} needs its package: pip install {package}")


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise _missing(package) from None
