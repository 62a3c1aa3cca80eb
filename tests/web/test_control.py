"""Changes from the page: only with --allow-control and the CSRF token; stop, resume, tags, hidden runs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rookery.errors import OptionError, RunError
from rookery.training.storage.run_lock import Lock
from rookery.web import control_routes
from rookery.web.control_routes import resume_run, stop_run
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.marks import Marks, checked_tags, marks_of
from rookery.web.run_folders import RunFolders

HOLDER = """
import signal, sys, time
from pathlib import Path
from rookery.training.storage.run_lock import Lock
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
lock = Lock(Path(sys.argv[1]) / "run.lock")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    return made_run(tmp_path / "runs" / "a")


def made_run(path: Path, run_id: str = "0" * 32) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"id": run_id, "created": 1.0}))
    return path


@pytest.fixture
def client(run: Path) -> TestClient:
    return TestClient(make_app(DashboardState(RunFolders([run.parent]), allow_control=True)))


def post(client: TestClient, path: str, values: Any = None, **headers: str) -> Any:
    csrf = client.get("/api/session").json()["csrf"]
    return client.post(f"/api/runs/{path}", json=values or {}, headers={"X-CSRF-Token": csrf, **headers})


def holder_of(run: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(run)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_tags_and_hidden_runs(client: TestClient, run: Path) -> None:
    assert client.get("/api/session").json()["allow_control"] is True
    assert post(client, "runs/a/tags", {"tags": ["good", "<b>"]}).json() == {"tags": ["good", "<b>"], "hidden": False}
    assert post(client, "runs/a/hide", {"hidden": True}).json() == {"tags": ["good", "<b>"], "hidden": True}
    assert marks_of(client.app.state.dashboard).of("runs", "a") == (("good", "<b>"), True)  # type: ignore[attr-defined]
    assert [path.name for path in run.iterdir()] == ["run.json"]  # nothing is written to what is shown


def test_without_permission_nothing_changes(run: Path) -> None:
    state = DashboardState(RunFolders([run.parent]))
    client = TestClient(make_app(state))
    assert client.get("/api/session").json()["allow_control"] is False
    for change in ("stop", "resume", "tags", "hide"):
        answer = post(client, f"runs/a/{change}", {"tags": ["x"], "hidden": True})
        assert answer.status_code == 403
        assert "--allow-control" in answer.json()["error"]
    assert marks_of(state).of("runs", "a") == ((), False)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-CSRF-Token": ""}, 403), ({"X-CSRF-Token": "wrong"}, 403), ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415), ({"content-type": ""}, 415),
    ],
)  # fmt: skip
def test_a_form_of_another_site_changes_nothing(client: TestClient, headers: dict[str, str], status: int) -> None:
    assert post(client, "runs/a/hide", {"hidden": True}, **headers).status_code == status
    assert marks_of(client.app.state.dashboard).of("runs", "a") == ((), False)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("path", "values", "status"),
    [
        ("runs/b/hide", {"hidden": True}, 404), ("else/a/hide", {"hidden": True}, 404), ("runs/../hide", {}, 404),
        ("runs/%2e%2e/hide", {"hidden": True}, 404), ("runs/a/hide", {"hidden": "yes"}, 400), ("runs/a/tags", {}, 400),
        ("runs/a/tags", {"tags": "x"}, 400), ("runs/a/tags", {"tags": [1]}, 400), ("runs/a/tags", {"tags": [""]}, 400),
        ("runs/a/tags", {"tags": ["x" * 41]}, 400), ("runs/a/tags", {"tags": ["a\nb"]}, 400), ("runs/a/tags", [1], 400),
        ("runs/a/tags", {"tags": [str(i) for i in range(21)]}, 400), ("runs/a/stop", {}, 409), ("runs/a/gone", {}, 404),
    ],
)  # fmt: skip
def test_bad_changes_are_explained(client: TestClient, path: str, values: Any, status: int) -> None:
    answer = post(client, path, values)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_body_that_is_no_json(client: TestClient) -> None:
    headers = {"X-CSRF-Token": client.get("/api/session").json()["csrf"], "content-type": "application/json"}
    for body in (b"{", b"[" * 50_000, b"\xff"):
        assert client.post("/api/runs/runs/a/hide", content=body, headers=headers).status_code == 400


def test_marks_are_kept_and_shared(run: Path) -> None:
    first, second = Marks(RunFolders([run.parent])), Marks(RunFolders([run.parent]))
    before = second.stamp
    first.set_tags("runs", "a", ["one"])
    assert second.stamp != before
    second.set_hidden("runs", "a", True)
    assert first.of("runs", "a") == (("one",), True)
    first.set_tags("runs", "a", [])
    first.set_hidden("runs", "a", False)
    assert second.of("runs", "a") == ((), False)


def test_a_later_run_of_the_name_has_no_marks(run: Path) -> None:
    marks = Marks(RunFolders([run.parent]))
    marks.set_hidden("runs", "a", True)
    (run / "run.json").write_text(json.dumps({"id": "1" * 32}))
    assert marks.of("runs", "a") == ((), False)


def test_a_damaged_file_of_marks_is_no_error(run: Path, tmp_path: Path) -> None:
    marks = Marks(RunFolders([run.parent]))
    marks.set_hidden("runs", "a", True)
    (file,) = (tmp_path / "state").glob("*.json")
    for text in ("{", "[]", '{"x": 1}', "[" * 100_000, json.dumps({str(run): {"tags": 3}})):
        file.write_text(text)
        assert marks.of("runs", "a") == ((), False)
    marks.set_tags("runs", "a", ["new"])
    assert marks.of("runs", "a") == (("new",), False)


def test_tags_are_checked() -> None:
    with pytest.raises(OptionError, match="up to 20 tags, got 21"):
        checked_tags([str(i) for i in range(21)])


def test_stop_asks_the_process_of_the_run(run: Path) -> None:
    process = holder_of(run)
    try:
        assert stop_run(run) == process.pid
        assert process.wait(10) == 7
    finally:
        process.kill()
        process.communicate()
    with pytest.raises(RunError, match="does not run on this machine"):
        stop_run(run)


@pytest.mark.parametrize("host", [socket.gethostname(), "elsewhere"])
def test_a_file_cannot_name_another_process(run: Path, host: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (run / "run.lock").write_text(json.dumps({"pid": other.pid, "host": host, "started": time.time()}))
        with pytest.raises(RunError, match="does not run on this machine"):
            stop_run(run)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    for text in ("", "[]", '{"pid": "1"}', json.dumps({"pid": -1, "host": host}), '{"pid": 1e99}'):
        (run / "run.lock").write_text(text)
        with pytest.raises(RunError):
            stop_run(run)


def test_a_run_that_runs_is_not_resumed(run: Path) -> None:
    with Lock(run / "run.lock"), pytest.raises(RunError, match="runs already"):
        resume_run(run)


def test_resume_starts_the_command(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        f"import sys; sys.argv.pop(1); print(sys.argv[1:], flush=True)\n{HOLDER.replace('sys.argv[1]', 'sys.argv[2]')}"
    )
    monkeypatch.setattr(control_routes, "LASTING", code)
    pid = resume_run(run)
    assert f"['resume', '{run}', '--runs-dir', '{run.parent}', '--no-panel']" in (run / "resume.log").read_text()
    assert os.getpgid(pid) == pid != os.getpgid(0)  # Ctrl-C on the dashboard does not reach it
    assert stop_run(run) == pid


@pytest.mark.slow
def test_an_error_of_resume_is_told(run: Path) -> None:
    with pytest.raises(RunError, match="a was not resumed: rookery: "):
        resume_run(run)
