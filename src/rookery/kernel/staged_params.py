"""Parameters that wait on a device for the next episodes of envs, which take them up by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from rookery.errors import OptionError
from rookery.kernel.cuda_runtime import DeviceArrays


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
