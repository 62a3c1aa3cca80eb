"""Descriptors that a forked child lets go of at once: a lock would stay locked after its holder's death otherwise."""

from __future__ import annotations

import os
from contextlib import suppress

_ours: set[int] = set()


def keep_from_children(fd: int) -> None:
    """A child that is forked from now on closes its copy."""
    _ours.add(fd)


def close(fd: int) -> None:
    """Close such a descriptor; once is enough."""
    if fd in _ours:
        _ours.discard(fd)
        os.close(fd)


def _let_go_in_child() -> None:
    for fd in _ours:
        with suppress(OSError):
            os.close(fd)
    _ours.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
