"""Trains the parts of trials, as ordinary runs: new ones are begun, interrupted ones resumed, finished ones read. Parts
that differ in numbers, seeds and windows only train side by side, as one program."""

from __future__ import annotations

import errno
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from rookery.config import RunConfig
from rookery.console import printable, say, silent
from rookery.errors import RookeryError, RunBusy, RunError
from rookery.files import open_plain, try_lock
from rookery.studies.trials.plans import TrialPart
from rookery.studies.trials.pruning import PRUNED
from rookery.training.population.batchable import batchable_groups
from rookery.training.population.members import MemberPlan
from rookery.training.population.train_population import recorded_config, run_population
from rookery.training.run.callbacks import Callback, Result, make_callback
from rookery.training.run.out_of_memory import is_out_of_memory, release_memory
from rookery.training.run.train import resume, train
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config

FINISHED, INTERRUPTED, FAILED = "finished", "interrupted", "failed"
ENDED = ("finished", "goal reached")  # reasons of a run that needs no further training
COMPARED = {"learner", "seed", "steps", "episodes", "num_envs", "reward_scale"}
LONGEST_REASON = 300  # characters of an error
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
HELPED = "helped"  # in run.json: another worker than its trial's has trained it
DISK_PATIENCE, DISK_PAUSE = 300.0, 2.0  # seconds: as long as a study waits for its database

Watcher = Callable[[TrialPart], Callback | None]


@dataclass(frozen=True)
class PartOutcome:
    """What became of a part. An interrupted one has a checkpoint, and continues from there."""

    state: str  # FINISHED, INTERRUPTED or FAILED
    run: RunDir
    seconds: float = 0.0  # of training, with those before an interruption
    steps: int = 0
    reason: str = ""  # of a failure, in one line
    beside: str = ""  # the first run of those that it was trained side by side with, whose seconds are the same; or
    # HELPED, if its trial did not wait for it

    def facts(self, value: float | None, study: Path) -> dict[str, Any]:
        """What the study records about it; paths are relative to the study's folder."""
        path = self.run.path.resolve()
        place = path.relative_to(study.resolve()) if path.is_relative_to(study.resolve()) else path
        return {
            "value": value, "run": str(place), "seconds": round(self.seconds, 3), "steps": self.steps,
            "reason": self.reason, **({"beside": self.beside} if self.beside else {}),
        }  # fmt: skip


def train_parts(
    parts: Sequence[TrialPart],
    locks: Path,
    is_wanted: Callable[[TrialPart], bool],
    watcher: Watcher = lambda part: None,
    done: Callable[[TrialPart, PartOutcome], None] = lambda part, outcome: None,
) -> bool:
    """Train parts of one or several trials, one after another; returns whether other workers train some of them.

    Args:
        locks: The folder of the locks of parts.
        is_wanted: Asked before each part. A run that is under way stops on SIGTERM, as always.
        watcher: Makes a callback for a part, such as one that stops bad runs.
        done: Called after each part.
    """
    is_waiting = False
    for part in filter(is_wanted, parts):
        with part_lock(locks, part) as free:
            outcome = train_part(part, watcher(part)) if free else None
        if outcome is None:
            is_waiting = True
        else:
            done(part, outcome)
    return is_waiting


@contextmanager
def part_lock(folder: Path, part: TrialPart) -> Iterator[bool]:
    """Whether this process may train the part: not while another one does. A killed process holds no lock."""
    path = folder / f"{part.run_name}.lock"
    fd = _locked(path)
    try:
        yield fd is not None
    finally:
        if fd is not None:
            with suppress(OSError):  # Windows removes no open file
                path.unlink()
            os.close(fd)


def _locked(path: Path) -> int | None:
    """A descriptor of the file, locked; None while another process has it. Its holder removes the file at the end: one
    that was opened before that, and locked after it, has lost its name, and the next one is opened."""
    while True:
        fd, is_named = open_plain(path, os.O_RDWR | os.O_CREAT), False
        try:
            try_lock(fd)
            with suppress(FileNotFoundError):
                is_named = os.path.samestat(os.fstat(fd), path.stat())
        except BlockingIOError:
            return None
        finally:
            if not is_named:
                os.close(fd)
        if is_named:
            return fd


