"""A search whose own look at its study fails, as while a server is restarted: workers wait for it, and it goes on."""

from __future__ import annotations

import pytest

import rookery
from rookery.errors import StorageLost
from rookery.studies import search_study
from rookery.studies.storage.study_view import StudyReader

KEYS = {
    "world": "CartPole-v1", "learner": "ppo", "steps": 256, "num_envs": 2, "backend": "serial",
    "ppo": {"rollout_length": 64, "minibatches": 2, "epochs": 1}, "evaluation": {"episodes": 1, "max_episodes": 1},
}  # fmt: skip
SEARCH = {"sampler": "random", "seeds": 1, "first_seeds": 1, "verify": 0}


@pytest.fixture
def looks(monkeypatch):
    """Looks at the study, of which those with odd numbers fail."""
    read, found = StudyReader.read, []

    def fails_in_turn(reader):
        found.append(None)
        if len(found) % 2:
            raise StorageLost("server closed the connection unexpectedly")
        return read(reader)

    monkeypatch.setattr(StudyReader, "read", fails_in_turn)
    monkeypatch.setattr(search_study, "PAUSE", 0.01)
    return found


def test_it_goes_on(tmp_path, looks):
    result = rookery.search(KEYS, n_trials=2, jobs=1, study_name="x", studies_dir=tmp_path, search=SEARCH)
    assert result.finished == 2 and result.best is not None and len(looks) >= 4


@pytest.mark.slow
def test_a_file_that_is_gone_is_not_waited_for(tmp_path, monkeypatch):
    def gone(reader):
        (tmp_path / "x" / "study.db").unlink(missing_ok=True)
        raise StorageLost("it is gone")

    monkeypatch.setattr(StudyReader, "read", gone)
    with pytest.raises(StorageLost):
        rookery.search(KEYS, n_trials=2, jobs=1, study_name="x", studies_dir=tmp_path, search=SEARCH)
