"""Tables on a device: engines of one process that use the same array share one copy of it. Needs torch."""

from __future__ import annotations

import warnings
import weakref
import zlib
from typing import Any

import numpy as np
import torch


class DeviceTable:
    """A table on a device. It keeps its array, so that no other array can have the same address meanwhile."""

    def __init__(self, array: np.ndarray, device: torch.device) -> None:
        self.array, self.tensor = array, _uploaded(array, device)


_tables: weakref.WeakValueDictionary[Any, DeviceTable] = weakref.WeakValueDictionary()


def device_table(array: np.ndarray, device: torch.device) -> DeviceTable:
    """The array on the device, which is uploaded unless a table of the same array is there already."""
    key = array.ctypes.data, array.shape, array.dtype.str, str(device), _contents(array)
    found = _tables.get(key)
    if found is None:
        found = _tables[key] = DeviceTable(array, device)
    return found


def _contents(array: np.ndarray) -> int:
    """A checksum of an array that could be written to through another view: it may have changed since its upload."""
    owner: Any = array
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    return zlib.crc32(array.reshape(-1).view(np.uint8)) if owner.flags.writeable else 0  # type: ignore[arg-type]


def _uploaded(array: np.ndarray, device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return torch.from_numpy(array.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the array is read-only, and only read here
        return torch.from_numpy(array).to(device)
