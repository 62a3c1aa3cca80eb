"""Envs on a device, as the CPU sees them: copies of their arrays, copies as envs whose methods can be called, and
parameters that wait on the device for next episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rookery.errors import OptionError
from rookery.kernel.cuda_runtime import DeviceArrays
from rookery.kernel.env_arrays import EnvArrays

WRITTEN_BACK = ("states", "memory", "params", "observations", "infos")  # by `call`: what a method of an env may change


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


class StagedParameters:
    """The columns `next_params` and `staged` of a batch of envs.

    Where `staged` is set, the env's next episode begins with its record in `next_params`, and `staged` is cleared. Code
    on the device may write both columns, between two steps.
    """

    def __init__(self, env_arrays: DeviceArrays, refresh: Callable[[], None]) -> None:
        """`refresh` is called after a tensor was replaced."""
        self._arrays, self._refresh = env_arrays, refresh
        self._waiting: dict[int, dict[str, Any]] = {}  # encoded values by env, as `stage` got them last

    @property
    def next_params(self) -> torch.Tensor:
        """The records of the next episodes, as bytes, [envs, size]."""
        return self._arrays.tensors["next_params"]

    @property
    def staged(self) -> torch.Tensor:
        """Whether a record waits, [envs]."""
        return self._arrays.tensors["staged"]

    def record(self, values: Mapping[str, Any]) -> torch.Tensor:
        """The world's parameters with these values, as one row of `next_params`."""
        record = self._arrays.world.params_record()
        for name, value in self._arrays.world.encode(values).items():
            record[name] = value
        return torch.from_numpy(record.view(np.uint8).reshape(-1)).to(self._arrays.device)

    def spread(self) -> None:
        """Give every env parameters of its own."""
        if len(self._arrays.tensors["params"]) < self._arrays.num_envs:
            self._arrays.spread_params()
            self._refresh()

    def stage(self, options: Mapping[int, dict[str, Any]]) -> None:
        """Keep values for the next episodes of some envs, over the parameters that they have now."""
        count = self._arrays.num_envs
        unknown = [env for env in options if not 0 <= env < count]
        if unknown:
            raise OptionError(f"there is no env {unknown[0]}: there are {count}")
        encoded = {env: self._arrays.world.encode(values) for env, values in options.items()}
        self.spread()
        self._waiting.update(encoded)
        self.rebase()
        staged = self._arrays.host("staged")
        staged[list(encoded)] = 1
        self._arrays.put("staged", staged)

    def rebase(self) -> None:
        """Parameters have changed: those that wait are the same with the values of `stage`."""
        if not self._waiting:
            return
        records = self._arrays.host("params")
        for env, values in self._waiting.items():
            for name, value in values.items():
                records[name][env] = value
        self._arrays.put("next_params", records)

    def apply(self, envs: torch.Tensor) -> None:
        """Take up now what waits for these envs, given as a mask."""
        if not self._waiting:
            return
        due = (self.staged != 0) & envs
        params = self._arrays.tensors["params"]
        params.copy_(torch.where(due[:, None], self.next_params, params))
        self.staged.masked_fill_(due, 0)
