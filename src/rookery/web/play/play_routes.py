"""What can be played, and the socket of a session: messages go to and fro between a page and a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from rookery.engine.workers.child_process import ONE_THREAD, in_lasting_thread
from rookery.errors import RookeryError
from rookery.forks import kill_group
from rookery.training.commands import start_command
from rookery.training.storage.run_dir import RunDir
from rookery.web.dashboard_state import DashboardState, state_of
from rookery.web.play.play_request import PlayRequest, ReplayRequest, read_replay, read_request
from rookery.web.play.session_main import HEAD, LARGEST, LONGEST_LINE, MessageKind
from rookery.web.run_folders import NotShown, RunFolders
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldSpec

ENDED = 1011  # the code of a closed WebSocket


def play_routes() -> list[BaseRoute]:
    """Routes of the agents and of the sessions."""
    return [Route("/api/agents", agents), WebSocketRoute("/api/play", play)]


async def agents(request: Request) -> Response:
    """The agents that can be played."""
    found = await asyncio.to_thread(playable_agents, state_of(request).folders)
    return Response(orjson.dumps({"agents": found}), media_type="application/json")


async def play(socket: WebSocket) -> None:
    """A session: its process runs as long as the page holds the socket."""
    await socket.accept()
    dashboard: DashboardState = socket.app.state.dashboard
    processes: PlayProcesses = dashboard.parts.setdefault("play", PlayProcesses())
    process = None
    try:
        read = read_replay if "league" in socket.query_params else read_request
        request: PlayRequest | ReplayRequest = await asyncio.to_thread(read, socket.query_params, dashboard.folders)
        process = await processes.start(request)
        await _relay(socket, process)
    except (NotShown, SessionEnded) as error:
        await _refuse(socket, str(error))
    except WebSocketDisconnect:
        pass
    finally:
        if process is not None:
            # Also when the server stops, and this task with it: no process may stay.
            await asyncio.shield(processes.end(process))


async def _relay(socket: WebSocket, process: PlayProcess) -> None:
    """Until either side ends. A page that reads slowly gets few messages: the process waits to hear what was seen."""
    both = [asyncio.create_task(_to_page(socket, process)), asyncio.create_task(_to_process(socket, process))]
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _to_page(socket: WebSocket, process: PlayProcess) -> None:
    while True:
        kind, payload = await process.read()
        if kind == MessageKind.TEXT:
            await socket.send_text(payload.decode())
        else:
            await socket.send_bytes(payload)


async def _to_process(socket: WebSocket, process: PlayProcess) -> None:
    while True:
        await process.write(_checked(await socket.receive_text()))


def _checked(text: str) -> bytes:
    """A message from the page as one line; it must be a small JSON object."""
    try:
        message = json.loads(text) if len(text) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise SessionEnded(f"a message to a session should be a JSON object of at most {LONGEST_LINE} bytes")
    return json.dumps(message).encode()


async def _refuse(socket: WebSocket, sentence: str) -> None:
    """Tell the page why, and close."""
    if socket.client_state != WebSocketState.CONNECTED or socket.application_state != WebSocketState.CONNECTED:
        return
    try:
        await socket.send_text(json.dumps({"kind": "error", "error": sentence}))
        await socket.close(ENDED)
    except (WebSocketDisconnect, RuntimeError):  # it has left in the meantime
        pass


MOST_RUNS = 1000  # the newest of them are listed


def playable_agents(folders: RunFolders) -> list[dict[str, Any]]:
    """One row for each agent: first those that come with rookery, then runs, the newest first."""
    return [*_shipped(), *_runs(folders)]


def _shipped() -> list[dict[str, Any]]:
    specs = {spec.name: spec for spec in registry.agents().values()}
    return [
        {
            "id": name, "kind": "shipped", "name": spec.agent.title if spec.agent else name, "world": name,
            "learner": None, "updated": None, **_game(spec),
        }
        for name, spec in specs.items()
    ]  # fmt: skip


def _runs(folders: RunFolders) -> list[dict[str, Any]]:
    found = sorted(((_changed(path), place, name, path) for place, name, path in folders.children()), reverse=True)
    rows = (_run_row(place, name, path, changed) for changed, place, name, path in found[:MOST_RUNS])
    return [row for row in rows if row is not None]


def _run_row(place: str, name: str, path: Path, changed: float) -> dict[str, Any] | None:
    """The row of a run; None for a folder that is none, or has no checkpoint, or disappears in the meantime."""
    try:
        run = RunDir(path)
        config = run.read_config()
        if not any(name.startswith("step-") for name in os.listdir(run.checkpoints)):
            return None
    except (OSError, ValueError, RookeryError):
        return None
    world, learner = (config.get(key) if isinstance(config.get(key), str) else None for key in ("world", "learner"))
    return {
        "id": f"{place}/{name}", "kind": "run", "name": name, "world": world, "learner": learner, "updated": changed,
        **_game(_spec_of(world)),
    }  # fmt: skip


def _game(spec: WorldSpec | None) -> dict[str, Any]:
    """The game for two that the world is, if it is one: its agents play against each other. And whether a person can
    play it in the page."""
    if spec is None or spec.two_player is None:
        return {"game": None, "against": False}
    return {"game": spec.name, "against": spec.game is not None}


def _spec_of(world: str | None) -> WorldSpec | None:
    specs = (spec for spec in registry.specs() if world in (spec.name, spec.source, *spec.kernels))
    return next(specs, None)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


MOST_SESSIONS = 4
START_SECONDS = 120.0  # to load torch, and to compile a world that was never used
STEP_SECONDS = 20.0  # without a sign of life
CLOSING_SECONDS = 2.0  # between the end of a process's socket and its own
NOT_HERE = "sessions in a page need Linux or macOS; `rookery watch RUN` and `rookery play` work without a page"
CODE = (
    "import sys; from rookery.engine.workers.child_process import die_with_parent; "
    "die_with_parent(int(sys.argv.pop(1))); from rookery.web.play.session_main import main; main(*sys.argv[1:])"
)


class SessionEnded(Exception):
    """The process has ended or was killed; the message is for the page."""


class PlayProcess:
    """One session. `read` and `write` are its messages; `end` kills it."""

    def __init__(self, request: PlayRequest | ReplayRequest) -> None:
        """Start it; to be called in a thread, as it takes a moment. Raises `SessionEnded` where it cannot."""
        if sys.platform == "win32":  # which cannot give an open socket to a process that it starts
            raise SessionEnded(NOT_HERE)
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until the session ends
        with theirs:
            fd = theirs.fileno()
            self._process: subprocess.Popen[bytes] = in_lasting_thread(
                lambda: start_command(
                    str(fd), request.as_json(), code=CODE, variables=ONE_THREAD, pass_fds=[fd],
                    stdout=subprocess.DEVNULL, stderr=self._errors,
                )
            )  # fmt: skip
        self._reader: asyncio.StreamReader | None = None
        self._seconds = START_SECONDS

    @property
    def pid(self) -> int:
        return self._process.pid

    async def connect(self) -> None:
        """Take the socket into the event loop."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._ours)

    async def read(self) -> tuple[MessageKind, bytes]:
        """The next message for the page. Raises `SessionEnded`."""
        assert self._reader is not None
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    length, kind = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                    if length > LARGEST:
                        raise SessionEnded(f"the session was ended: it sent a message of {length:,} bytes")
                    payload = await self._reader.readexactly(length)
            except TimeoutError:
                raise SessionEnded(f"the session was ended: it did nothing for {self._seconds:.0f} seconds") from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise SessionEnded(await asyncio.to_thread(self._why_gone)) from None
            if kind != MessageKind.ALIVE:
                return MessageKind(kind), payload
            self._seconds = STEP_SECONDS  # it plays

    async def write(self, line: bytes) -> None:
        """Tell it a line of JSON."""
        with suppress(ConnectionError):  # `read` tells that it is gone
            self._writer.write(line + b"\n")
            await self._writer.drain()

    def _why_gone(self) -> str:
        """How the process ended, with the last line of what it printed."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSING_SECONDS)
        status = self._process.returncode
        how = "it closed its socket" if status is None else f"exit status {status}"
        if status is not None and status < 0:
            how = signal.strsignal(-status) or f"signal {-status}"
        self._errors.seek(-min(LONGEST_LINE, self._errors.seek(0, os.SEEK_END)), os.SEEK_END)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"the session has ended: its process is gone ({how})" + (f": {last}" if last else "")

    def end(self) -> None:
        """Kill it with everything that it has started."""
        kill_group(self._process)
        self._process.wait()
        self._errors.close()
        if self._reader is None:
            self._ours.close()

    def disconnect(self) -> None:
        """Close the socket, in the event loop."""
        if self._reader is not None:
            self._writer.close()


class PlayProcesses:
    """The sessions that run now, at most `MOST_SESSIONS`."""

    def __init__(self) -> None:
        self._running: set[PlayProcess] = set()
        self._starting = 0

    async def start(self, request: PlayRequest | ReplayRequest) -> PlayProcess:
        """A new session. Raises `SessionEnded` if there are enough."""
        if len(self._running) + self._starting >= MOST_SESSIONS:
            raise SessionEnded(
                f"there are {MOST_SESSIONS} sessions already, as many as run at once here: close another page"
            )
        self._starting += 1
        try:
            process = await asyncio.to_thread(PlayProcess, request)
            self._running.add(process)
        finally:
            self._starting -= 1
        await process.connect()
        return process

    async def end(self, process: PlayProcess) -> None:
        """End a session, whatever it does."""
        self._running.discard(process)
        process.disconnect()
        await asyncio.to_thread(process.end)

    def close(self) -> None:
        while self._running:
            self._running.pop().end()
