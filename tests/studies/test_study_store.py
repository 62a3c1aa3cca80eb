"""Trials are claimed, recorded and counted right, in SQLite and in PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from rookery.errors import LeaseLost
from rookery.studies.storage import study_store
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import Claim, StudyStore
from rookery.studies.storage.trial_view import PARTS, REASON, SETTINGS, verified_key

Open = Callable[..., StudyStore]


def suggest(trial: optuna.Trial) -> dict[str, Any]:
    return {"x": trial.suggest_float("x", -5, 5), "kind": trial.suggest_categorical("kind", ["a", "b"])}


@pytest.fixture
def open_store(tmp_path: Path, storage: str | None) -> Iterator[Open]:
    opened = []

    def make(**options: Any) -> StudyStore:
        folder = StudyFolder.create(tmp_path / "studies", "probe", storage)
        options = {"patience": 5.0, "sampler": optuna.samplers.RandomSampler(seed=1), **options}
        opened.append(StudyStore.open(folder, storage, **options))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


def claimed(store: StudyStore, n_trials: int = 10) -> Claim:
    claim = store.claim("test", n_trials)
    assert claim is not None
    return claim


def run_out(store: StudyStore) -> None:
    """All leases, as if their workers had died on another machine."""
    from sqlalchemy import text

    store.storage.transaction(lambda connection: connection.execute(text("UPDATE rookery_leases SET expires = 0")))
    store.storage.fences.clear()


def states(store: StudyStore) -> list[str]:
    return [trial.state.name for trial in store.study.get_trials()]


def test_a_trial_is_claimed_trained_and_recorded(open_store: Open) -> None:
    """What was recorded is read by another process, and by Optuna itself."""
    claim = claimed(open_store())
    settings = claim.suggest(suggest)
    claim.set_part("seed-0", {"value": 1.5, "run": "runs/trial-00000-seed-0", "seconds": 2.0})
    claim.set_part("seed-1", {"value": float("nan"), "reason": "diverged"})
    claim.report(1.0, 0)
    claim.report(1.25, 0)
    claim.finish(1.25)
    trial = open_store().study.trials[0]
    assert (trial.state, trial.value, trial.intermediate_values) == (TrialState.COMPLETE, 1.25, {0: 1.25})
    assert trial.user_attrs[SETTINGS] == settings == trial.params
    assert trial.user_attrs[PARTS]["seed-1"] == {"value": None, "reason": "diverged"}


def test_no_more_trials_begin_than_were_asked_for(open_store: Open) -> None:
    """Failed and pruned ones count; those that wait do not."""
    store = open_store()
    claimed(store, 3).fail("no memory left")
    claimed(store, 3).prune("worse than half of the others")
    running = claimed(store, 3)
    assert store.claim("test", 3) is None and not store.all_done(3)
    running.finish(float("nan"))
    assert states(store) == ["FAIL", "PRUNED", "FAIL"]
    assert [store.attributes(number)[REASON] for number in range(3)] == [
        "no memory left", "worse than half of the others", "its value is nan",
    ]  # fmt: skip
    assert store.all_done(3) and not store.all_done(4)


@pytest.mark.slow
def test_queued_trials_come_first_and_once(open_store: Open) -> None:
    """However often they are queued, and also when a study is continued."""
    store = open_store()
    for opened in (store, open_store()):
        opened.enqueue([{"x": 1.0, "kind": "b"}, {"x": 2.0, "kind": "a"}])
    tried = []
    while (claim := store.claim("test", 3)) is not None:
        tried.append(claim.suggest(suggest))
        claim.finish(0.0)
    open_store().enqueue([{"x": 2.0, "kind": "a"}])
    assert tried[:2] == [{"x": 1.0, "kind": "b"}, {"x": 2.0, "kind": "a"}] and len(tried) == 3
    assert states(store) == ["COMPLETE"] * 3


def test_a_trial_whose_lease_ran_out_is_taken_up_with_what_is_known(open_store: Open) -> None:
    first, second = open_store(lease_seconds=0.2), open_store()
    claim = claimed(first)
    settings = claim.suggest(suggest)
    claim.set_part("seed-0", {"value": 1.0})
    time.sleep(0.3)
    taken = claimed(second)
    assert (taken.number, taken.settings, taken.parts) == (claim.number, settings, {"seed-0": {"value": 1.0}})
    assert taken.suggest(lambda trial: pytest.fail("they are known")) == settings


def test_who_comes_late_writes_nothing(open_store: Open) -> None:
    """By no way at all: not by the claim, and not by Optuna's trial or study."""
    first, second = open_store(lease_seconds=0.2), open_store()
    late = claimed(first)
    late.suggest(suggest)
    time.sleep(0.3)
    owner = claimed(second)
    for write in (
        lambda: late.finish(1.0),
        lambda: late.fail("x"),
        lambda: late.prune("x"),
        lambda: late.set_part("seed-0", {"value": 1.0}),
        lambda: late.report(1.0, 1),
        lambda: late.set_attribute("a", 1),
        late.renew,
        lambda: late.trial.set_user_attr("a", 1),
        lambda: late.trial.suggest_float("y", 0, 1),
        lambda: first.study.tell(late.trial, 1.0),
    ):
        with pytest.raises(LeaseLost, match="another worker has taken over"):
            write()
    assert late.lost and not owner.lost
    found = second.study.trials[0]
    assert (
        found.state == TrialState.RUNNING and set(found.user_attrs) == {SETTINGS} and set(found.params) == {"x", "kind"}
    )
    owner.finish(2.0)
    with pytest.raises(LeaseLost):
        late.finish(1.0)
    assert second.study.trials[0].value == 2.0


