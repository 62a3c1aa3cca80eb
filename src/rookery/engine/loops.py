"""The engine's inner loops: compiled (`_loops.c`) where that was possible, else in Python, with the same results.

Measured on 2 cores with CartPole, 8 envs: compiled, a round takes 15 % less. Processes that take turns on a core find
its caches cold, and Python needs more of them. `ROOKERY_PLAIN=1` in the environment selects Python.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from rookery.engine import plain_loops


def compiled() -> ModuleType | None:
    """The compiled loops; None if there was no C compiler when rookery was installed, or if they were compiled from an
    older source."""
    try:
        found = importlib.import_module("rookery.engine._loops")
    except ImportError:
        return None
    return found if hasattr(found, "read_records") else None


_wanted = os.environ.get("ROOKERY_PLAIN", "") in ("", "0")
_loops = (compiled() if _wanted else None) or plain_loops
COMPILED = _loops is not plain_loops

fence, watch, inside = _loops.fence, _loops.watch, _loops.inside
step_each, store = _loops.step_each, _loops.store
read_slots, read_records = _loops.read_slots, _loops.read_records
