"""The table of several folders: a drive that does not answer holds up no other."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rookery.web.dashboard_server import DashboardServer
from rookery.web.run_views import run_index
from web.run_views.recorded import progress, start, write_run

real = run_index._stamp


@pytest.fixture
def drive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Two folders with a run each. That in `drive` can be read only while the event is set."""
    write_run(tmp_path / "runs" / "near", [start(), progress(1)])
    write_run(tmp_path / "drive" / "far", [start(), progress(1)])
    answers = threading.Event()

    def stamp(path: Path) -> Any:
        return answers.wait(60) and real(path) if path.parent.name == "drive" else real(path)

    monkeypatch.setattr(run_index, "_stamp", stamp)
    monkeypatch.setattr("rookery.web.run_views.run_table.SILENT_SECONDS", 0.3)
    answers.set()
    yield answers
    answers.set()


def ask(server: DashboardServer, path: str) -> Any:
    with urllib.request.urlopen(f"{server.url}{path}", timeout=30) as answer:
        return json.loads(answer.read())


def answered(server: DashboardServer, silent: list[str]) -> Any:
    """The table, once all other folders have answered: on a busy machine that may take them more than 0.3 s."""
    deadline = time.monotonic() + 30
    while (found := ask(server, "/api/runs"))["silent"] != silent:
        assert time.monotonic() < deadline, found
    return found


def test_a_silent_folder_is_named_and_its_runs_are_as_last_seen(tmp_path: Path, drive: threading.Event) -> None:
    with DashboardServer([tmp_path / "runs", tmp_path / "drive"], port=0) as server:
        before = answered(server, silent=[])
        assert {row["name"] for row in before["runs"]} == {"near", "far"}
        drive.clear()
        for _ in range(8):  # more often than the folder has threads
            found = ask(server, "/api/runs")
            assert "drive" in found["silent"]
            assert {row["name"] for row in found["runs"]} == {"near", "far"}
        assert ask(server, "/api/runs/runs/near/metrics")["names"]
        drive.set()
        assert {row["name"] for row in answered(server, silent=[])["runs"]} == {"near", "far"}


def test_a_folder_that_never_answered_leaves_the_others(tmp_path: Path, drive: threading.Event) -> None:
    drive.clear()
    with DashboardServer([tmp_path / "runs", tmp_path / "drive"], port=0) as server:
        found = answered(server, silent=["drive"])
        assert [row["name"] for row in found["runs"]] == ["near"]
        drive.set()
