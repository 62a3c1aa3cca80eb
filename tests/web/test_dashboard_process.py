"""The command `dashboard`, and the dashboard beside a run."""

from __future__ import annotations

import gc
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import httpx2
import psutil
import pytest

from rookery.cli.main import main
from rookery.errors import UsageError
from rookery.training.commands import start_command
from rookery.web.dashboard_process import DashboardProcess, running_dashboard
from rookery.web.dashboard_server import DashboardServer


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that something else has, which never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOKERY_DASHBOARD_TOKEN", raising=False)
    monkeypatch.setattr("rookery.web.dashboard_process.ASK_SECONDS", 0.2)


@pytest.mark.slow
def test_a_dashboard_beside_a_run_ends_with_it(tmp_path: Path) -> None:
    with DashboardProcess(tmp_path / "runs", 0) as process:
        url = process.url()
        assert process.is_own
        assert httpx2.get(f"{url}/api/health").json()["paths"] == [str(tmp_path / "runs")]
        assert running_dashboard(int(url.rpartition(":")[2]), tmp_path / "runs") == url
        pid = process._process.pid  # type: ignore[union-attr]
    assert not psutil.pid_exists(pid)
    assert running_dashboard(int(url.rpartition(":")[2]), tmp_path / "runs") is None


@pytest.mark.slow
def test_a_taken_port_is_left_to_its_owner(tmp_path: Path, taken: int) -> None:
    with DashboardProcess(tmp_path / "runs", taken) as process:
        url = process.url()
        assert url != f"http://127.0.0.1:{taken}" and process.is_own
        assert httpx2.get(f"{url}/api/health").json()["paths"] == [str(tmp_path / "runs")]


def test_a_dashboard_of_the_same_folder_is_used(tmp_path: Path) -> None:
    with DashboardServer([tmp_path / "a", tmp_path / "b"], port=0) as server:
        port = int(server.url.rpartition(":")[2])
        with DashboardProcess(tmp_path / "b", port) as process:
            assert process.url() == server.url and not process.is_own
        assert httpx2.get(f"{server.url}/api/health").status_code == 200
        assert running_dashboard(port, tmp_path / "c") is None


@pytest.mark.slow
def test_a_dashboard_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_DASHBOARD_TOKEN", "short")
    with DashboardProcess(tmp_path, 0) as process, pytest.raises(UsageError, match="ROOKERY_DASHBOARD_TOKEN should"):
        process.url()


def test_train_tells_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stand_in = ModuleType("rookery.training.run.train")
    stand_in.train = lambda config: SimpleNamespace(exit_code=3)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rookery.training.run.train", stand_in)
    at_port = lambda folder: DashboardProcess(folder, port)  # noqa: E731
    monkeypatch.setattr("rookery.web.dashboard_process.DashboardProcess", at_port)
    with DashboardServer([tmp_path], port=0) as server:
        port = int(server.url.rpartition(":")[2])
        assert main(["train", "CartPole-v1", "--runs-dir", str(tmp_path)]) == 3
        assert "dashboard" not in caplog.text
        assert main(["train", "CartPole-v1", "--runs-dir", str(tmp_path), "--dashboard"]) == 3
        assert f"the dashboard is at {server.url}" in caplog.text
        caplog.clear()
        assert main(["train", "CartPole-v1", "--runs-dir", str(tmp_path), "--dashboard", "--quiet"]) == 3
        assert "dashboard" not in caplog.text


def test_a_taken_port_is_explained(tmp_path: Path, taken: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", "--runs-dir", str(tmp_path), "--port", str(taken)]) == 2
    assert gc.isenabled()
    assert f"port {taken} of 127.0.0.1 cannot be used" in capsys.readouterr().err
    with DashboardServer([tmp_path], port=0) as server:
        url = server.url
        assert main(["dashboard", "--runs-dir", str(tmp_path), "--port", url.rpartition(":")[2]]) == 2
    assert f"a dashboard of the same folders is at {url}" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_server_listens_to_signals_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The address is printed already, so that a user may press Ctrl-C."""
    server = DashboardServer([tmp_path], port=0)
    inner = server._server
    serve = inner.run

    def run(**options: Any) -> None:
        signal.raise_signal(number)
        assert inner.should_exit
        serve(**options)

    monkeypatch.setattr(inner, "run", run)
    server.run()


def test_a_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["dashboard", "--runs-dir", str(tmp_path / "file"), "--port", "0"]) == 2
    assert "is a file, and should be a folder of runs\n" in capsys.readouterr().err
    (tmp_path / "study.db").touch()
    assert main(["dashboard", "--runs-dir", str(tmp_path / "study.db"), "--port", "0"]) == 2
    assert f"is shown with its folder, --runs-dir {tmp_path}\n" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_in_json(tmp_path: Path) -> None:
    process = start_command(
        "dashboard", "--runs-dir", str(tmp_path / "none"), "--port", "0", "--json", "--allow-control",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        about = json.loads(process.stdout.readline())
        assert about["pid"] == process.pid and about["allow_control"] is True
        assert about["folders"] == [str(tmp_path / "none")]
        assert httpx2.get(f"{about['url']}/api/session").json()["allow_control"] is True
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"there is no folder" in errors and b"Traceback" not in errors
