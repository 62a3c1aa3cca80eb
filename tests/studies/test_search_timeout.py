"""What a search does when its time is up."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.config import RunConfig
from rookery.studies.search_study import StudySearch
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.workers.supervisor import Supervision
from rookery.training.seeds.processes import Shares
from studies.example_studies import add_trial


class Nobody(Supervision):
    """Trains nothing, until it is asked to stop."""

    def stop(self, reason):
        self.stopping = reason

    def run(self, heard, tick):
        while not self.stopping:
            tick()


class Place:
    """Notes what workers are started for."""

    shares = Shares(1, 1)

    def __init__(self):
        self.trained = []

    def supervise(self, store, base, train):
        self.trained.append(train)
        supervision = Nobody()
        supervision.stopping = "" if train else "finished"
        return supervision


@pytest.mark.parametrize(("verified", "trained"), [([0, 1], [True]), ([1], [True, False]), ([], [True, False])])
def test_workers_verify_only_if_something_is_to_be_verified(tmp_path: Path, verified, trained) -> None:
    """Each takes seconds of a core to start."""
    search = {"timeout": 0.01, "verify": 2, "study_name": "probe"}
    base = RunConfig.model_validate({"world": "CartPole-v1", "steps": 1000, "search": search})
    with StudyStore.open(StudyFolder.create(tmp_path, "probe", None), None, base) as store:
        for value in (3.0, 2.0, 1.0):
            add_trial(store.study, value)
        for number in verified:
            store.set_verified(number, {"values": {"1000": 1.0}, "iqm": 1.0, "interval": None, "runs": []})
        place = Place()
        StudySearch(store, base, place).run()
    assert place.trained == trained


def test_without_a_finished_trial_nothing_is_verified(tmp_path: Path) -> None:
    base = RunConfig.model_validate({"world": "CartPole-v1", "steps": 1000, "search": {"timeout": 0.01}})
    with StudyStore.open(StudyFolder.create(tmp_path, "probe", None), None, base) as store:
        place = Place()
        assert StudySearch(store, base, place).run().exit_code == 0
    assert place.trained == [True]
