"""A worker without a trial trains parts of other workers' trials, which find them trained."""

from __future__ import annotations

import time

import pytest

from rookery.config import build_config
from rookery.studies.space.space import SearchSpace
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import open_store
from rookery.studies.study_config import trial_config
from rookery.studies.trials.part_training import FINISHED, HELPED, part_lock, train_part
from rookery.studies.trials.plans import plan_for
from rookery.studies.workers.limits import StopSignals
from rookery.studies.workers.part_helper import PartHelper
from rookery.studies.workers.supervisor import WorkerProcess
from rookery.studies.workers.trial_claims import wall_seconds
from rookery.studies.workers.trial_worker import TrialWorker
from rookery.training.storage.run_dir import RunDir

SPACE = {"ppo.learning_rate": {"log": [1e-5, 1e-1]}}


@pytest.fixture
def base(tmp_path):
    search = {"space": SPACE, "n_trials": 1, "first_seeds": 4, "seeds": 4, "verify": 0, "studies_dir": str(tmp_path)}
    ppo = {"rollout_length": 8, "epochs": 1, "hidden": [8]}
    return build_config(
        "CartPole-v1", num_envs=4, backend="kernel", learner="ppo", steps=64, workers=1, ppo=ppo, search=search
    )


class NoStop(StopSignals):
    """Leaves the signals of this process alone."""

    def __init__(self):
        self.reason = ""


@pytest.mark.slow
def test_the_last_parts_first_and_nothing_that_somebody_has(base, tmp_path):
    folder, told = StudyFolder.create(tmp_path, "x"), []
    with open_store(folder, base) as others, open_store(folder, base) as store:
        helper = PartHelper(store, base, NoStop(), lambda **facts: told.append((facts["event"], facts["part"])))
        assert not helper.train(), "there is no trial"
        theirs = others.claim("another worker", 1)
        assert not helper.train(), "its settings are not known yet"
        settings = theirs.suggest(SearchSpace.of(base).suggest)
        parts = plan_for(base).first_parts(trial_config(base, settings, 0, folder.runs))
        with part_lock(folder.workers, parts[2]) as free:
            assert free and helper.train() and helper.train() and not helper.train()
        assert told == [("help", "seed-3"), ("helped", "seed-3"), ("help", "seed-1"), ("helped", "seed-1")]
        (folder.runs / parts[2].run_name).mkdir()
        assert not helper.train(), "whoever began it may have died of it"
        outcomes = {part.name: train_part(part) for part in parts}
        assert [(o.state, o.beside) for o in outcomes.values()] == [(FINISHED, ""), (FINISHED, HELPED)] * 2
        facts = {name: outcome.facts(1.0, folder.path) for name, outcome in outcomes.items()}
        assert wall_seconds(facts) == pytest.approx(sum(facts[f"seed-{k}"]["seconds"] for k in (0, 2)))


def test_a_trial_that_was_helped_has_the_value_of_one_that_was_not(base, tmp_path):
    def values(name, helps):
        """Of the trial, and which of its runs another worker has trained."""
        folder = StudyFolder.create(tmp_path, name)
        with open_store(folder, base) as store, open_store(folder, base) as more:
            helper = PartHelper(more, base, NoStop(), lambda **facts: None)
            worker = TrialWorker(store, base, "worker", NoStop(), lambda **facts: helps and helper.train())
            worker.run()
            births = [RunDir(folder.runs / f"trial-00000-seed-{k}").birth() for k in range(4)]
            return store.study.trials[0].values, [bool(birth.get(HELPED)) for birth in births]

    (alone, by_others), (helped, by_helper) = values("alone", False), values("helped", True)
    assert alone == helped and not any(by_others) and by_helper == [False, False, False, True]


@pytest.mark.slow
def test_a_trial_that_has_failed_trains_no_more_parts(base, tmp_path, monkeypatch):
    folder = StudyFolder.create(tmp_path, "x")
    monkeypatch.setattr("rookery.studies.trials.plans.SeedPlan.value", lambda plan, part, run: float("nan"))
    with open_store(folder, base) as store:
        TrialWorker(store, base, "worker", NoStop(), lambda **facts: None).run()
        assert store.study.trials[0].state.name == "FAIL"
    assert [path.name for path in folder.runs.iterdir()] == ["trial-00000-seed-0"]


def test_who_helps_has_the_time_of_a_trial_and_is_in_it():
    """So that the supervisor kills one that hangs, and counts the death of one."""
    worker, now = WorkerProcess.__new__(WorkerProcess), time.monotonic()
    worker.trials, worker.began_any = {}, False
    worker.note({"event": "help", "trial": 3, "part": "seed-1", "seconds_left": 500.0}, 60.0)
    assert worker.overdue(now + 600) == [3] and worker.overdue(now) == [] and worker.began_any
    worker.note({"event": "helped", "trial": 3, "part": "seed-1"}, 60.0)
    assert not worker.trials
