"""Workers wherever CPython runs: a new interpreter each, shared memory with a name, sockets or pipes, one to live by.

`guardian.py` cleans up what a killed program leaves; wake-ups are in `portable_wakeups.py`. Only names that Windows and
macOS have as well are used here; where those two differ, `sys.platform` decides.
"""

from __future__ import annotations

import base64
import contextlib
import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rookery import forks
from rookery.console import say
from rookery.engine.workers.channel import Channel
from rookery.engine.workers.child_process import ONE_THREAD, ignore_signals, import_path
from rookery.engine.workers.portable_wakeups import Wakeup, WakeupPoll, close_ends, other_end, wakeup_pair
from rookery.engine.workers.worker import Worker, run_worker

END_SECONDS = 5.0  # longer than a killed process takes to end, unless it is stuck in the kernel
PAUSES = (0.001, 0.02)  # between two looks whether a process has ended: the first, and the longest
MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - files there are never written to a disk
CHUNK = 1 << 20
# Ctrl-C in a console reaches all processes but those of other groups. Other systems have no such flags.
NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
BOOT = """
import json, os, sys
hello = json.loads(sys.stdin.buffer.readline())
sys.path[:] = hello["path"]
from rookery.engine.workers.portable import main
main(hello["ends"])
"""


class Guardian:
    """The parent's end of the pipe to `guardian.py`, whose process is in a session of its own: it outlives a kill of
    this one's group."""

    def __init__(self) -> None:
        read, self._pipe = os.pipe()
        forks.keep_from_children(self._pipe)  # it waits until nobody holds this end
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("guardian.py"))],
                stdin=read, stdout=subprocess.DEVNULL, start_new_session=True, creationflags=NEW_GROUP | NO_WINDOW,
            )  # fmt: skip
        except BaseException:
            forks.close_kept(self._pipe)
            raise
        finally:
            os.close(read)

    def note(self, what: str, name: str | int) -> None:
        """Have it kill a "process" or remove a "file" when this process ends; "no-process" and "no-file" undo it."""
        with contextlib.suppress(OSError):  # it is gone: workers notice the end of this process by themselves
            os.write(self._pipe, f"{what} {name}\n".encode())

    def close(self) -> None:
        """Let it clean up and end. One that was stopped is killed: what it guarded is released by now."""
        forks.close_kept(self._pipe)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class PipedProcess:
    """A worker process, with the pipe whose end tells it that this process is gone."""

    def __init__(self, child: subprocess.Popen[bytes], life: int, guardian: Guardian) -> None:
        self.pid, self._child, self._life, self._guardian = child.pid, child, life, guardian
        self.status: int | None = None
        guardian.note("process", self.pid)

    def kill(self) -> None:
        if not self.has_ended():
            self._child.kill()

    def has_ended(self) -> bool:
        if self._child.returncode is None:
            is_known = _status_is_known(self.pid)
            if self._child.poll() is not None:
                self._guardian.note("no-process", self.pid)  # the system may give its number to another process now
                self.status = self._child.returncode if is_known else None
        return self._child.returncode is not None

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end."""
        deadline, pause = time.monotonic() + seconds, PAUSES[0]
        while not self.has_ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, PAUSES[1])
        return True

    def wait(self) -> int | None:
        """The exit status of a process that has ended or was killed; None if it is not known."""
        self.ends_within(END_SECONDS)
        return self.status

    def close(self) -> None:
        forks.close_kept(self._life)


def _status_is_known(pid: int) -> bool:
    """Not if other code has collected it, or the program ignores SIGCHLD: `Popen` says 0 then."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            return False
    return True


class NamedBlock:
    """Shared memory of `size` bytes, allocated at once. Windows frees it with its last user; elsewhere it is a file,
    which the guardian removes if this process cannot."""

    def __init__(self, size: int, guardian: Guardian) -> None:
        name, self._guardian = f"rookery-{os.getpid()}-{uuid.uuid4().hex}", guardian
        if sys.platform == "win32":
            self._ticket, self.memory = name, mmap.mmap(-1, size, tagname=name)
            return
        self._ticket = os.path.join(_folder(), name)
        guardian.note("file", self._ticket)  # before there is one
        fd = os.open(self._ticket, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _allocate(fd, size)
            self.memory = mmap.mmap(fd, size)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(fd)

    def offer(self, _: tuple[Any, ...]) -> tuple[str, tuple[int, ...]]:
        """What a worker needs to attach: a name, and no descriptors."""
        return self._ticket, ()

    def close(self) -> None:
        if sys.platform != "win32":
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._ticket)
            self._guardian.note("no-file", self._ticket)


def accept(ticket: str, size: int) -> mmap.mmap:
    """The memory that the parent has offered."""
    if sys.platform == "win32":
        return mmap.mmap(-1, size, tagname=ticket)
    fd = os.open(ticket, os.O_RDWR)
    try:
        return mmap.mmap(fd, size)
    finally:
        os.close(fd)


