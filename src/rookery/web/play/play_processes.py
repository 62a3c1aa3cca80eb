"""The processes of the sessions: a few at a time, each ended with its page, none left behind.

A session's code may hang, crash or use much memory: it must not touch the server. The kernel kills a session when the
server dies; the server kills one that says nothing for too long.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress

from rookery.engine.workers.child_process import ONE_THREAD, in_lasting_thread
from rookery.process_groups import kill_group
from rookery.training.commands import start_command
from rookery.web.play.play_request import PlayRequest
from rookery.web.play.replay_request import ReplayRequest
from rookery.web.play.session_channel import HEAD, LARGEST, MessageKind

MOST_SESSIONS = 4
START_SECONDS = 120.0  # to load torch, and to compile a world that was never used
STEP_SECONDS = 20.0  # without a sign of life
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
        with theirs:
            fd = theirs.fileno()
            self._process: subprocess.Popen[bytes] = in_lasting_thread(
                lambda: start_command(
                    str(fd), request.as_json(), code=CODE, variables=ONE_THREAD, pass_fds=[fd],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
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
                raise SessionEnded("the session has ended: its process is gone") from None
            if kind != MessageKind.ALIVE:
                return MessageKind(kind), payload
            self._seconds = STEP_SECONDS  # it plays

    async def write(self, line: bytes) -> None:
        """Tell it a line of JSON."""
        with suppress(ConnectionError):  # `read` tells that it is gone
            self._writer.write(line + b"\n")
            await self._writer.drain()

    def end(self) -> None:
        """Kill it with everything that it has started."""
        kill_group(self._process)
        self._process.wait()
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
        """End all of them."""
        while self._running:
            self._running.pop().end()
