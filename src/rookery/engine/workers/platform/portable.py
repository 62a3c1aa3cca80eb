"""Workers wherever CPython runs: shared memory with a name, a guardian that cleans up; wake-ups are beside this.

Only names that Windows and macOS have as well are used here; where those two differ, `sys.platform` decides.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from rookery import forks

END_SECONDS = 5.0  # longer than a killed process takes to end, unless it is stuck in the kernel
PAUSES = (0.001, 0.02)  # between two looks whether a process has ended: the first, and the longest
MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - files there are never written to a disk
CHUNK = 1 << 20
# Ctrl-C in a console reaches all processes but those of other groups. Other systems have no such flags.
NEW_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)


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
            forks.close(self._pipe)
            raise
        finally:
            os.close(read)

    def note(self, what: str, name: str | int) -> None:
        """Have it kill a "process" or remove a "file" when this process ends; "no-process" and "no-file" undo it."""
        with contextlib.suppress(OSError):  # it is gone: workers notice the end of this process by themselves
            os.write(self._pipe, f"{what} {name}\n".encode())

    def close(self) -> None:
        """Let it clean up and end. One that was stopped is killed: what it guarded is released by now."""
        forks.close(self._pipe)
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
        forks.close(self._life)


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
