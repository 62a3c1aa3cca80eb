"""What a step leaves besides arrays: infos, failures, and observations without a fixed size."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rookery.engine.failure import Failure

# A segment's status after a step: arrays only, also infos in their slots, or also a StepReport.
NOTHING, SLOTS, REPORT = 0, 1, 2


@dataclass
class StepReport:
    """What does not fit in arrays, by row. It is rare, so it may be pickled."""

    infos: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    final_infos: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    objects: list[tuple[int, int, Any]] = field(default_factory=list)
    final_objects: list[tuple[int, int, Any]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # for the user: what it is about, and a sentence


@dataclass(frozen=True)
class Slot:
    """Where a numeric info key is stored in shared memory: `info_values[index]`, for values of these types."""

    index: int
    key: str
    dtype: np.dtype
    types: tuple[type, ...]

    @cached_property
    def integer(self) -> bool:
        """Integers keep all their bits: they are stored as such in the same eight bytes."""
        return self.dtype.kind in "iu"