def train_part(part: TrialPart, watcher: Callback | None = None) -> PartOutcome:
    """Train one part, from its last checkpoint if its run is there already. An error is an outcome too; its traceback
    is printed on standard error."""
    folder = RunDir(Path(part.config.runs_dir) / part.run_name)
    known = known_outcome(part)
    if known is not None:
        return known
    give_up = time.monotonic() + DISK_PATIENCE
    try:
        while True:
            try:
                with silent():
                    result = _trained(part.config, folder, watcher)
                break
            except OSError as error:  # the trial is not to blame, and its run continues from its checkpoint
                if error.errno not in DISK_FULL or time.monotonic() > give_up:
                    raise
                say(f"{part.run_name}: {error}: trying again for {DISK_PATIENCE:.0f} s")
                time.sleep(DISK_PAUSE)
    except (KeyboardInterrupt, SystemExit):  # before the first step: there is nothing to save
        return PartOutcome(INTERRUPTED, folder)
    except RunBusy:
        raise
    except Exception as error:  # noqa: BLE001 - of the user's env, or of settings that do not work together
        say(f"{part.run_name} failed\n{''.join(traceback.format_exception(error)).rstrip()}")
        return PartOutcome(FAILED, folder, reason=reason_of(error))
    return outcome_from(result)


def known_outcome(part: TrialPart) -> PartOutcome | None:
    """The outcome of a part that has been trained to its end; None if it has not."""
    folder = RunDir(Path(part.config.runs_dir) / part.run_name)
    known = outcome_of(folder)
    if known is None or known.state != FINISHED or not _is_of(part.config, read_config(folder)):
        return None
    return replace(known, beside=HELPED) if folder.birth().get(HELPED) else known


def outcome_from(result: Result) -> PartOutcome:
    """The outcome of a run that has returned."""
    state, why = (FINISHED, "") if result.reason in ENDED else (INTERRUPTED, result.reason)
    return PartOutcome(state, RunDir(result.path), result.seconds, result.total_steps, why)


def outcome_of(run: RunDir) -> PartOutcome | None:
    """What the run's folder says about it; None if there is no such run, or nothing to read yet."""
    try:
        summary = run.read_summary()
    except RunError:
        return None
    if summary is None:
        return None
    reason = str(summary.get("reason", ""))
    state = FINISHED if reason in ENDED else FAILED if reason.startswith("failed") else INTERRUPTED
    numbers = [summary.get(key) for key in ("seconds", "steps")]
    seconds, steps = (value if isinstance(value, int | float) else 0 for value in numbers)
    return PartOutcome(state, run, float(seconds), int(steps), "" if state == FINISHED else reason)


