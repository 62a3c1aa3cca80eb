"""Starts workers of a study, does them harm, and looks at what became of their trials."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import optuna

from faults.study_worker import main, value_of
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore


class Workers:
    """Worker processes of one study. They are forked: that takes no time, and they share nothing that matters."""

    def __init__(
        self, folder: Path, n_trials: int, steps: int, seconds: float, storage: str = "", **options: float
    ) -> None:
        self.folder, self.n_trials, self.steps, self.storage = StudyFolder(folder), n_trials, steps, storage
        self._work = (str(folder), n_trials, steps, seconds, storage)
        self._options = options
        self.running: list[BaseProcess] = []
        self.harmed = 0

    def start(self, count: int = 1) -> None:
        self.folder.path.mkdir(parents=True, exist_ok=True)
        for _ in range(count):
            process = get_context("fork").Process(target=self._run)
            process.start()
            self.running.append(process)

    def _run(self) -> None:
        with open(self.folder.path / f"said-{os.getpid()}", "w") as said:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os._exit(main(*self._work, **self._options))

    def kill(self, worker: BaseProcess) -> None:
        worker.kill()
        worker.join()
        worker.close()
        self.running.remove(worker)
        self.harmed += 1

    def wait(self, seconds: float = 60.0) -> list[tuple[int | None, str]]:
        """The exit status and the messages of every worker, in the order in which they were started."""
        ends = []
        for worker in self.running:
            worker.join(seconds)
            ends.append((worker.exitcode, (self.folder.path / f"said-{worker.pid}").read_text()))
        self.close()
        return ends

    def notes(self) -> list[dict[str, int]]:
        """Every step that a worker began."""
        try:
            return [json.loads(line) for line in (self.folder.path / "notes.jsonl").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        with StudyStore.open(self.folder, self.storage or None, patience=10.0) as store:
            return store.study.get_trials()

    def check_complete(self) -> None:
        """All trials have ended once, with the value that an undisturbed one has, and went on from checkpoints."""
        trials = self.trials()
        assert [trial.number for trial in trials] == list(range(self.n_trials))
        assert [trial.state.name for trial in trials] == ["COMPLETE"] * self.n_trials
        for trial in trials:
            assert trial.value == value_of(trial.params, self.steps)
        made = Counter((note["trial"], note["step"]) for note in self.notes())
        assert set(made) == {(trial, step) for trial in range(self.n_trials) for step in range(self.steps)}
        again = sum(made.values()) - len(made)
        assert again <= self.harmed, f"{again} steps were made again after {self.harmed} kills"

    def close(self) -> None:
        for worker in self.running:
            worker.kill()
            worker.join()
            worker.close()
        self.running = []


@contextlib.contextmanager
def workers_of(folder: Path, *args: object, **options: object) -> Iterator[Workers]:
    workers = Workers(folder, *args, **options)  # type: ignore[arg-type]
    try:
        yield workers
    finally:
        workers.close()


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
