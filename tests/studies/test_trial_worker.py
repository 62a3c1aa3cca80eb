"""Workers claim trials, train their parts and verify the best. Training itself is replaced by a formula here."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path

import pytest

from rookery.config import build_config
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import open_store
from rookery.studies.storage.study_view import open_study
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import FAILED, FINISHED, INTERRUPTED, PartOutcome, batches
from rookery.studies.trials.plans import SeedPlan
from rookery.studies.workers.limits import StopSignals, Verdicts
from rookery.studies.workers.trial_claims import OpenTrial
from rookery.studies.workers.trial_worker import TIME, TrialWorker
from rookery.studies.workers.verification import VerificationWorker
from rookery.training.storage.run_dir import RunDir

SPACE = {"ppo.learning_rate": {"log": [1e-5, 1e-1]}}


@pytest.fixture
def stop():
    """A worker's stop; signals are as before afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield StopSignals()
    for number, handler in before.items():
        signal.signal(number, handler)


class Training:
    """Stands for training: the value of a run is a formula of its learning rate and its seed."""

    def __init__(self):
        self.trained: list[str] = []
        self.noise = 0.1
        self.on_part = lambda part: None  # may return another outcome

    def value(self, config):
        return -abs(math.log10(config.ppo.learning_rate) + 3) + self.noise * math.sin(config.seed)

    def __call__(self, part, watcher=None):
        run = RunDir(Path(part.config.runs_dir) / part.run_name)
        run.path.mkdir(parents=True, exist_ok=True)
        other = self.on_part(part)
        if other is not None:
            state, reason = other
            return PartOutcome(state, run, 1.0, 10, reason)
        self.trained.append(part.run_name)
        run.write_summary(
            {"eval/return": self.value(part.config), "reason": "finished", "seconds": 1.0, "steps": part.config.steps}
        )
        return PartOutcome(FINISHED, run, 1.0, part.config.steps)


@pytest.fixture
def training(monkeypatch):
    made = Training()
    monkeypatch.setattr("rookery.studies.trials.part_training.train_part", made)
    monkeypatch.setattr("rookery.studies.workers.verification.train_part", made)
    monkeypatch.setattr("rookery.studies.trials.part_training.train_part", made)
    monkeypatch.setattr("rookery.studies.workers.trial_worker.batches", lambda parts: [[part] for part in parts])
    return made


def config(tmp_path, **search):
    options = {"num_envs": 4, "backend": "kernel", "learner": "ppo", "steps": 1000}
    wanted = {"space": SPACE, "n_trials": 4, "studies_dir": str(tmp_path), **search}
    return build_config("CartPole-v1", **options, search=wanted)


def run_worker(base, stop, name="x", verify=True, told=None):
    """What one worker does from its start to its end; returns the study."""
    folder = StudyFolder.create(base.search.studies_dir, name)
    with open_store(folder, base) as store:
        store.enqueue(SearchSpace.of(base).first_trials(base))
        tell = (lambda **facts: None) if told is None else (lambda **facts: told.append(facts))
        TrialWorker(store, base, "worker", stop, tell).run()
        if verify and not stop:
            VerificationWorker(store, base, stop, tell).run()
    return open_study(folder.path)


