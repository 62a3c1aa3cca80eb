"""Studies are made once, continued by the same settings, and refused with a sentence otherwise."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import optuna
import pytest

from rookery.config.schema import RunConfig
from rookery.errors import StudyError
from rookery.studies.storage.study_folder import StudyFolder, StudyPlace, study_folders
from rookery.studies.storage.study_store import StudyStore
from rookery.studies.storage.trial_view import STUDY_CONFIG, STUDY_FORMAT
from studies.postgres import Server

CONFIG = {"world": "CartPole-v1", "steps": 1000}


def make(base: Path, name: str = "probe", storage: str | None = None, **changes: Any) -> StudyStore:
    config = RunConfig.model_validate({**CONFIG, **changes})
    return StudyStore.open(StudyFolder.create(base, name, storage), storage, config, patience=5.0)


def test_a_study_is_continued_by_its_settings(tmp_path: Path) -> None:
    """Those that do not change what a trial's value means may differ."""
    make(tmp_path).close()
    free = {"n_trials": 7, "jobs": 2, "timeout": "2h", "sampler": "random", "verify": 1, "trial_timeout": 5}
    with make(tmp_path, device="cpu", runs_dir="elsewhere", search=free) as store:
        assert store.study.user_attrs[STUDY_CONFIG]["world"] == "CartPole-v1"
    assert (tmp_path / "probe" / "config.toml").read_text() == 'world = "CartPole-v1"\nsteps = 1000\n'


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"steps": 2000}, r"steps = 2000 \(1000 before\)"),
     pytest.param({"world": "Acrobot-v1"}, r'world = "Acrobot-v1" \("CartPole-v1" before\)', marks=pytest.mark.slow),
     pytest.param({"ppo": {"epochs": 3}}, r"ppo\.epochs = 3 \(.* before\)", marks=pytest.mark.slow),
     ({"search": {"space": {"ppo.gamma": {"uniform": [0.9, 1]}}}}, r'search\.space = \{"ppo\.gamma".*\(\{\} before\)'),
     ({"world": "Acrobot-v1", "ppo": {"epochs": 3, "clip": 0.1, "gamma": 0.9, "entropy": 0.1, "activation": "relu"}},
      r'world = "Acrobot-v1"'),
     pytest.param({"search": {"seeds": 5}}, r"search\.seeds = 5 \(3 before\)", marks=pytest.mark.slow)],
)  # fmt: skip
def test_what_makes_trials_incomparable_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    make(tmp_path).close()
    with pytest.raises(StudyError, match=rf"the study probe cannot be continued with {message}.*search\.study_name"):
        make(tmp_path, **changes)


@pytest.mark.slow
def test_two_searches_may_start_at_one_moment(tmp_path: Path) -> None:
    """One makes the study, the others continue it; none of them fails, and first trials are queued once."""
    failures: list[BaseException] = []

    def start() -> None:
        try:
            with make(tmp_path) as store:
                store.enqueue([{"x": 1.0}, {"x": 2.0}])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with make(tmp_path) as store:
        assert len(store.study.trials) == 2


@pytest.mark.parametrize("name", ["a/b", "..", "a..b", "-x", "x" * 101, "", "a b", "naïve", "x\n"])
def test_odd_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be the name of a study"):
        StudyFolder.create(tmp_path, name)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_folders_may_have_odd_names(tmp_path: Path) -> None:
    """Of those above a study rookery is not the master."""
    with make(tmp_path / "a {b} %41 ?#& 'ü'") as store:
        assert store.claim("test", 1) is not None
    assert Path(StudyPlace.find("probe", tmp_path / "a {b} %41 ?#& 'ü'").storage).is_file()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match=r"no study can be kept in .*file/probe .*give search.studies_dir a folder"):
        make(tmp_path / "file")


def test_a_database_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"x.db cannot be written .*: give search.storage another place"):
        make(tmp_path, storage=str(tmp_path / "nowhere" / "x.db"))


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello " * 1000)
    with pytest.raises(StudyError, match=r"x\.db cannot be used \(file is not a database\): the file is not a SQLite"):
        make(tmp_path, storage=str(tmp_path / "x.db"))
    assert (tmp_path / "x.db").read_text() == "hello " * 1000