@pytest.mark.slow
def test_a_lease_that_nobody_took_can_be_renewed_late(open_store: Open) -> None:
    """Nothing is lost by a long silence if no other worker asked in the meantime."""
    store = open_store(lease_seconds=0.1)
    claim = claimed(store)
    time.sleep(0.2)
    claim.renew()
    claim.finish(1.0)


@pytest.mark.slow
def test_a_kept_lease_does_not_run_out(open_store: Open) -> None:
    first, second = open_store(lease_seconds=0.6), open_store()
    claim = claimed(first)
    with claim.keep():
        time.sleep(1.5)
        assert second.claim("other", 1) is None
    assert not any(thread.name == "rookery lease" for thread in threading.enumerate())


@pytest.mark.slow
def test_a_lost_lease_is_told_while_it_is_kept(open_store: Open) -> None:
    """A worker that was stopped stops training when it wakes."""
    first, second = open_store(lease_seconds=0.3), open_store()
    claim, told = claimed(first), threading.Event()
    run_out(second)
    claimed(second)
    with claim.keep(told.set):
        assert told.wait(5) and claim.lost


@pytest.mark.slow
def test_a_released_trial_is_taken_up_at_once(open_store: Open) -> None:
    store = open_store()
    claim = claimed(store)
    for _ in range(2):
        claim.release()
    assert claimed(open_store()).number == claim.number
    with pytest.raises(LeaseLost):
        claim.finish(1.0)


def test_finishing_twice_is_finishing_once(open_store: Open) -> None:
    """An answer of the database that got lost is requested again."""
    store = open_store()
    claim = claimed(store)
    claim.finish(1.0)
    claim.finish(1.0)
    assert store.study.trials[0].value == 1.0


@pytest.mark.slow
def test_a_trial_that_kills_every_worker_fails(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it gets on: then the count starts over."""
    monkeypatch.setattr(study_store, "MOST_ATTEMPTS", 3)
    store = open_store()
    for attempt in range(5):
        claim = claimed(store, 1)
        if attempt == 2:
            claim.set_part("seed-0", {"value": 1.0})
        run_out(store)
    assert store.claim("test", 1) is None
    assert states(store) == ["FAIL"] and store.attributes(0)[REASON] == "3 workers died while they trained it"


@pytest.mark.slow
def test_a_verified_trial_is_recorded_with_the_study(open_store: Open) -> None:
    open_store().set_verified(3, {"values": {1000: 2.0}, "iqm": 2.0, "interval": [1.0, 3.0], "runs": []})
    assert open_store().study.user_attrs[verified_key(3)]["values"] == {"1000": 2.0}


@pytest.mark.slow
def test_grids_and_two_objectives(open_store: Open) -> None:
    """Optuna's grid sampler stops a study when it is through, which is not an error here."""
    sampler = optuna.samplers.GridSampler({"x": [0.0, 1.0]}, seed=1)
    store = open_store(sampler=sampler, directions=["maximize", "minimize"])
    for _ in range(2):
        claim = claimed(store)
        claim.finish([claim.trial.suggest_float("x", 0, 1), 5.0])
    assert sorted(trial.values for trial in store.study.trials) == [[0.0, 5.0], [1.0, 5.0]]