def test_a_search_ends_with_a_verified_best(tmp_path, training, stop):
    view = run_worker(config(tmp_path, verify=2, verify_seeds=4), stop)
    assert len(view.of_state("finished")) == 4
    assert view.trials[0].settings == {"ppo.learning_rate": config(tmp_path).ppo.learning_rate}, "known settings first"
    assert sorted(view.verified) == sorted(t.number for t in sorted(view.trials, key=lambda t: -t.value)[:2])
    best = view.best_verified
    assert list(best.values) == ["1000", "1001", "1002", "1003"]
    assert best.iqm == pytest.approx(sum(sorted(best.values.values())[1:3]) / 2)
    assert [name for name in training.trained if "verify" in name] == [
        f"trial-{number:05d}-verify-{seed}"
        for number in sorted(view.verified, key=lambda n: -view.trials[n].value)
        for seed in range(1000, 1004)
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize(("device", "workers", "side_by_side"), [("auto", 1, 0), ("auto", 2, 2), ("cuda", 1, 2)])
def test_parts_take_turns_on_a_single_core(tmp_path, training, stop, monkeypatch, device, workers, side_by_side):
    together = []

    def train_together(group, watcher, stop):
        together.append([part.name for part in group])
        return {part.run_name: training(part) for part in group}

    monkeypatch.setattr("rookery.studies.workers.trial_worker.train_together", train_together)
    monkeypatch.setattr("rookery.studies.workers.trial_worker.batches", lambda parts: [list(parts)] * bool(parts))
    base = config(tmp_path, n_trials=2, first_seeds=3).model_copy(update={"device": device, "workers": workers})
    run_worker(base, stop, verify=False)
    assert together == [["seed-0", "seed-1", "seed-2"]] * side_by_side and len(training.trained) == 6


@pytest.mark.slow
def test_a_worker_that_waits_for_others_trains_what_will_be_verified(tmp_path, training, stop):
    """Until they are done: then nothing is left to train, and the result is the same as without."""
    base = config(tmp_path, n_trials=3, verify=1, verify_seeds=3)
    space, folder = SearchSpace.of(base), StudyFolder.create(tmp_path, "x")
    with open_store(folder, base) as others, open_store(folder, base) as store:
        theirs = others.claim("another worker", 3)
        theirs.suggest(space.suggest)
        tries = []

        def on_part(part):
            if part.run_name.endswith("verify-1001"):
                tries.append(part.run_name)
                return (FAILED, "once") if len(tries) == 1 else None
            if part.run_name.endswith("verify-1002"):
                theirs.fail("no more")
            return None

        training.on_part = on_part
        verification = VerificationWorker(store, base, stop, lambda **facts: None)
        TrialWorker(store, base, "worker", stop, lambda **facts: None, verification.train_ahead).run()
        best = f"trial-{max(store.study.best_trials, key=lambda trial: trial.value).number:05d}"
        assert training.trained[-2:] == [f"{best}-verify-1000", f"{best}-verify-1002"] and len(tries) == 1
        assert not open_study(folder.path).verified, "nothing is decided ahead"
        verification.run()
    assert training.trained[-1] == tries[-1] == f"{best}-verify-1001"
    assert list(open_study(folder.path).best_verified.values) == ["1000", "1001", "1002"]


@pytest.mark.slow
def test_racing_spends_few_seeds_on_bad_trials(tmp_path, training, stop):
    """And every trial that is the best in the end has all of them."""
    view = run_worker(config(tmp_path, n_trials=12, verify=0, seeds=3), stop)
    seeds = {trial.number: len(trial.parts) for trial in view.trials}
    assert seeds[view.best.number] == 3 and 1 in seeds.values()
    assert view.best.value == pytest.approx(sum(p["value"] for p in view.best.parts.values()) / 3)
    assert view.best.interval[0] < view.best.value < view.best.interval[1]


def test_a_continued_search_has_the_trials_and_values_of_one_that_was_not_interrupted(tmp_path, training, stop):
    base = config(tmp_path, n_trials=4, seeds=2, verify=1, verify_seeds=2)
    whole = run_worker(base, stop, "whole")
    calls = []

    def interrupt(part):
        calls.append(part.run_name)
        return (INTERRUPTED, "interrupted") if len(calls) in (2, 5, 8) else None

    training.on_part = interrupt
    for _ in range(3):
        run_worker(base, stop, "stopped")
        assert stop
        stop.reason = ""
    again = run_worker(base, stop, "stopped")
    assert [(t.number, t.settings, t.values, list(t.parts)) for t in again.trials] == [
        (t.number, t.settings, t.values, list(t.parts)) for t in whole.trials
    ]
    assert again.best_verified.values == whole.best_verified.values
    assert len(again.trials) == 4, "no trial is counted twice"


@pytest.mark.slow
def test_more_trials_extend_a_study(tmp_path, training, stop):
    run_worker(config(tmp_path, n_trials=2), stop)
    view = run_worker(config(tmp_path, n_trials=5), stop)
    assert [trial.state for trial in view.trials] == ["finished"] * 5


@pytest.mark.slow
def test_a_failed_trial_is_recorded_with_its_reason(tmp_path, training, stop):
    told = []
    training.on_part = lambda part: (FAILED, "ValueError: too cold") if "00001" in part.run_name else None
    view = run_worker(config(tmp_path), stop, told=told)
    assert view.trials[1].state == "failed" and view.trials[1].reason == "seed-0: ValueError: too cold"
    assert [t.state for t in view.trials] == ["finished", "failed", "finished", "finished"]
    assert {
        "event": "end",
        "trial": 1,
        "state": "failed",
        "reason": "seed-0: ValueError: too cold",
        "value": None,
    } in told


@pytest.mark.slow
def test_a_run_that_diverges_fails_its_trial(tmp_path, training, stop):
    training.value = lambda config: math.nan if config.name.startswith("trial-00002") else 1.0
    view = run_worker(config(tmp_path), stop)
    assert view.trials[2].state == "failed" and "diverged" in view.trials[2].reason


@pytest.mark.slow
def test_a_trial_that_fails_on_held_out_seeds_is_not_the_best(tmp_path, training, stop):
    view = run_worker(config(tmp_path, verify=2, verify_seeds=2), stop, "first")
    best = view.best.number
    training.on_part = lambda part: (FAILED, "it broke") if f"{best:05d}-verify" in part.run_name else None
    view = run_worker(config(tmp_path, verify=2, verify_seeds=2), stop, "second")
    assert view.best.number == best and view.best_verified.number != best


@pytest.mark.slow
def test_the_supervisor_may_give_a_trial_up(tmp_path, training, stop):
    """It kills the worker, and the next one that claims the trial records the reason."""
    base = config(tmp_path)
    Verdicts(StudyFolder.create(tmp_path, "x").workers).give(0, "took 9 GiB of memory")
    view = run_worker(base, stop)
    assert (view.trials[0].state, view.trials[0].reason) == ("failed", "took 9 GiB of memory")
    assert not list((tmp_path / "x" / "workers").glob("*.failed.json"))


@pytest.mark.slow
def test_a_trial_that_takes_too_long_fails(tmp_path, training, stop, monkeypatch):
    """The second has a moment left, the others more than they need."""
    monkeypatch.setattr(OpenTrial, "seconds_so_far", lambda trial: 29.7 if trial.number == 1 else 0.0)

    def slow(part):
        if "00001" not in part.run_name:
            return None
        deadline = time.monotonic() + 30
        while not stop.reason and time.monotonic() < deadline:
            time.sleep(0.01)
        assert stop.reason == TIME
        return INTERRUPTED, "interrupted"

    training.on_part = slow
    view = run_worker(config(tmp_path, trial_timeout="30s"), stop)
    assert view.trials[1].reason == "took longer than search.trial_timeout = 30 s"
    assert [t.state for t in view.trials] == ["finished", "failed", "finished", "finished"]


@pytest.mark.slow
def test_time_before_an_interruption_counts(tmp_path, training, stop):
    """A trial whose parts took a second each has no time left for a third one."""
    told = []
    training.on_part = lambda part: (INTERRUPTED, "interrupted") if "seed-1" in part.run_name else None
    run_worker(config(tmp_path, n_trials=1, trial_timeout="90s"), stop)
    stop.reason, training.on_part = "", lambda part: None
    run_worker(config(tmp_path, n_trials=1, trial_timeout="90s"), stop, told=told)
    assert told[0]["event"] == "begin" and told[0]["seconds_left"] == pytest.approx(89.0)


@pytest.mark.slow
def test_sigterm_gives_the_trial_back(tmp_path, training, stop):
    def signalled(part):
        os.kill(os.getpid(), signal.SIGTERM)

    training.on_part = signalled
    view = run_worker(config(tmp_path, first_seeds=2), stop)
    assert view.trials[0].state == "running" and list(view.trials[0].parts) == ["seed-0"]
    stop.reason, training.on_part = "", lambda part: None
    assert len(run_worker(config(tmp_path, first_seeds=2), stop).of_state("finished")) == 4


@pytest.mark.slow
def test_seconds_as_a_second_objective(tmp_path, training, stop):
    from rookery.studies.study_result import pareto_front

    view = run_worker(config(tmp_path, objectives="value+seconds"), stop)
    assert all(len(trial.values) == 2 and trial.values[1] == 1.0 for trial in view.trials)
    front = pareto_front(view)
    assert [one.number for one in front] == [view.best.number]


@pytest.mark.slow
def test_wilcoxon_stops_a_trial_between_its_seeds(tmp_path, training, stop):
    training.noise = 0.001
    view = run_worker(config(tmp_path, n_trials=8, pruner="wilcoxon", seeds=8, first_seeds=8), stop)
    pruned = view.of_state("pruned")
    assert pruned and all(len(trial.parts) < 8 for trial in pruned)
    assert all(trial.value is None or trial.number not in view.verified for trial in pruned)


@pytest.mark.slow
def test_trials_side_by_side_are_runs_of_their_own(tmp_path, stop):
    """With real training: trials that differ in numbers are one program."""
    wanted = {"sampler": "random", "population": {"size": 3}, "seeds": 1, "n_trials": 4, "verify": 0}
    base = config(tmp_path, **wanted)
    base = base.model_copy(update={"ppo": base.ppo.model_copy(update={"threads": 1})})
    view = run_worker(base, stop)
    assert [trial.state for trial in view.trials] == ["finished"] * 4
    configs = [trial_config(base, trial.settings, trial.number, tmp_path) for trial in view.trials]
    parts = [SeedPlan(base.search).first_parts(config)[0] for config in configs]
    assert batches(parts) == [parts], "one program"
    for trial in view.trials:
        run = RunDir(tmp_path / "x" / trial.parts["seed-0"]["run"])
        assert run.read_config()["ppo"]["learning_rate"] == trial.settings["ppo.learning_rate"]
        assert run.read_summary()["eval/return"] == trial.value


@pytest.mark.slow
def test_trials_of_a_worker_that_died_are_trained_alone(tmp_path, training, stop, monkeypatch):
    """In a population, one of them may have killed it: the others are spared, and nobody is judged by its deaths."""
    base = config(tmp_path, n_trials=4, sampler="random", seeds=1, verify=0, population={"size": 4})
    folder = StudyFolder.create(tmp_path, "x")
    groups = []
    monkeypatch.setattr(
        TrialWorker, "_train", lambda self, trials: (groups.append([t.number for t in trials]), stop.noticed())
    )
    with open_store(folder, base) as dead, open_store(folder, base) as store:
        for _ in (0, 1):
            dead.claim("a worker that dies", 2).suggest(SearchSpace.of(base).suggest)
        monkeypatch.setattr("rookery.studies.storage.study_store.owner_is_dead", lambda owner: "that dies" in owner)
        for _ in range(3):
            stop.reason = ""
            TrialWorker(store, base, "worker", stop, lambda **facts: None).run()
    assert groups == [[0], [1], [2, 3]]
