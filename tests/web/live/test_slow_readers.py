"""Readers that do not read, drives that do not answer, and connections that are only kept alive."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rookery.web.dashboard_server import DashboardServer
from rookery.web.live import metrics_reader, run_watcher
from web.live.grown_runs import GrowingRun, line, steps, stream, until

LINES = 8000


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def server(runs: Path) -> Iterator[DashboardServer]:
    GrowingRun(runs).start()
    with DashboardServer([runs], port=0) as server:
        yield server


@pytest.mark.slow
def test_a_reader_that_does_not_read_costs_nothing_and_misses_nothing(
    server: DashboardServer, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more is read from the file than the connection takes; it goes on when the reader does."""
    with (runs / "run" / "metrics.jsonl").open("ab") as file:
        file.writelines(line("progress", step, text="x" * 2000) for step in range(1, LINES))
        size = file.tell()
    read, chunk = [0], metrics_reader.read_chunk

    def counted(path: Path, position: metrics_reader.Position) -> metrics_reader.Chunk:
        found = chunk(path, position)
        read[0] = max(read[0], found.position.offset)
        return found

    monkeypatch.setattr(run_watcher, "read_chunk", counted)
    host, port = server.url.removeprefix("http://").split(":")
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        client.connect((host, int(port)))
        asked = f"GET /api/runs/runs/run/stream?last_event_id=0 HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
        client.sendall(asked.encode())
        before = -1
        while read[0] != before:
            before = read[0]
            time.sleep(0.1)
        assert 0 < read[0] < size // 2, "the server has read ahead of its reader"
        with stream(f"{server.url}/api/runs/runs/run/stream") as another:  # others are served in the meantime
            until(another, "ready")
        assert _told(client) == list(range(LINES))


def _told(client: socket.socket) -> list[int]:
    """The steps of all events up to the last one, from the bytes of a chunked answer."""
    text, last = bytearray(), f'"step": {LINES - 1},'.encode()
    while last not in text[-(1 << 17) :]:
        text += client.recv(1 << 20)
    return [int(step) for step in re.findall(rb'"step": (\d+), "time"', text)]


def test_a_quiet_stream_is_kept_alive(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By comments: a proxy would end it, and a reader could not tell that the server is gone."""
    for module in ("run_watcher", "table_watcher"):
        monkeypatch.setattr(f"rookery.web.live.{module}.HEARTBEAT_SECONDS", 0.05)
    for path in ("/api/runs/runs/run/stream", "/api/stream"):
        with httpx2.stream("GET", server.url + path, timeout=20) as answer:
            beats = 0
            for text in answer.iter_lines():
                beats += text.startswith(":")
                if beats > 3:
                    break
        assert beats > 3


def test_a_drive_that_stops_to_answer_holds_up_only_its_own_runs(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("run_watcher", "table_watcher"):
        monkeypatch.setattr(f"rookery.web.live.{module}.HEARTBEAT_SECONDS", 0.05)
    answers, look = threading.Event(), run_watcher.RunTail.look
    monkeypatch.setattr(
        run_watcher.RunTail, "look", lambda tail: (tail.path.parent.name == "drive" and answers.wait(), look(tail))[1]
    )
    run, far = GrowingRun(runs), GrowingRun(tmp_path / "drive")
    run.start()
    far.start()
    try:
        with DashboardServer([runs, tmp_path / "drive"], port=0) as server:
            far_away, near = (f"{server.url}/api/runs/{place}/run/stream" for place in ("drive", "runs"))
            with httpx2.stream("GET", far_away, timeout=20) as answer, stream(near) as found:
                stuck = answer.iter_lines()
                assert any(text.startswith(":") for text in stuck)
                until(found, "ready")
                run.progress(10)
                assert steps(until(found, "event", step=10)) == [10]
                far.progress(20)
                answers.set()
                assert any('"step": 20' in text for text in stuck)
    finally:
        answers.set()


def test_a_request_does_not_wait_for_a_drive_for_ever(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()
    monkeypatch.setattr("rookery.web.dashboard_state.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr("rookery.web.live.live_routes.run_details", lambda *_: answers.wait())
    try:
        answer = httpx2.get(f"{server.url}/api/runs/runs/run")
        assert answer.status_code == 504 and "does not answer" in json.loads(answer.text)["error"]
    finally:
        answers.set()


def test_nobody_left_means_nothing_is_looked_at(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last reader has gone, no thread of the server works."""
    looks = []
    look = run_watcher.RunTail.look
    monkeypatch.setattr(run_watcher.RunTail, "look", lambda tail: looks.append(tail) or look(tail))
    with stream(f"{server.url}/api/runs/runs/run/stream") as found:
        until(found, "state")
    deadline, before = time.monotonic() + 10, -1
    while len(looks) != before and time.monotonic() < deadline:
        before = len(looks)
        time.sleep(0.2)
    assert len(looks) == before
