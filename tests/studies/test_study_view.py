"""Studies are read from every kind of storage, whoever made them, and nothing is written."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path

import optuna
import pytest
from optuna.distributions import json_to_distribution
from optuna.storages import JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from sqlalchemy import NullPool

from rookery.errors import StorageLost, StudyError
from rookery.studies.storage.storage_place import shown
from rookery.studies.storage.study_view import StudyReader, StudyView, open_study
from studies.example_studies import CONFIG, add_trial, make_folder, make_study, settings


def test_a_study_of_rookery_has_the_attributes_of_its_trials(tmp_path: Path) -> None:
    study = make_folder(tmp_path)
    parts = {
        f"seed-{seed}": {"value": 10.0 * seed, "run": f"runs/{seed}", "seconds": 2.0, "steps": 50} for seed in (0, 1)
    }
    add_trial(study, 5.0, parts=parts, interval=[4.0, 6.0], seconds=4.0)
    add_trial(study, None, TrialState.FAIL, reason="out of memory")
    study.set_user_attr(
        "rookery:verified:0", {"values": {"1000": 4.5}, "iqm": 4.5, "interval": [4, 5], "runs": ["runs/v"]}
    )
    view = open_study("demo", tmp_path)
    first, second = view.trials
    assert (view.name, view.folder, view.maximise, view.config) == ("demo", tmp_path / "demo", True, CONFIG)
    assert (first.state, first.value, first.interval, first.seconds, first.steps) == (
        "finished",
        5.0,
        (4.0, 6.0),
        4.0,
        100,
    )
    assert first.parts == parts
    assert first.settings == settings(0)
    assert (second.state, second.value, second.reason) == ("failed", None, "out of memory")
    assert view.best_verified is not None
    assert (view.best_verified.iqm, view.best_verified.interval, view.best_verified.runs) == (
        4.5,
        (4.0, 5.0),
        ("runs/v",),
    )


@pytest.mark.parametrize(("direction", "best"), [("maximize", 2), ("minimize", 1)])
def test_the_best_trial_is_by_direction_and_finite(tmp_path: Path, direction: str, best: int) -> None:
    study = make_study(tmp_path / "a.db", direction=direction)
    for value in (math.inf, -3.0, 7.0, -math.inf):
        add_trial(study, value)
    view = open_study(tmp_path / "a.db")
    assert view.best is not None and view.best.number == best
    assert [trial.value for trial in view.trials] == [math.inf, -3.0, 7.0, -math.inf]


def test_the_verified_trial_is_chosen_before_the_best(tmp_path: Path) -> None:
    study = make_folder(tmp_path)
    for value in (1.0, 3.0, 2.0):
        add_trial(study, value)
    assert open_study("demo", tmp_path).chosen == open_study("demo", tmp_path).best
    for number, iqm in ((1, 0.5), (2, 1.9)):
        study.set_user_attr(f"rookery:verified:{number}", {"values": {}, "iqm": iqm, "interval": None, "runs": []})
    view = open_study("demo", tmp_path)
    assert view.best is not None and view.best.number == 1
    assert view.chosen is not None and view.chosen.number == 2


def _same_as_optuna(view: StudyView, study: optuna.Study) -> None:
    theirs = study.get_trials()
    assert [trial.number for trial in view.trials] == [trial.number for trial in theirs]
    assert [trial.params for trial in view.trials] == [trial.params for trial in theirs]
    assert [list(trial.values) or None for trial in view.trials] == [trial.values for trial in theirs]
    assert view.best is not None and view.best.value == study.best_value
    assert [trial.started for trial in view.trials] == [trial.datetime_start for trial in theirs]
    made = {name: json_to_distribution(each.text) for name, each in view.distributions.items()}
    assert [{name: made[name] for name in each.params} for each in view.trials] == [
        each.distributions for each in theirs
    ]


def _objective(trial: optuna.Trial) -> float:
    if trial.number == 3:
        raise optuna.TrialPruned
    kind = trial.suggest_categorical("kind", ["a", None, 2.5, True])
    return trial.suggest_float("x", -1, 1) + trial.suggest_int("n", 1, 9, log=True) + (kind == "a")


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["file", "url", "journal", "name and storage"])
def test_studies_of_optuna_are_read_from_any_storage(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a study.db"
    if kind == "journal":
        journal = JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(study_name="theirs", storage=journal, direction="maximize")
    else:
        study = make_study(path, "theirs")
    study.optimize(_objective, 6)
    study.enqueue_trial({"x": 0.5, "n": 3, "kind": None})
    if kind == "name and storage":
        view = open_study("theirs", storage=str(path))
    else:
        view = open_study(f"sqlite:///{path}" if kind == "url" else path)
    waiting = view.trials[-1]
    assert (waiting.state, waiting.params) == ("waiting", {"x": 0.5, "n": 3, "kind": None})
    assert view.trials[3].state == "pruned"
    study.optimize(_objective, 1)  # the enqueued trial
    _same_as_optuna(open_study(path), study)


def test_reading_writes_nothing(tmp_path: Path) -> None:
    study = make_study(tmp_path / "a.db")
    add_trial(study, 1.0)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    open_study(tmp_path / "a.db")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_reader_sees_what_changes(tmp_path: Path) -> None:
    study = make_study(tmp_path / "a.db")
    add_trial(study, 1.0)
    reader = StudyReader.find(tmp_path / "a.db")
    assert [trial.state for trial in reader.read().trials] == ["finished"]
    running = study.ask()
    running.suggest_float("x", 0, 1)
    assert [trial.state for trial in reader.read().trials] == ["finished", "running"]
    study.tell(running, 3.0)
    view = reader.read()
    assert [trial.value for trial in view.trials] == [1.0, 3.0]
    assert view.best is view.trials[1]


def test_several_objectives(tmp_path: Path) -> None:
    study = make_study(tmp_path / "a.db", directions=["maximize", "minimize"])
    study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 2.0), 2)
    view = open_study(tmp_path / "a.db")
    assert view.directions == (True, False)
    assert all(trial.values == (trial.params["x"], 2.0) for trial in view.trials)


def test_unknown_names_are_answered_by_the_nearest(tmp_path: Path) -> None:
    make_folder(tmp_path, "cartpole")
    make_folder(tmp_path, "hockey")
    with pytest.raises(StudyError, match=r"did you mean cartpole.*hockey"):
        open_study("cartpol", tmp_path)
    with pytest.raises(StudyError, match=r"holds no studies.*rookery search"):
        open_study("cartpole", tmp_path / "nothing")
    with pytest.raises(StudyError, match="did you mean cartpole"):
        open_study("cartpolle", storage=str(tmp_path / "cartpole" / "study.db"))


def test_a_file_with_several_studies_needs_a_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_study(tmp_path / "both.db", name)
    with pytest.raises(StudyError, match=r"holds 2 studies.*a, b"):
        open_study(tmp_path / "both.db")
    assert open_study("b", storage=str(tmp_path / "both.db")).name == "b"


def test_what_is_no_study_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, but long enough to be one" * 50)
    (tmp_path / "empty.db").touch()
    (tmp_path / "other.log").write_text('{"what": "ever"}\n')
    for name in ("text.db", "empty.db", "other.log"):
        with pytest.raises(StorageLost, match=name):
            open_study(tmp_path / name)
    with pytest.raises(StorageLost, match="does not exist"):
        open_study("a", storage=str(tmp_path / "none.db"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE trial_user_attributes SET value_json = 'no JSON'",
        'UPDATE trial_params SET distribution_json = \'{"name": "Unknown"}\'',
        "UPDATE trials SET state = 'UNKNOWN'",
        "UPDATE trials SET datetime_start = 'yesterday'",
    ],
)
def test_a_damaged_study_is_refused_in_a_sentence(tmp_path: Path, change: str) -> None:
    add_trial(make_study(tmp_path / "a.db"), 1.0)
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute(change)
    database.close()
    with pytest.raises(StudyError, match=r"the study 'demo' in .* is damaged"):
        open_study(tmp_path / "a.db")


def test_a_password_is_never_shown() -> None:
    assert shown("postgresql://me:secret@host:5432/rl") == "postgresql://me@host:5432/rl"
    assert shown("postgresql://me@host/rl?password=secret&x=1") == "postgresql://me@host/rl?password=...&x=1"
    assert shown("postgresql://host/rl") == "postgresql://host/rl"
    assert shown(Path("a:b@c.db")) == "a:b@c.db"


@pytest.mark.slow  # it starts a server
def test_studies_are_read_from_postgresql(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    storage = RDBStorage(url, engine_kwargs={"poolclass": NullPool})  # closes its connections
    study = optuna.create_study(study_name="theirs", storage=storage, direction="maximize")
    study.optimize(_objective, 6)
    reader = StudyReader.find(postgres_url)
    _same_as_optuna(reader.read(), study)
    study.optimize(_objective, 1)
    _same_as_optuna(reader.read(), study)
    assert open_study("theirs", storage=postgres_url).name == "theirs"
    with pytest.raises(StudyError, match="did you mean theirs"):
        open_study("their", storage=postgres_url)
    with pytest.raises(StorageLost, match="cannot be read"):
        open_study("theirs", storage="postgresql://nobody@127.0.0.1:1/none")
