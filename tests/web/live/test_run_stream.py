"""The stream of a run, from a server on a port."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rookery.web.dashboard_server import DashboardServer
from web.live.grown_runs import GrowingRun, line, steps, stream, until


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path / "runs")
    run.start()
    run.progress(10, 20)
    return run


@pytest.fixture
def server(run: GrowingRun) -> Iterator[DashboardServer]:
    with DashboardServer([run.dir.path.parent], port=0) as server:
        yield server


def stream_of(server: DashboardServer, name: str = "run") -> str:
    return f"{server.url}/api/runs/runs/{name}/stream"


def test_new_lines_come_as_they_are_written(run: GrowingRun, server: DashboardServer) -> None:
    with stream(stream_of(server)) as found:
        until(found, "ready")
        run.progress(30)
        assert steps(until(found, "event", step=30)) == [30]
        run.write("end", 40, reason="finished")
        assert until(found, "end")[-1].data == {"step": 40, "reason": "finished"}


def test_from_the_beginning_or_an_id(run: GrowingRun, server: DashboardServer) -> None:
    with stream(stream_of(server), "0") as found:
        passed = until(found, "event", step=20)
    assert steps(passed) == [0, 10, 20]
    with stream(stream_of(server), passed[-2].id) as found:
        assert steps(until(found, "event", step=20)) == [20]


def test_details_say_where_to_follow(run: GrowingRun, server: DashboardServer) -> None:
    cursor = httpx2.get(f"{server.url}/api/runs/runs/run").json()["cursor"]
    run.progress(30)
    with stream(stream_of(server), cursor) as found:
        assert steps(until(found, "event", step=30)) == [30]


def test_another_server_goes_on_where_the_last_one_was(run: GrowingRun, server: DashboardServer) -> None:
    """Whatever was written while none ran: nothing is missed, nothing comes twice."""
    told, last = [], "0"
    for start in range(100, 400, 100):
        with DashboardServer([run.dir.path.parent], port=0) as another, stream(stream_of(another), last) as found:
            run.progress(start, start + 1)
            passed = until(found, "event", step=start + 1)
        last = passed[-1].id or ""
        told += steps(passed)
        run.progress(start + 2)
    with stream(stream_of(server), last) as found:
        told += steps(until(found, "event", step=302))
    assert told == [0, 10, 20, 100, 101, 102, 200, 201, 202, 300, 301, 302]


def test_the_state_is_told_when_the_lock_is_taken_and_released(run: GrowingRun, server: DashboardServer) -> None:
    with stream(stream_of(server)) as found:
        until(found, "state", state="interrupted")
        with run.dir.lock():
            until(found, "state", state="running")
        until(found, "state", state="interrupted")


def test_a_run_that_is_deleted_comes_back_as_another(run: GrowingRun, server: DashboardServer) -> None:
    with stream(stream_of(server)) as found:
        until(found, "ready")
        shutil.rmtree(run.dir.path)
        until(found, "state", state="gone")
        another = GrowingRun(run.dir.path.parent)
        another.start()
        another.progress(5)
        passed = until(found, "event", step=5)
    assert [message.data for message in passed if message.kind == "reset"] == [{"step": -1}]
    assert steps(passed) == [0, 5]


def test_a_run_that_is_moved_and_moved_back(run: GrowingRun, server: DashboardServer) -> None:
    elsewhere = run.dir.path.parent / "elsewhere"
    with stream(stream_of(server)) as found:
        until(found, "ready")
        run.dir.path.rename(elsewhere)
        until(found, "state", state="gone")
        with (elsewhere / "metrics.jsonl").open("ab") as file:
            file.write(line("progress", 30))
        elsewhere.rename(run.dir.path)
        assert steps(until(found, "event", step=30)) == [30]
    with pytest.raises(AssertionError, match="moved or deleted"), stream(stream_of(server, "other")):
        pass


@pytest.mark.slow
def test_many_readers_share_what_is_read(
    run: GrowingRun, server: DashboardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    from rookery.web.live import run_watcher

    read = run_watcher.read_chunk
    monkeypatch.setattr(run_watcher, "read_chunk", lambda *call: reads.append(call) or read(*call))
    ready, told = threading.Barrier(9), []

    def follow() -> None:
        with stream(stream_of(server)) as found:
            until(found, "state")
            ready.wait()
            told.append(steps(until(found, "event", step=30)))

    readers = [threading.Thread(target=follow) for _ in range(8)]
    for reader in readers:
        reader.start()
    ready.wait()
    time.sleep(0.2)
    reads.clear()
    run.progress(30)
    for reader in readers:
        reader.join()
    assert told == [[30]] * 8 and len(reads) == 1


def test_nothing_is_read_while_nothing_grows(
    run: GrowingRun, server: DashboardServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rookery.web.live import run_watcher

    with stream(stream_of(server)) as found:
        until(found, "state")
        time.sleep(0.2)
        for name in ("read_chunk", "row"):
            monkeypatch.setattr(run_watcher, name, lambda *call: pytest.fail("a file was read"))
        time.sleep(0.3)
        monkeypatch.undo()
        run.progress(30)
        assert steps(until(found, "event", step=30)) == [30]


@pytest.mark.few(1)
@pytest.mark.parametrize("path", ["nowhere/run", "runs/nothing", "runs/..%2Frun"])
def test_what_is_not_there(server: DashboardServer, path: str) -> None:
    for end in ("", "/stream", "/diff?with=runs/run"):
        answer = httpx2.get(f"{server.url}/api/runs/{path}{end}")
        assert answer.status_code == 404 and answer.json()["error"]


def test_a_bad_id_is_refused(server: DashboardServer) -> None:
    answer = httpx2.get(stream_of(server), params={"last_event_id": "<b>"})
    assert answer.status_code == 400 and "not the id of an event" in answer.json()["error"]
