"""Sessions of a real server, by a WebSocket: they play, are few, end with their page, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sync_client = pytest.importorskip("websockets.sync.client")
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

from rookery.web.dashboard_server import DashboardServer  # noqa: E402
from rookery.web.play import play_routes  # noqa: E402

QUICK = """
import sys, time
from rookery.engine.workers.child_process import die_with_parent
die_with_parent(int(sys.argv.pop(1)))
import socket
from rookery.web.play.session_main import SessionChannel
from rookery.web.play.session_main import PlayLoop
class Session:
    fps, deterministic, steps = 50.0, True, 0
    def step(self): self.steps += 1
    def restart(self, seed): self.steps = 0
    def frame(self, details): return {"steps": self.steps}, None
loop = PlayLoop(Session(), None, SessionChannel(socket.socket(fileno=int(sys.argv[1]))))
while True:
    loop.turn()
"""


def _connect(server: DashboardServer, query: str, **options: Any) -> Any:
    return sync_client.connect(f"{server.url.replace('http', 'ws')}/api/play?{query}", **options)


def _children(parent: int | None = None) -> set[int]:
    """The processes that this one has started, or another."""
    pid = str(parent or os.getpid())
    found = subprocess.run(["pgrep", "-P", pid], capture_output=True, text=True, check=False).stdout
    return {int(pid) for pid in found.split()}


def _eventually(true: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _frame(socket: Any) -> dict[str, Any]:
    """The next frame, which is seen."""
    while True:
        message = json.loads(socket.recv(timeout=30))
        assert message["kind"] != "error", message
        if message["kind"] == "frame":
            socket.send(json.dumps({"seen": message["n"]}))
            return message


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DashboardServer]:
    """A server whose sessions load nothing."""
    monkeypatch.setattr(play_routes, "CODE", QUICK)
    with DashboardServer([tmp_path], port=0) as server:
        yield server


@pytest.mark.slow
def test_a_session_plays_follows_and_ends_with_its_page(server: DashboardServer) -> None:
    before = _children()
    with _connect(server, "agent=hockey") as socket:
        frames = [_frame(socket) for _ in range(4)]
        assert [frame["n"] for frame in frames] == [1, 2, 3, 4]
        socket.send(json.dumps({"pause": True}))
        assert _eventually(lambda: _frame(socket)["paused"])
        assert len(_children() - before) == 1
    assert _eventually(lambda: _children() <= before)


@pytest.mark.slow
def test_a_page_that_does_not_answer_gets_no_queue(server: DashboardServer) -> None:
    with _connect(server, "agent=hockey") as socket:
        numbers = [json.loads(socket.recv(timeout=30))["n"] for _ in range(3)]
        assert numbers == [1, 2, 3]
        with pytest.raises(TimeoutError):
            socket.recv(timeout=0.4)
        socket.send(json.dumps({"seen": 3}))
        frame = json.loads(socket.recv(timeout=10))
        assert frame["n"] == 4
        assert frame["steps"] > 10  # the newest


@pytest.mark.slow
def test_a_server_with_many_open_files_has_sessions(server: DashboardServer) -> None:
    """Their sockets have numbers above 1,023, which `select.select` does not take."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2048), limits[1]))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while stack.enter_context(open(os.devnull)).fileno() < 1100:
            pass
        _frame(stack.enter_context(_connect(server, "agent=hockey")))


@pytest.mark.slow
def test_sessions_are_few_and_a_place_becomes_free(server: DashboardServer) -> None:
    def another() -> bool:
        with _connect(server, "agent=hockey") as socket:
            return json.loads(socket.recv(timeout=10))["kind"] == "frame"

    with ExitStack() as stack:
        for _ in range(play_routes.MOST_SESSIONS):
            _frame(stack.enter_context(_connect(server, "agent=hockey")))
        with _connect(server, "agent=hockey") as fifth:
            assert "close another page" in json.loads(fifth.recv(timeout=10))["error"]
            with pytest.raises(ConnectionClosed):
                fifth.recv(timeout=10)
    assert _eventually(another)


