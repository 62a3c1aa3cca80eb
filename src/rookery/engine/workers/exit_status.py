"""A worker's death in words."""

from __future__ import annotations

import signal
from collections.abc import Sequence


def ending(status: int | None, for_memory: bool) -> str:
    """How a process ended, by its exit status; `for_memory` if the kernel has just killed one to get memory."""
    if status is None:
        return "died; how is not known"
    if status >= 0:
        return f"exited with code {status}" + (" (the env called exit)" if status == 0 else "")
    name = signal.strsignal(-status) if -status >= signal.SIGRTMIN else signal.Signals(-status).name
    if -status != signal.SIGKILL:
        return f"died of signal {-status} ({name})"
    if for_memory:
        return f"was killed for memory (signal 9, {name}: the kernel ran out of memory and chose it)"
    return f"was killed by signal 9 ({name}); if nobody sent it, it was for memory: see the kernel's log"


def listed(rows: Sequence[int]) -> str:
    """[0, 1, 2, 5] as '0-2, 5'."""
    parts: list[list[int]] = []
    for row in rows:
        if parts and parts[-1][1] == row - 1:
            parts[-1][1] = row
        else:
            parts.append([row, row])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
