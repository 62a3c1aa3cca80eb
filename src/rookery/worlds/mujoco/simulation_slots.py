"""The memory of MuJoCo in a batch: data, and maybe a model, for each thread, made and freed by MuJoCo itself.

An env keeps its state as numbers of its own record. A thread that steps the env writes it into the thread's data, and
reads it back after the step. So a batch of thousands of envs needs as many data as threads, which stay in their caches,
and threads share nothing that is written to.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import numpy as np

from rookery.worlds.mujoco.array_fields import ArrayField, model_array
from rookery.worlds.mujoco.physics_calls import OBJECTS

WORDS = ("model", "data", "buffer", "warnings")  # addresses in the scratch record, before those of arrays


def address_fields(
    data: Iterable[ArrayField], model: Iterable[ArrayField], configured: Iterable[ArrayField]
) -> dict[str, str]:
    """The fields of a scratch record: addresses. Of arrays that are configured, also those of the original ones."""
    kinds = {"data": data, "model": model, "original": configured}
    names = [*WORDS, *(f"{kind}_{field.name}" for kind, fields in kinds.items() for field in fields)]
    return {f"mj_{name}": "i8" for name in names}


class SimulationSlots:
    """One MjData per scratch record, and one MjModel, if worlds write to it. They live as long as this object."""

    def __init__(self, package: Any, model: Any, scratch: np.ndarray, state_size: int, own_models: bool) -> None:
        self._kept: list[Any] = []
        self._original = model
        for record in scratch:
            here = copy(model) if own_models else model
            data, buffer = package.MjData(here), np.zeros(state_size)
            self._kept.append((here, data, buffer))
            OBJECTS[here._address], OBJECTS[data._address] = here, data
            for name in scratch.dtype.names or ():
                if name.startswith("mj_"):
                    record[name] = self._address(name.removeprefix("mj_"), here, data, buffer)

    def _address(self, name: str, model: Any, data: Any, buffer: np.ndarray) -> int:
        if name in ("model", "data"):
            return (model if name == "model" else data)._address
        if name == "buffer":
            return buffer.ctypes.data
        if name == "warnings":
            return data.warning.number.ctypes.data
        kind, _, array = name.partition("_")
        models = {"model": model, "original": self._original}
        found = getattr(data, array) if kind == "data" else model_array(models[kind], array)
        assert found is not None
        return found.ctypes.data