@pytest.mark.parametrize("message", ["[1]", "{", "[" * 5000, json.dumps({"a": "x" * 5000})])
def test_messages_that_are_no_small_objects_end_the_session(server: DashboardServer, message: str) -> None:
    with _connect(server, "agent=hockey") as socket:
        socket.send(message)
        with pytest.raises(ConnectionClosed):
            for _ in range(10):
                socket.recv(timeout=10)


@pytest.mark.parametrize("query", ["", "agent=nobody", "agent=a/../b", "agent=hockey&opponent=x.py:A"])
def test_what_is_not_shown_starts_no_process(server: DashboardServer, query: str) -> None:
    before = _children()
    with _connect(server, query) as socket:
        assert json.loads(socket.recv(timeout=10))["kind"] == "error"
    assert _children() <= before


def test_a_page_of_another_site_is_refused(server: DashboardServer) -> None:
    with pytest.raises(InvalidStatus), _connect(server, "agent=hockey", origin="http://evil.example"):
        pass


@pytest.mark.slow
def test_a_session_that_hangs_is_killed(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_routes, "STEP_SECONDS", 0.5)
    monkeypatch.setattr(play_routes, "START_SECONDS", 30.0)
    before = _children()
    with _connect(server, "agent=hockey") as socket:
        _frame(socket)
        (child,) = _children() - before
        time.sleep(0.05)
        os.kill(child, signal.SIGSTOP)
        told = None
        while told is None:
            message = json.loads(socket.recv(timeout=20))
            told = message.get("error")
        assert "did nothing for" in told
    assert _eventually(lambda: _children() <= before)


@pytest.mark.slow
def test_a_session_that_dies_is_told(server: DashboardServer) -> None:
    before = _children()
    with _connect(server, "agent=hockey") as socket:
        _frame(socket)
        for child in _children() - before:
            os.kill(child, signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            while (told := json.loads(socket.recv(timeout=10)).get("error")) is None:
                pass
            assert "process is gone (Killed)" in told
            socket.recv(timeout=10)


@pytest.mark.slow
def test_the_end_of_the_server_ends_its_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_routes, "CODE", QUICK)
    before = _children()
    with ExitStack() as stack:
        with DashboardServer([tmp_path], port=0) as server:
            _frame(stack.enter_context(_connect(server, "agent=hockey")))
        assert _eventually(lambda: _children() <= before)


KILLED = """
import sys, time
from rookery.web.dashboard_server import DashboardServer
from rookery.web.play import play_routes
play_routes.CODE = sys.argv[1]
with DashboardServer(["."], port=0) as server:
    print(server.url, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux ends children with their parent")
def test_a_killed_server_leaves_no_session(tmp_path: Path) -> None:
    server = subprocess.Popen([sys.executable, "-c", KILLED, QUICK], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    with sync_client.connect(f"{url.replace('http', 'ws')}/api/play?agent=hockey") as socket:
        _frame(socket)
        found = _children(server.pid)
        assert found
        server.kill()
        server.wait()
        server.stdout.close()
        assert _eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in found))


UNTRUSTED = """
import gymnasium as gym
open("ran", "w").close()
class Env(gym.Env):
    pass
"""


@pytest.mark.slow
def test_the_code_of_a_run_is_not_run_from_the_page(tmp_path: Path) -> None:
    """The shipped agent plays in its own process; a run whose world is a file of somebody else is rejected."""
    runs = tmp_path / "runs"
    run = runs / "theirs"
    shipped = Path(__file__).parents[3] / "src/rookery/agents/hockey"
    (run / "checkpoints").mkdir(parents=True)
    subprocess.run(["cp", "-r", str(shipped), str(run / "checkpoints/step-000000000064")], check=True)
    (tmp_path / "env.py").write_text(UNTRUSTED)
    (run / "config.json").write_text(json.dumps({"world": f"{tmp_path / 'env.py'}:Env", "learner": "ppo"}))
    with DashboardServer([runs], port=0) as server:
        with _connect(server, "agent=runs/theirs") as socket:
            while (message := json.loads(socket.recv(timeout=120)))["kind"] != "error":
                pass
            assert f"type: rookery watch {run} --trust" in message["error"]
            assert not (tmp_path / "ran").exists()
        with _connect(server, "agent=hockey&opponent=weak&seed=5") as socket:
            frame = _frame(socket)
            assert frame["seed"] == 5
            assert len(frame["hockey"]["x"]) == 3
