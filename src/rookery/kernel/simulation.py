"""What a world needs that is simulated by a library of its own on a GPU: that library steps all envs at once.

A step of such a world is three pieces of work: a kernel that writes controls, the library's own kernels, and a kernel
that computes rewards and observations. Envs whose episode begins are then settled: the library computes what follows
from their first state, and a last kernel writes their observations again.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Simulation(Protocol):
    """The states of all envs, in arrays on a device."""

    # Tensors whose rows are envs: the world's functions find them among the tables, at `scratch.simulated_env`.
    arrays: dict[str, Any]
    state_field: str  # the field of a state that holds the complete state of the simulation on the CPU

    def advance(self) -> None:
        """Simulate one step of all envs, on torch's current stream, without waiting."""

    def settle(self) -> None:
        """Compute what follows from the states of envs, for those that begin an episode."""

    def read_states(self) -> np.ndarray:
        """The complete state of each env."""

    def write_states(self, states: np.ndarray) -> None:
        """Replace the states of all envs by what `read_states` returned."""
