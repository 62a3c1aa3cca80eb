"""Studies in the dashboard: the same figures as `rookery study`, only what is new, and nothing from outside."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from starlette.testclient import TestClient

from rookery.studies.report.report import Reporter, report_json
from rookery.studies.storage.study_folder import StudyRecord, remember_storage
from rookery.studies.storage.study_view import open_study
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import NotShown, RunFolders
from studies.example_studies import add_trial, make_folder, make_study
from studies.postgres import Server, programs

STUDY = "/api/studies/studies/demo"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "studies"


@pytest.fixture
def client(folder: Path) -> TestClient:
    state = DashboardState(RunFolders([folder]))
    return TestClient(make_app(state), base_url="http://127.0.0.1")


@pytest.fixture(autouse=True)
def _always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers otherwise share a look for a moment."""
    monkeypatch.setattr("rookery.web.study_views.open_studies.FRESH_SECONDS", 0.0)


def get(client: TestClient, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.fixture(scope="module", autouse=True)
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of 14 trials, made once: Optuna takes its time."""
    folder = tmp_path_factory.mktemp("recorded")
    study = make_folder(folder)
    for number in range(12):
        parts = {"seed-0": {"value": 1.0, "run": f"runs/trial-{number:05d}-seed-0", "seconds": 1.0, "steps": 9}}
        add_trial(study, float((number * 7) % 12), parts=parts, interval=[0.0, 9.0])
    add_trial(study, None, TrialState.PRUNED, reason="behind others")
    add_trial(study, None, TrialState.FAIL, reason="out of memory")
    KEPT["folder"] = folder / "demo"
    return folder / "demo"


KEPT: dict[str, Path] = {}


def filled(folder: Path) -> None:
    """A study of 12 finished trials, a pruned and a failed one."""
    shutil.copytree(KEPT["folder"], folder / "demo")


def continued(folder: Path) -> optuna.Study:
    """The same, to go on with."""
    filled(folder)
    return optuna.load_study(study_name="demo", storage=f"sqlite:///{folder}/demo/study.db")


def test_the_figures_are_those_of_the_report(client: TestClient, folder: Path) -> None:
    study = continued(folder)
    study.set_user_attr("rookery:verified:3", {"values": {"1000": 1.5}, "iqm": 1.5, "interval": [1, 2], "runs": []})
    with sqlite3.connect(folder / "demo" / "study.db") as database:
        database.execute("UPDATE trials SET datetime_start = '2026-01-01 12:0' || (number % 5) || ':00.000000'")
        database.execute("UPDATE trials SET datetime_complete = '2026-01-01 12:0' || (number % 5 + 2) || ':30.000000'")
    database.close()
    found = get(client, STUDY)
    wanted = report_json(Reporter().report(open_study(folder / "demo")))
    assert found["counts"] == {key: wanted[key] for key in ("finished", "running", "pruned", "failed", "waiting")}
    assert found["best_trial"] == wanted["best_tuning_trial"]
    assert found["best_value"] == wanted["best_tuning_value"]
    assert found["verified_trial"] == wanted["best_trial"] == 3
    assert found["verified_interval"] == wanted["best_interval"]
    assert found["failures"] == [[reason, often] for reason, often in wanted["failures"].items()]
    assert found["trials_per_hour"] == pytest.approx(wanted["trials_per_hour"], rel=1e-3)
    assert (found["world"], found["learner"], found["maximise"]) == ("CartPole-v1", "ppo", [True])
    shares = get(client, f"{STUDY}/importances")["shares"]
    assert list(shares) == list(wanted["importances"])
    assert shares == pytest.approx(wanted["importances"])


def test_trials_are_columns(client: TestClient, folder: Path) -> None:
    filled(folder)
    found, view = get(client, f"{STUDY}/trials"), open_study(folder / "demo")
    assert found["all"] is True
    assert found["number"] == [trial.number for trial in view.trials]
    assert [found["states"][code] for code in found["state"]] == [trial.state for trial in view.trials]
    assert found["values"] == [[trial.value for trial in view.trials]]
    params = {each["name"]: each for each in found["space"]}
    assert params["ppo.learning_rate"]["log"] is True
    assert params["ppo.activation"]["choices"] == ["tanh", "relu"]
    for name, column in found["params"].items():
        choices = params[name]["choices"]
        shown = [choices[int(value)] if choices else pytest.approx(value, rel=1e-6) for value in column]
        assert [trial.params[name] for trial in view.trials] == shown
    started = view.trials[0].started
    assert started is not None
    assert datetime.fromtimestamp(found["origin"] + found["start"][0]) == pytest.approx(
        started, abs=timedelta(milliseconds=2)
    )


def test_only_what_is_new_is_sent(client: TestClient, folder: Path) -> None:
    study = continued(folder)
    running = study.ask()
    first = get(client, f"{STUDY}/trials")
    nothing = get(client, f"{STUDY}/trials?after={first['cursor']}")
    assert (nothing["all"], nothing["number"]) == (False, [])
    running.suggest_float("late", 0.0, 1.0)
    begun = get(client, f"{STUDY}/trials?after={nothing['cursor']}")
    assert begun["number"] == [running.number]
    assert begun["params"]["late"] == [pytest.approx(running.params["late"], rel=1e-6)]
    study.tell(running, 5.0)
    add_trial(study, 6.0)
    ended = get(client, f"{STUDY}/trials?after={begun['cursor']}")
    assert ended["number"] == [running.number, running.number + 1]
    assert ended["values"] == [[5.0, 6.0]]
    assert get(client, f"{STUDY}/trials?after={begun['cursor']}")["number"] == ended["number"]


def test_results_are_sent_before_parameters(client: TestClient, folder: Path) -> None:
    """Parameters that are read later do not make the results new."""
    filled(folder)
    results, params = (get(client, f"{STUDY}/trials?columns={part}") for part in ("results", "params"))
    everything = get(client, f"{STUDY}/trials")
    assert {**results, **params} == everything | {"cursor": params["cursor"]}
    assert "params" not in results
    assert "values" not in params
    assert get(client, f"{STUDY}/trials?after={results['cursor']}")["number"] == []


def test_columns_as_bytes_are_the_same(client: TestClient, folder: Path) -> None:
    filled(folder)
    wanted = get(client, f"{STUDY}/trials")
    body = client.get(f"{STUDY}/trials?format=packed").content
    (size,) = struct.unpack("<I", body[:4])

    def column(kind: str, at: int, length: int) -> list[float | None]:
        assert (4 + size + at) % 8 == 0
        found = np.frombuffer(body, f"<{kind}", length, 4 + size + at).tolist()
        return [None if value != value else pytest.approx(value) for value in found]

    found = json.loads(
        body[4 : 4 + size], object_hook=lambda each: column(*each["$column"]) if "$column" in each else each
    )
    assert wanted == found | {"cursor": wanted["cursor"]}


def test_an_unknown_cursor_gets_everything(client: TestClient, folder: Path) -> None:
    """Such as that of a server before this one."""
    filled(folder)
    for cursor in ("", "nothing", "0000-3", "deadbeef-", "-1", "x-y"):
        found = get(client, f"{STUDY}/trials?after={cursor}")
        assert found["all"] is True
        assert len(found["number"]) == 14


def test_a_study_that_is_made_anew_is_another(client: TestClient, folder: Path) -> None:
    filled(folder)
    before = get(client, f"{STUDY}/trials")
    (folder / "demo" / "study.db").unlink()
    study = make_study(folder / "demo" / "study.db", "demo")
    study.set_user_attr("rookery:id", "another")
    add_trial(study, 3.0)
    found = get(client, f"{STUDY}/trials?after={before['cursor']}")
    assert found["all"] is True
    assert found["values"] == [[3.0]]


def test_values_that_are_no_numbers_are_never_best(client: TestClient, folder: Path) -> None:
    study = make_folder(folder)
    for value in (float("inf"), 2.0, float("-inf")):
        add_trial(study, value)
    found = get(client, STUDY)
    assert (found["best_trial"], found["best_value"]) == (1, 2.0)
    assert get(client, f"{STUDY}/trials")["values"] == [[None, 2.0, None]]


def test_a_minimised_study(client: TestClient, folder: Path) -> None:
    study = make_folder(folder, direction="minimize")
    for value in (4.0, 2.0, 3.0):
        add_trial(study, value)
    assert get(client, STUDY)["best_trial"] == 1


def test_parameters_that_only_some_trials_have(client: TestClient, folder: Path) -> None:
    study = make_folder(folder)
    for number in range(6):
        name = ("a", "b", "c")[number % 3]
        distributions = {"n": IntDistribution(1, 9), name: FloatDistribution(0, 1)}
        study.add_trial(create_trial(value=1.0, params={"n": 3, name: 0.5}, distributions=distributions))
    params = get(client, f"{STUDY}/trials")["params"]
    assert set(params) == {"n", "a", "b", "c"}
    assert params["b"] == [None, 0.5, None, None, 0.5, None]


def test_other_studies_of_a_database_are_apart(client: TestClient, folder: Path) -> None:
    study = make_folder(folder)
    other = make_study(folder / "demo" / "study.db", "other")
    for value in range(4):
        add_trial(other, 100.0 + value)
        add_trial(study, float(value))
    assert get(client, f"{STUDY}/trials")["values"] == [[0.0, 1.0, 2.0, 3.0]]
    assert get(client, STUDY)["best_value"] == 3.0


@pytest.mark.few(1)
@pytest.mark.parametrize("objectives", [2, 3])
def test_the_pareto_front_is_that_of_the_report(client: TestClient, folder: Path, objectives: int) -> None:
    (folder / "demo").mkdir(parents=True)
    directions = ["maximize", "minimize", "maximize"][:objectives]
    study = make_study(folder / "demo" / "study.db", directions=directions)
    for number in range(20):
        values = [float((number * 7) % 11), float((number * 5) % 13), float(number % 4)][:objectives]
        study.add_trial(create_trial(values=values, params={}, distributions={}))
    wanted = report_json(Reporter().report(open_study(folder / "demo")))["pareto_front"]
    assert sorted(get(client, STUDY)["front"]) == sorted(wanted)


def test_details_lead_to_runs(client: TestClient, folder: Path) -> None:
    study = continued(folder)
    (folder / "demo" / "runs" / "trial-00002-seed-0").mkdir(parents=True)
    running = study.ask()
    (folder / "demo" / "runs" / f"trial-{running.number:05d}-seed-0").mkdir()
    found = get(client, f"{STUDY}/trials/details?numbers=2,3,13,{running.number},999")["trials"]
    assert found["2"]["parts"][0]["run"] == "studies:demo/trial-00002-seed-0"
    assert found["3"]["parts"][0]["run"] is None
    assert found["13"]["reason"] == "out of memory"
    assert found[str(running.number)]["runs"] == [f"studies:demo/trial-{running.number:05d}-seed-0"]
    assert "999" not in found
    path = RunFolders([folder]).find("studies:demo", "trial-00002-seed-0")
    assert path == folder / "demo" / "runs" / "trial-00002-seed-0"


@pytest.mark.parametrize("place", ["studies:..", "studies:", "nowhere:demo", "studies:demo/runs", "studies:other", ":"])
def test_runs_of_studies_stay_in_their_folder(folder: Path, place: str) -> None:
    (folder / "demo" / "runs" / "a").mkdir(parents=True)
    (folder / "other").mkdir()
    (folder / "other" / "runs").symlink_to("/etc")
    with pytest.raises(NotShown):
        RunFolders([folder]).find(place, "a")


def test_intermediate_values(client: TestClient, folder: Path) -> None:
    study = make_folder(folder)
    for number in range(3):
        trial = study.ask()
        trial.report(number + 0.5, 100)
        trial.report(float("nan") if number == 1 else number + 1.5, 200)
        study.tell(trial, None if number == 2 else 1.0, TrialState.PRUNED if number == 2 else None)
    curves = get(client, f"{STUDY}/curves")["curves"]
    assert [curve["state"] for curve in curves] == ["finished", "finished", "pruned"]
    assert curves[0] == {"trial": 0, "state": "finished", "steps": [100, 200], "values": [0.5, 1.5]}
    assert curves[1]["values"] == [1.5, None]
    assert len(get(client, f"{STUDY}/curves?trials=1")["curves"]) == 1


def test_the_list(client: TestClient, folder: Path) -> None:
    filled(folder)
    (folder / "damaged").mkdir()
    (folder / "damaged" / "study.json").write_text("{")
    (folder / "no_study").mkdir()
    damaged, demo = get(client, "/api/studies")["studies"]
    assert (demo["id"], demo["trials"], demo["best_value"], demo["error"]) == ("studies/demo", 14, 11.0, None)
    assert damaged["name"] == "damaged"
    assert "study.json" in damaged["error"]


def test_a_study_that_is_a_single_file(client: TestClient, folder: Path, tmp_path: Path) -> None:
    """As Optuna makes it, without rookery: beside folders, and only if it is a database of Optuna."""
    filled(folder)
    shutil.move(folder / "demo" / "study.db", folder / "alone.db")
    shutil.rmtree(folder / "demo")
    (folder / "text.db").write_text("no database")
    sqlite3.connect(folder / "other.db").execute("CREATE TABLE studies (a)").connection.close()
    shutil.copy(folder / "alone.db", tmp_path / "outside.db")
    (folder / "link.db").symlink_to(tmp_path / "outside.db")
    (row,) = get(client, "/api/studies")["studies"]
    assert (row["id"], row["error"], row["trials"]) == ("studies/alone.db", None, 14)
    found = get(client, "/api/studies/studies/alone.db")
    assert found["given_as"] == str(folder / "alone.db") and found["best_trial"] is not None
    assert len(get(client, "/api/studies/studies/alone.db/trials")["number"]) == 14
    assert (
        get(client, "/api/studies/studies/alone.db/trials/details?numbers=0")["trials"]["0"]["parts"][0]["run"] is None
    )
    for name in ("text.db", "other.db", "link.db", "none.db", "..%2Foutside.db"):
        get(client, f"/api/studies/studies/{name}", 404)
    make_study(folder / "alone.db", "another")
    assert "holds 2 studies: name one of them" in get(client, "/api/studies")["studies"][0]["error"]


def test_a_database_outside_is_not_read(client: TestClient, folder: Path, tmp_path: Path) -> None:
    add_trial(make_study(tmp_path / "elsewhere.db"), 1.0)
    (folder / "demo").mkdir(parents=True)
    about = {"name": "demo", "storage": str(tmp_path / "elsewhere.db"), "format": 1, "id": "f" * 32}
    (folder / "demo" / "study.json").write_text(json.dumps(about))
    assert "--storage" in get(client, STUDY, 409)["error"]
    remember_storage(folder / "demo", StudyRecord.model_validate(about))  # as the search that made it does
    assert "--runs-dir" in get(client, STUDY, 409)["error"]
    (folder / "link").mkdir()
    (folder / "link" / "study.json").write_text(json.dumps({**about, "storage": "study.db"}))
    (folder / "link" / "study.db").symlink_to(tmp_path / "elsewhere.db")
    assert "--storage" in get(client, "/api/studies/studies/link", 409)["error"]


def test_a_database_of_a_server_is_opened_only_when_asked_for(client: TestClient, folder: Path) -> None:
    """What lies in a folder does not make the list connect anywhere."""
    (folder / "demo").mkdir(parents=True)
    about = {"name": "demo", "storage": "postgresql://ann@127.0.0.1:1/studies", "format": 1, "id": "e" * 32}
    (folder / "demo" / "study.json").write_text(json.dumps(about))
    (row,) = get(client, "/api/studies")["studies"]
    assert "--storage postgresql://ann@127.0.0.1:1/studies" in row["error"], "it may be a stranger's"
    remember_storage(folder / "demo", StudyRecord.model_validate(about))  # as the search that made it does
    (row,) = get(client, "/api/studies")["studies"]
    assert (row["unread"], row["error"]) == (True, None)
    assert "cannot be read" in get(client, STUDY, 409)["error"]


@pytest.mark.slow  # starts a PostgreSQL server
def test_a_study_in_postgresql(client: TestClient, folder: Path) -> None:
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with Server() as server:
        _check_postgresql(client, folder, server.new_database("studies"))


def _check_postgresql(client: TestClient, folder: Path, postgres_url: str) -> None:
    storage = optuna.storages.RDBStorage(postgres_url.replace("://", "+psycopg://"))
    study = optuna.create_study(study_name="demo", storage=storage)
    for number in range(5):
        trial = study.ask({"x": FloatDistribution(0, 1)})
        trial.report(0.5, 10)
        study.tell(trial, float(number))
    storage.remove_session()
    storage.engine.dispose()
    (folder / "demo").mkdir(parents=True)
    about = {"name": "demo", "storage": postgres_url, "format": 1, "id": "d" * 32}
    (folder / "demo" / "study.json").write_text(json.dumps(about))
    remember_storage(folder / "demo", StudyRecord.model_validate(about))
    found = get(client, f"{STUDY}/trials")
    assert found["values"] == [[0.0, 1.0, 2.0, 3.0, 4.0]]
    assert None not in found["params"]["x"]
    assert len(get(client, f"{STUDY}/curves")["curves"]) == 5
    assert get(client, "/api/studies")["studies"][0]["best_value"] == 0.0


def test_a_journal(client: TestClient, folder: Path) -> None:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    (folder / "demo").mkdir(parents=True)
    storage = JournalStorage(JournalFileBackend(str(folder / "demo" / "study.log")))
    study = optuna.create_study(study_name="demo", storage=storage, direction="maximize")
    for number in range(4):
        add_trial(study, float(number))
    (folder / "demo" / "study.json").write_text(json.dumps({"name": "demo", "storage": "study.log", "format": 1}))
    found = get(client, f"{STUDY}/trials")
    assert found["values"] == [[0.0, 1.0, 2.0, 3.0]]
    add_trial(study, 9.0)
    assert get(client, f"{STUDY}/trials?after={found['cursor']}")["values"] == [[9.0]]
    assert get(client, STUDY)["best_value"] == 9.0


@pytest.mark.parametrize(
    "path", ["/api/studies/studies/none", "/api/studies/none/demo", "/api/studies/studies/%2E%2E%5C"]
)
def test_what_is_not_there(client: TestClient, folder: Path, path: str) -> None:
    filled(folder)
    assert client.get(path).status_code == 404


def test_a_study_that_is_deleted_is_no_error(client: TestClient, folder: Path) -> None:
    filled(folder)
    get(client, STUDY)
    (folder / "demo" / "study.db").unlink()
    assert "cannot be read" in get(client, STUDY, 409)["error"]
    (folder / "demo" / "study.json").unlink()
    get(client, STUDY, 404)
    assert get(client, "/api/studies") == {"studies": []}


def test_reading_keeps_nobody_from_writing(client: TestClient, folder: Path) -> None:
    study = continued(folder)
    get(client, f"{STUDY}/trials")
    with sqlite3.connect(folder / "demo" / "study.db", timeout=0.0) as writer:
        writer.execute("BEGIN EXCLUSIVE")
    writer.close()
    add_trial(study, 1.0)


@pytest.mark.slow
def test_the_server_reads_studies_without_optuna(folder: Path) -> None:
    filled(folder)
    script = f"""
import sys
from starlette.testclient import TestClient
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders
client = TestClient(make_app(DashboardState(RunFolders([{str(folder)!r}]))), base_url="http://127.0.0.1")
for path in ("/api/studies", "{STUDY}", "{STUDY}/trials", "{STUDY}/curves", "{STUDY}/importances"):
    assert client.get(path).status_code == 200
print([name for name in ("optuna", "sqlalchemy", "torch", "numba") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
