"""Copies on the CPU of envs that are on a device: of their arrays, and as envs whose methods can be called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rookery.kernel.cuda_runtime import DeviceArrays
from rookery.kernel.env_arrays import EnvArrays

WRITTEN_BACK = ("states", "params", "observations", "infos")  # by `call`: what a method of an env may change


def copied_columns(arena: DeviceArrays, columns: Sequence[str]) -> EnvArrays:
    """A copy of these columns, as the device has them."""
    host = EnvArrays(arena.world, arena.num_envs)
    if len(arena.tensors["params"]) > 1:
        host.spread_params()
    for name in columns:
        host.arrays[name][...] = arena.host(name).reshape(host.arrays[name].shape)
    return host


class CopiedEnvs:
    """Copies of all envs on the CPU. What changes in them can be written back."""

    def __init__(self, arena: DeviceArrays) -> None:
        self._arena, self._simulation = arena, arena.world.simulation
        host = copied_columns(arena, WRITTEN_BACK)
        self._states = host.states
        self.arrays = host if self._simulation is None else self._on_cpu(host)
        self._before = {column: self.arrays.arrays[column].tobytes() for column in WRITTEN_BACK}

    def _on_cpu(self, host: EnvArrays) -> EnvArrays:
        """The envs of a simulated world as the CPU has them: their states hold the simulation's."""
        assert self._simulation is not None
        envs = EnvArrays(self._arena.world.on_cpu, self._arena.num_envs)
        if host.per_env:
            envs.spread_params()
        for name in WRITTEN_BACK[1:]:
            envs.arrays[name][...] = host.arrays[name]
        for name in host.states.dtype.names or ():
            envs.states[name] = host.states[name]
        envs.states[self._simulation.state_field] = self._simulation.read_states()
        return envs

    def write_back(self) -> None:
        """Write the columns that have changed to the device."""
        changed = [name for name in WRITTEN_BACK if self.arrays.arrays[name].tobytes() != self._before[name]]
        for name in changed:
            self._arena.put(name, self._device_states() if name == "states" else self.arrays.arrays[name])

    def _device_states(self) -> np.ndarray:
        if self._simulation is None:
            return self.arrays.states
        self._simulation.write_states(self.arrays.states[self._simulation.state_field])
        for name in self._states.dtype.names or ():
            self._states[name] = self.arrays.states[name]
        return self._states
