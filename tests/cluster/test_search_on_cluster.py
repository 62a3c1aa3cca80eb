"""A search's trials on a cluster. Training itself is a formula here, and runners are objects of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.in_process_runners import ProcessRunners
from rookery.cluster.ray_search import ClusterWorkers
from rookery.config import build_config
from rookery.errors import ConfigError
from rookery.studies.search_study import run_search
from rookery.studies.storage.study_view import StudyView, open_study
from rookery.studies.trials.part_training import FAILED
from rookery.training.seeds.processes import Shares
from studies.test_trial_worker import SPACE, Training


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Training:
    made = Training()
    monkeypatch.setattr("rookery.studies.trials.part_training.train_part", made)
    return made


def search(tmp_path: Path, runners: ProcessRunners, monkeypatch: pytest.MonkeyPatch, **wanted: Any) -> StudyView:
    """A search of four trials with these runners; returns the study."""

    @contextmanager
    def opened(cluster: Any, base: Any) -> Iterator[ClusterWorkers]:
        yield ClusterWorkers(runners, Shares(runners.count, 1))

    monkeypatch.setattr("rookery.cluster.ray_search.open_ray_workers", opened)
    section = {
        "space": SPACE,
        "n_trials": 4,
        "studies_dir": str(tmp_path),
        "sampler": "random",
        "seeds": 1,
        "verify": 0,
    }
    options = {"num_envs": 4, "backend": "kernel", "learner": "ppo", "steps": 1000, "on": "ray", "verbose": False}
    run_search(build_config("CartPole-v1", **options, search={**section, "study_name": "s", **wanted}))
    return open_study("s", tmp_path)


def values(study: StudyView) -> dict[int, float | None]:
    return {trial.number: trial.value for trial in study.of_state("finished")}


@pytest.mark.slow
def test_trials_train_on_runners_and_the_best_are_verified(tmp_path, monkeypatch, training):
    """All of them, each run once; the study's folder has their runs."""
    study = search(tmp_path, ProcessRunners(), monkeypatch, verify=1, verify_seeds=2)
    assert len(values(study)) == 4
    assert len(training.trained) == len(set(training.trained))
    assert {path.name for path in (tmp_path / "s" / "runs").iterdir()} == set(training.trained)
    assert sum("verify" in name for name in training.trained) == 2


@pytest.mark.slow
def test_runs_of_nodes_without_the_studys_disk_are_sent_back(tmp_path, monkeypatch, training):
    """The study is the same one as with a shared disk, and no node keeps a file."""
    here = search(tmp_path / "shared", ProcessRunners(), monkeypatch)
    there = search(tmp_path / "apart", ProcessRunners(shared=False), monkeypatch)
    assert values(here) == values(there)
    folders = [{path.name for path in (tmp_path / name / "s" / "runs").iterdir()} for name in ("shared", "apart")]
    assert folders[0] == folders[1]


@pytest.mark.slow
def test_a_part_whose_runner_is_lost_is_trained_elsewhere(tmp_path, monkeypatch, training):
    """Each trial has one value, that of a search that lost nothing."""
    calm = search(tmp_path / "calm", ProcessRunners(), monkeypatch)
    training.trained.clear()
    runners = ProcessRunners(lose=lambda method, k: method == "train" and k in (2, 3))
    hit = search(tmp_path / "hit", runners, monkeypatch)
    assert values(hit) == values(calm)
    assert len(training.trained) == len(set(training.trained)) and runners.started == 4
    assert "was lost (it was killed)" in (tmp_path / "hit" / "s" / "workers" / "cluster.log").read_text()


@pytest.mark.slow
def test_a_part_that_ends_every_runner_fails(tmp_path, monkeypatch, training):
    """The others do not."""
    study = search(tmp_path, ProcessRunners(1, lose=lambda method, k: method == "train" and k <= 5), monkeypatch)
    failed = study.of_state("failed")
    assert len(values(study)) == 3 and [trial.number for trial in failed] == [0]
    assert "5 runners were lost" in failed[0].reason


def test_runners_that_begin_nothing_end_the_search(tmp_path, monkeypatch, training):
    """With what is known about it."""
    with pytest.raises(Exception, match=r"before they begin a trial.*it was killed"):
        search(tmp_path, ProcessRunners(lose=lambda method, k: method == "begin"), monkeypatch)


@pytest.mark.slow
def test_a_failing_trial_fails_alone(tmp_path, monkeypatch, training):
    """With its reason."""
    training.on_part = lambda part: (FAILED, "ValueError: bad") if part.run_name.startswith("trial-00002") else None
    study = search(tmp_path, ProcessRunners(), monkeypatch)
    assert len(values(study)) == 3
    assert [trial.reason for trial in study.of_state("failed")] == ["seed-0: ValueError: bad"]


@pytest.mark.slow
def test_the_same_command_continues(tmp_path, monkeypatch, training):
    """Also without a cluster recorded in the study: it may be continued anywhere."""
    search(tmp_path, ProcessRunners(), monkeypatch, n_trials=1)
    study = search(tmp_path, ProcessRunners(), monkeypatch, n_trials=3)
    assert len(values(study)) == 3 and len(training.trained) == len(set(training.trained))
    assert "ray" not in (tmp_path / "s" / "config.toml").read_text()


def test_a_population_is_refused(tmp_path, monkeypatch, training):
    """Its trials train side by side in one process."""
    with pytest.raises(ConfigError, match=r"search\.population"):
        search(tmp_path, ProcessRunners(), monkeypatch, population={"size": 2})
