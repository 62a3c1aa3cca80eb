"""The stream of the table of runs: rows as they change."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rookery.web.dashboard_server import DashboardServer
from rookery.web.live.event_stream import frame
from rookery.web.run_views import run_table
from rookery.web.run_views.run_table import TableChanges
from web.live.grown_runs import GrowingRun, Message, messages, stream


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def server(runs: Path) -> Iterator[DashboardServer]:
    GrowingRun(runs, "first").start()
    GrowingRun(runs, "second").start()
    with DashboardServer([runs, runs.parent / "missing"], port=0) as server:
        yield server


def rows_until(found: Iterator[Message], name: str, **values: object) -> Message:
    for message in found:
        for row in message.data["rows"]:
            if row["name"] == name and all(row[key] == value for key, value in values.items()):
                return message
    raise AssertionError("the stream ended")


def gone(found: Iterator[Message]) -> list[str]:
    return next(message.data["gone"] for message in found if message.data["gone"])


def test_first_everything_then_what_changes(server: DashboardServer, runs: Path) -> None:
    with stream(f"{server.url}/api/stream") as found:
        first = next(found)
        assert first.data["all"] and {row["id"] for row in first.data["rows"]} == {"runs/first", "runs/second"}
        third = GrowingRun(runs, "third")
        third.start()
        message = rows_until(found, "third")
        assert [row["name"] for row in message.data["rows"]] == ["third"] and not message.data.get("all")
        with third.dir.lock():
            third.progress(64)
            rows_until(found, "third", state="running", steps=64)
            third.progress(128)
            rows_until(found, "third", steps=128)
        third.write("end", 128, reason="finished")
        rows_until(found, "third", state="finished")
        shutil.rmtree(third.dir.path)
        assert gone(found) == ["runs/third"]
        (runs / "second").rename(runs / "moved")
        message = rows_until(found, "moved")
        assert message.data["gone"] == ["runs/second"]


def test_it_goes_on_after_the_rows_of_the_api(server: DashboardServer, runs: Path) -> None:
    cursor = httpx2.get(f"{server.url}/api/runs").json()["cursor"]
    GrowingRun(runs, "third").start()
    with stream(f"{server.url}/api/stream", cursor) as found:
        message = next(found)
        assert [row["name"] for row in message.data["rows"]] == ["third"] and not message.data.get("all")
    GrowingRun(runs, "fourth").start()
    with stream(f"{server.url}/api/stream", message.id) as found:
        assert [row["name"] for row in next(found).data["rows"]] == ["fourth"]


def test_the_id_of_another_server_gets_everything(server: DashboardServer) -> None:
    for unknown in ("0123456789ab-3", "nonsense", "-", "999"):
        with stream(f"{server.url}/api/stream", unknown) as found:
            message = next(found)
            assert message.data["all"] and len(message.data["rows"]) == 2


def test_an_empty_folder_is_an_empty_table(tmp_path: Path) -> None:
    with DashboardServer([tmp_path], port=0) as server, stream(f"{server.url}/api/stream") as found:
        assert next(found).data == {"rows": [], "gone": [], "all": True}


def test_changes_are_told_once_and_the_latest_only() -> None:
    changes = TableChanges()
    cursor = changes.take([{"id": "a/x", "steps": 1}, {"id": "a/y", "steps": 1}, {"id": "b/x", "steps": 1}])
    assert changes.frame_since(cursor, frame) == (b"", cursor)
    for steps in range(2, 50):
        changes.take_one({"id": "a/x", "steps": steps})
    changes.take([{"id": "b/x", "steps": 1}, {"id": "b/z", "steps": 1}], "b")
    changes.take([{"id": "a/x", "steps": 49}], "a")
    text, after = changes.frame_since(cursor, frame)
    (message,) = messages(text)
    assert message.id == after == changes.cursor
    assert {row["id"]: row["steps"] for row in message.data["rows"]} == {"a/x": 49, "b/z": 1}
    assert message.data["gone"] == ["a/y"]
    changes.take_one({"id": "a/y", "steps": 2})
    assert messages(changes.frame_since(cursor, frame)[0])[0].data["gone"] == []


def test_runs_that_are_gone_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_table, "MOST_GONE", 5)
    changes = TableChanges()
    cursor = changes.take([{"id": f"a/{n}"} for n in range(8)])
    changes.take([])
    assert messages(changes.frame_since(cursor, frame)[0])[0].data == {"rows": [], "gone": [], "all": True}


def test_readers_share_a_frame() -> None:
    changes = TableChanges()
    cursor = changes.take([{"id": "a/x"}])
    changes.take_one({"id": "a/x", "steps": 1})
    assert changes.frame_since(cursor, frame)[0] is changes.frame_since(cursor, frame)[0]


def test_a_drive_that_does_not_answer_holds_up_no_other(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rookery.web.run_views.run_index import RunIndex

    answers, rows = threading.Event(), RunIndex.rows
    monkeypatch.setattr("rookery.web.live.table_watcher.FIRST_SECONDS", 0.3)
    monkeypatch.setattr(
        RunIndex, "rows", lambda index, place=None: (place == "drive" and answers.wait(), rows(index, place))[1]
    )
    GrowingRun(runs, "first").start()
    try:
        with DashboardServer([runs, runs.parent / "drive"], port=0) as server:
            with stream(f"{server.url}/api/stream") as found:
                assert [row["name"] for row in next(found).data["rows"]] == ["first"]
                GrowingRun(runs, "second").start()
                rows_until(found, "second")
            answers.set()
    finally:
        answers.set()
