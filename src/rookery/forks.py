"""What a process leaves to those it starts: descriptors that forked children close at once (else a lock would stay
locked after its holder's death), and an end for a whole group.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Protocol

_ours: set[int] = set()


def keep_from_children(fd: int) -> None:
    """Have children that are forked from now on close this descriptor."""
    _ours.add(fd)


def close_kept(fd: int) -> None:
    """Close such a descriptor; a second call does nothing."""
    if fd in _ours:
        _ours.discard(fd)
        os.close(fd)


def _close_in_child() -> None:
    for fd in _ours:
        with suppress(OSError):
            os.close(fd)
    _ours.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_close_in_child)


class Killable(Protocol):
    """A process that this one has started."""

    pid: int

    def kill(self) -> None: ...


def kill_group(process: Killable) -> None:
    """Kill a process that leads a group of its own, and all of the group. Windows has no groups to kill: there its
    descendants are killed one by one."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        return
    import psutil

    with suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
    process.kill()