def test_a_study_of_a_newer_rookery_is_refused(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.study.set_user_attr(STUDY_FORMAT, 2)
        about = store.folder.about
    with pytest.raises(StudyError, match=r"made by a newer rookery \(format 2; this one reads 1\): pip install -U"):
        make(tmp_path)
    about.write_text(json.dumps({**json.loads(about.read_text()), "format": 2}))
    with pytest.raises(StudyError, match=r"made by a newer rookery \(format 2; this one reads 1\): pip install -U"):
        make(tmp_path)


def test_a_damaged_study_json_is_named(tmp_path: Path) -> None:
    make(tmp_path).close()
    for text in ("", "[]", '{"name": 1}', '{"name": "a", "storage": "x", "format": "1"}'):
        (tmp_path / "probe" / "study.json").write_text(text)
        with pytest.raises(StudyError, match=r"study\.json (is damaged|cannot be read)"):
            make(tmp_path)


@pytest.mark.slow
def test_a_database_that_was_replaced_is_refused(tmp_path: Path) -> None:
    """Its trials are not those whose runs are in the folder."""
    make(tmp_path).close()
    make(tmp_path / "other").close()
    os.replace(tmp_path / "other" / "probe" / "study.db", tmp_path / "probe" / "study.db")
    with pytest.raises(StudyError, match="has the runs of another study than the database"):
        make(tmp_path)


@pytest.mark.slow
def test_another_database_for_the_same_study_is_refused(tmp_path: Path) -> None:
    make(tmp_path, storage=str(tmp_path / "a.db")).close()
    make(tmp_path).close()  # as study.json says
    with pytest.raises(
        StudyError, match=r"the study probe is stored in .*a\.db, not in .*b\.db: leave search\.storage"
    ):
        make(tmp_path, storage=str(tmp_path / "b.db"))
    make(tmp_path, "second", str(tmp_path / "a.db")).close()  # many studies in one file
    assert len(optuna.get_all_study_names(f"sqlite:///{tmp_path}/a.db")) == 2


@pytest.mark.slow
def test_a_study_of_optuna_is_not_continued(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    optuna.create_study(study_name="probe", storage=url, direction="maximize").optimize(lambda trial: 1.0, n_trials=1)
    with pytest.raises(StudyError, match="the study probe in this database was not made by a search of rookery"):
        make(tmp_path, storage=url)


@pytest.mark.slow
def test_a_study_that_another_program_deletes_is_one_sentence(tmp_path: Path) -> None:
    """As a dashboard can, while a search runs."""
    with make(tmp_path) as store:
        claim = store.claim("test", 2)
        assert claim is not None
        optuna.delete_study(study_name="probe", storage=f"sqlite:///{store.folder.database}")
        for write in (lambda: claim.finish(1.0), lambda: claim.report(1.0, 1), lambda: store.claim("test", 2)):
            with pytest.raises(StudyError, match=r"is not in the database .*study\.db any more"):
                write()


@pytest.mark.slow
def test_another_direction_is_refused(tmp_path: Path) -> None:
    make(tmp_path).close()
    with pytest.raises(StudyError, match=r"was made to maximize, not to maximize and minimize: give search.objectives"):
        StudyStore.open(StudyFolder(tmp_path / "probe"), directions=["maximize", "minimize"])


def test_studies_are_found_by_name_and_path(tmp_path: Path) -> None:
    make(tmp_path).close()
    assert StudyPlace.find("probe", tmp_path) == StudyPlace.find(tmp_path / "probe", "nowhere")
    with pytest.raises(StudyError, match=r"there is no study 'prob' in .*; did you mean probe\?"):
        StudyPlace.find("prob", tmp_path)
    StudyFolder.create(tmp_path, "unfinished")
    assert [folder.name for folder in study_folders(tmp_path)] == ["probe"]


@pytest.mark.slow
def test_a_folder_can_be_moved(tmp_path: Path) -> None:
    make(tmp_path / "a").close()
    (tmp_path / "a").rename(tmp_path / "b")
    folder = StudyFolder(tmp_path / "b" / "probe")
    assert folder.storage == str(tmp_path / "b" / "probe" / "study.db")
    make(tmp_path / "b").close()


# --- Optuna and its dashboard open it -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_optuna_and_its_dashboard_open_the_study(tmp_path: Path) -> None:
    """Optuna's tables are as Optuna made them; rookery's own table is beside them."""
    import optuna_dashboard

    with make(tmp_path) as store:
        claim = store.claim("test", 1)
        assert claim is not None
        claim.suggest(lambda trial: {"ppo.gamma": trial.suggest_float("ppo.gamma", 0.9, 1.0)})
        claim.finish(3.0)
    url = f"sqlite:///{store.folder.database}"
    assert optuna.load_study(study_name="probe", storage=url).best_value == 3.0
    plain = tmp_path / "plain.db"
    optuna.create_study(storage=f"sqlite:///{plain}")
    assert tables(store.folder.database) - tables(plain) == {"rookery_leases"}
    app = optuna_dashboard.wsgi(url)
    status: list[str] = []
    environ: dict[str, Any] = {"PATH_INFO": "/api/studies/1", "QUERY_STRING": "after=0"}
    setup_testing_defaults(environ)
    body = b"".join(app(environ, lambda code, headers, *rest: status.append(code)))
    assert status == ["200 OK"] and json.loads(body)["trials"][0]["values"] == [3.0]


def tables(file: Path) -> set[str]:
    with sqlite3.connect(file) as connection:
        found = {f"{name} {sql}" if name != "rookery_leases" else name for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_master")}  # fmt: skip
    connection.close()
    return found


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_that_refuses_is_told_at_once(postgres: Server, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"postgresql://rookery@/nothing\?.* cannot be used \(.*does not exist"):
        make(tmp_path, storage=postgres.url("nothing"))


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_told_after_a_while(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="could not be used for") as caught:
        make(tmp_path, storage=f"postgresql://ann:s3cret@/x?host={tmp_path}")
    assert "s3cret" not in str(caught.value)


@pytest.mark.slow
def test_a_password_is_written_nowhere(
    postgres: Server, postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither into files, nor into the database, nor into messages."""
    url = postgres_url.replace("rookery@", "rookery:s3cret@")
    with make(tmp_path, storage=url, search={"storage": url}) as store:
        assert store.claim("test", 1) is not None
        assert "s3cret" not in json.dumps(store.study.user_attrs) + caplog.text + repr(store.storage.patience.place)
    for file in filter(Path.is_file, (tmp_path / "probe").rglob("*")):
        assert b"s3cret" not in file.read_bytes()
    assert "config.toml" in {file.name for file in (tmp_path / "probe").iterdir()}
    make(tmp_path).close()  # by study.json alone
