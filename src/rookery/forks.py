"""File descriptors that a forked child closes at once: otherwise a lock would stay locked after its holder's death."""

from __future__ import annotations

import os
from contextlib import suppress

_ours: set[int] = set()


def keep_from_children(fd: int) -> None:
    """Have children that are forked from now on close this descriptor."""
    _ours.add(fd)


def close(fd: int) -> None:
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
