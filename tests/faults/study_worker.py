"""A worker of a study whose trials are small: each step adds to a sum that is saved as a run saves checkpoints.

Every step that is begun is noted, so that a test sees which were made twice.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import optuna

from rookery.errors import LeaseLost, StudyError
from rookery.files import replace_file
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import Claim, StudyStore

EXIT_STOPPED = 3


def settings_of(trial: optuna.Trial) -> dict[str, Any]:
    return {"x": trial.suggest_float("x", -5.0, 5.0), "rate": trial.suggest_float("rate", 1e-6, 1e-3, log=True)}


def value_of(settings: dict[str, Any], steps: int) -> float:
    """What a trial must have reached, whoever trained it."""
    total = 0.0
    for step in range(steps):
        total += settings["x"] * settings["rate"] * step
    return total


def train(folder: StudyFolder, claim: Claim, steps: int, seconds: float) -> float:
    settings = claim.suggest(settings_of)
    checkpoint = folder.runs / f"trial-{claim.number:05d}.json"
    step, total = json.loads(checkpoint.read_text()) if checkpoint.exists() else (0, 0.0)
    while step < steps:
        note(folder, {"trial": claim.number, "step": step, "pid": os.getpid()})
        time.sleep(seconds)
        total, step = total + settings["x"] * settings["rate"] * step, step + 1
        claim.renew()
        replace_file(checkpoint, [json.dumps([step, total]).encode()])
    return total


def note(folder: StudyFolder, about: dict[str, int]) -> None:
    with (folder.path / "notes.jsonl").open("a") as file:
        file.write(json.dumps(about) + "\n")


def work(folder: StudyFolder, store: StudyStore, n_trials: int, steps: int, seconds: float) -> None:
    while not store.all_done(n_trials):
        claim = store.claim(f"worker {os.getpid()}", n_trials)
        if claim is None:
            time.sleep(0.1)
            continue
        try:
            with claim.keep():
                claim.finish(train(folder, claim, steps, seconds))
        except LeaseLost:
            continue


def main(
    path: str, n_trials: int, steps: int, seconds: float, storage: str = "", patience: float = 60.0, lease: float = 5.0
) -> int:
    """Train trials until all are done; returns the exit status: 3, after one sentence, where it must stop."""
    try:
        folder = StudyFolder.create(Path(path).parent, Path(path).name, storage or None)
        sampler = optuna.samplers.RandomSampler(seed=1)
        with StudyStore.open(folder, storage or None, None, sampler, patience=patience, lease_seconds=lease) as store:
            work(folder, store, n_trials, steps, seconds)
    except StudyError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return EXIT_STOPPED
    return 0