def _allocate(fd: int, size: int) -> None:
    """Take the memory now: a page that is missing later would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    for start in range(0, size, CHUNK):
        os.write(fd, bytes(min(CHUNK, size - start)))


def _folder() -> str:
    return MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else tempfile.gettempdir()


# --- starting workers -------------------------------------------------------------------------------------------------


class PortableLaunch:
    """A worker that was started; what Linux does in two parts is one here."""

    def __init__(self, started: tuple[PipedProcess, Channel, Wakeup]) -> None:
        self._started = started

    def poll(self, _: float) -> tuple[PipedProcess, Channel, Wakeup]:
        """The worker, its channel and its wake-up."""
        return self._started

    def abort(self) -> None:
        """End it."""
        process, channel, wakeup = self._started
        process.kill()
        process.wait()
        for part in (process, channel, wakeup):
            part.close()


class PortableLauncher:
    """Starts the workers of one engine, and owns what they share with it."""

    method = "spawn"

    def __init__(self, method: str) -> None:
        if method != self.method:
            say(f"start_method={method!r} is for Linux: workers are started by 'spawn'")
        self._guardian = Guardian()

    def start(self) -> tuple[PipedProcess, Channel, Wakeup]:
        """A new worker that listens on the channel, and the wake-up that is shared with it."""
        ours, theirs = socket.socketpair()
        ends: list[Any] = [theirs]
        try:
            wakeup, its = wakeup_pair()
            ends += its
            try:
                process = self._spawn(ends)
            except BaseException:
                wakeup.close()
                raise
        except BaseException:
            ours.close()
            raise
        finally:
            close_ends(ends)
        return process, Channel(ours, process.has_ended), wakeup

    def import_for(self, world: Any) -> None:
        """Nothing: each worker is a new interpreter."""

    def learn_packages(self, world: Any, modules: Sequence[str], seconds: float) -> None:
        """The same."""

    def begin(self) -> PortableLaunch:
        """Start a worker, without waiting for it."""
        return PortableLaunch(self.start())

    def new_block(self, size: int) -> NamedBlock:
        return NamedBlock(size, self._guardian)

    def poll(self, handles: Iterable[Any]) -> WakeupPoll:
        """What to sleep on for these workers."""
        return WakeupPoll(handles)

    def wakeups(self, wakeup: Any) -> tuple[Wakeup, ...]:
        """None that a worker would have to be sent: it has its end already."""
        return ()

    def close(self) -> None:
        self._guardian.close()

    def _spawn(self, theirs: list[Any]) -> PipedProcess:
        read, life = os.pipe()
        forks.keep_from_children(life)  # the worker waits until nobody holds this end
        environment = {**os.environ, **ONE_THREAD}
        inherited: dict[str, Any] = {} if sys.platform == "win32" else {"pass_fds": [*map(_number, theirs)]}
        try:
            child = subprocess.Popen(
                [_python(environment), "-c", BOOT], stdin=read, env=environment, creationflags=NEW_GROUP,
                **inherited,
            )  # fmt: skip
        except BaseException:
            forks.close_kept(life)
            raise
        finally:
            os.close(read)
        process = PipedProcess(child, life, self._guardian)
        hello = {"path": import_path(), "ends": [_ticket(end, child.pid) for end in theirs]}
        with contextlib.suppress(OSError):  # it has died: found with the first request
            os.write(life, json.dumps(hello).encode() + b"\n")
        return process


def _python(environment: dict[str, str]) -> str:
    """The interpreter. In a virtual environment on Windows, `sys.executable` starts another process and waits for it:
    the number of that one would not be known here."""
    if sys.platform == "win32" and hasattr(sys, "_base_executable"):
        environment["__PYVENV_LAUNCHER__"] = sys.executable
        return sys._base_executable
    return sys.executable


def _number(end: Any) -> int:
    return end if isinstance(end, int) else end.fileno()


def _ticket(end: Any, pid: int) -> Any:
    """How the child finds a socket or pipe: by the number it inherits or, on Windows, by a copy that is made for it."""
    if sys.platform == "win32":
        return base64.b64encode(end.share(pid)).decode()
    return _number(end)


# --- in the worker process --------------------------------------------------------------------------------------------


def main(tickets: list[Any]) -> None:
    """Serve until the engine requests an exit, or until the parent is gone. Never returns."""
    ignore_signals()
    life = os.dup(0)  # the pipe from the parent
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # envs that read their input find it empty
    os.close(nothing)
    threading.Thread(target=_end_with, args=(life,), name="rookery-parent", daemon=True).start()
    messages, *bell = tickets
    ends = bell if len(bell) == 2 else [_socket_of(ticket) for ticket in bell]  # two ends of pipes, or a socket
    run_worker(PortableWorker(Channel(_socket_of(messages)), other_end(ends)))


def _end_with(life: int) -> None:
    """End this process when its parent ends. An env that holds Python's lock delays that; the guardian does not."""
    while os.read(life, 1):
        pass
    os._exit(1)


class PortableWorker(Worker):
    """A worker that opens shared memory by its name."""

    def __init__(self, channel: Channel, wakeup: Wakeup) -> None:
        super().__init__(channel, os.getppid())
        self._wakeup = self._parent_wakeup = wakeup

    def _accept(self, ticket: Any, fds: list[int], size: int) -> mmap.mmap:
        return accept(ticket, size)


def _socket_of(ticket: Any) -> socket.socket:
    """The other side of `_ticket` for a socket, in the child."""
    if sys.platform == "win32":
        return socket.fromshare(base64.b64decode(ticket))
    return socket.socket(fileno=ticket)