def reason_of(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return printable(text)[:LONGEST_REASON]


def _trained(config: RunConfig, folder: RunDir, watcher: Callback | None) -> Result:
    own = [] if watcher is None else [watcher]
    if has_begun(config, folder):
        return resume(folder.path, callbacks=[*config.callbacks, *own], trust=True)
    return train(config, callbacks=[*map(make_callback, config.callbacks), *own])


def has_begun(config: RunConfig, folder: RunDir) -> bool:
    """Whether the run in this folder is one to resume. A run that was killed before it began is removed, and the run of
    another study, whose files were lost, is set aside."""
    if not folder.path.exists():
        return False
    with folder.lock():
        return _is_resumable(config, folder)


def _is_resumable(config: RunConfig, folder: RunDir) -> bool:
    if not folder.config.is_file():
        shutil.rmtree(folder.path)
        return False
    if _is_of(config, read_config(folder)):
        return True
    aside = next(path for k in count(1) if not (path := folder.path.with_name(f"{folder.name}.old-{k}")).exists())
    folder.path.rename(aside)
    say(f"{folder.name} has other settings than its trial: it was renamed to {aside.name}")
    return False


def _is_of(config: RunConfig, recorded: Mapping[str, Any]) -> bool:
    """Whether a run was recorded with the numbers of this configuration: those that are given, of the run and of its
    learner."""
    section = config.model_dump(mode="json", exclude_unset=True).get(config.learner, {})
    theirs = recorded.get(config.learner)
    same = isinstance(theirs, Mapping) and all(theirs.get(key) == value for key, value in section.items())
    return same and all(recorded.get(key) == getattr(config, key) for key in COMPARED & config.model_fields_set)


def batches(parts: Sequence[TrialPart]) -> list[list[TrialPart]]:
    """The parts in groups that can train as one program; a part that can with no other is a group of its own."""
    return [[parts[place] for place in places] for places in batchable_groups([part.config for part in parts])]


def train_together(
    parts: Sequence[TrialPart], watcher: Watcher, stop: Callable[[], bool] = lambda: False
) -> dict[str, PartOutcome]:
    """Train parts of one group; returns the outcome of each by the name of its run. After a stop, those that have not
    begun have none. If memory runs out, each half of the group is trained on its own; a part that fails for another
    reason is tried again alone."""
    found = {part.run_name: known_outcome(part) for part in parts}
    outcomes = {name: outcome for name, outcome in found.items() if outcome is not None}
    left = [part for part in parts if part.run_name not in outcomes]
    if len(left) < 2:
        return outcomes | _one_by_one(left, watcher, stop)
    trained, errors = _side_by_side(left, watcher)
    outcomes |= trained
    again = [part for part in left if part.run_name not in trained]
    if not again or stop():
        return outcomes
    is_shortage = any(is_out_of_memory(error) for error in errors)
    how = "in two halves" if is_shortage and len(again) > 1 else "one by one"
    say(f"{len(again)} of {len(left)} runs train {how}, as they could not side by side: {reason_of(errors[0])}")
    errors.clear()  # and with them what they refer to
    if not is_shortage:
        return outcomes | _one_by_one(again, watcher, stop)
    release_memory()
    middle = (len(again) + 1) // 2
    return outcomes | train_together(again[:middle], watcher, stop) | train_together(again[middle:], watcher, stop)


def _side_by_side(parts: Sequence[TrialPart], watcher: Watcher) -> tuple[dict[str, PartOutcome], list[Exception]]:
    """The outcomes of parts as one program, without those that failed, and why these did."""
    folders = [RunDir(Path(part.config.runs_dir) / part.run_name) for part in parts]
    try:
        results = run_population([_plan(*one, watcher) for one in zip(parts, folders, strict=True)])
    except (KeyboardInterrupt, SystemExit):  # before the first step
        stopped = zip(parts, folders, strict=True)
        return {part.run_name: PartOutcome(INTERRUPTED, folder) for part, folder in stopped}, []
    except RunBusy:
        raise
    except Exception as error:
        if not isinstance(error, RookeryError) and not is_out_of_memory(error):
            raise
        return {}, [error.with_traceback(None)]
    ended = {
        part.run_name: replace(outcome_from(result), beside=parts[0].run_name)
        for part, result in zip(parts, results, strict=True)
        if not isinstance(result, Exception)
    }
    return ended, [result.with_traceback(None) for result in results if isinstance(result, Exception)]


def _one_by_one(parts: Sequence[TrialPart], watcher: Watcher, stop: Callable[[], bool]) -> dict[str, PartOutcome]:
    outcomes: dict[str, PartOutcome] = {}
    for part in parts:
        if stop():
            break
        outcomes[part.run_name] = outcome = train_part(part, watcher(part))
        if outcome.state == INTERRUPTED and outcome.reason != PRUNED:  # its run has taken the signal
            break
    return outcomes


def _plan(part: TrialPart, folder: RunDir, watcher: Watcher) -> MemberPlan:
    own = watcher(part)
    callbacks = None if own is None else [*map(make_callback, part.config.callbacks), own]
    if has_begun(part.config, folder):
        return MemberPlan(recorded_config(folder), folder, callbacks=callbacks)
    return MemberPlan(part.config, callbacks=callbacks)
