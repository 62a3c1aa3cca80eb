"""Sum trees sample places in proportion to their priorities: on the host in logarithmic time; on a device by a few
operations on whole batches, without waiting for it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.errors import CheckpointError
from rookery.learners.cached_njit import cached_njit


class SumTree:
    """Priorities of `capacity` places, all 0 at first. A place with priority 0 is never sampled.

    Every node is the sum of the two below it, computed again whenever one of them changes and never by adding a
    difference. So the tree follows from its leaves alone, to the last bit, whatever happened before.

    >>> tree = SumTree(3)
    >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> tree.total, tree.largest, tree.sample(np.array([0.1, 0.1, 0.1, 0.1])).tolist()
    (4.0, 3.0, [0, 2, 2, 2])
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._first_leaf = 1 << max(0, capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._first_leaf)
        self._peaks = np.zeros(2 * self._first_leaf)

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self._sums[1])

    @property
    def largest(self) -> float:
        """The greatest priority of all."""
        return float(self._peaks[1])

    def set(self, places: np.ndarray, priorities: np.ndarray) -> None:
        """Give places new priorities; of a place named twice, the last one holds."""
        _set(self._sums, self._peaks, self._first_leaf, places, priorities)

    def sample(self, uniform: np.ndarray) -> np.ndarray:
        """One place from each of equal shares of the total, for numbers between 0 and 1 that say where in its share."""
        places = np.empty(len(uniform), np.int64)
        _sample(self._sums, self._first_leaf, uniform, places)
        return places

    def weights(self, places: np.ndarray, exponent: float) -> np.ndarray:
        """Importance weights of sampled places: (least priority / priority)^exponent. With exponent 1 they correct the
        sampling completely."""
        weights = np.empty(len(places), np.float32)
        _weigh(self._sums, self._first_leaf, places, exponent, weights)
        return weights

    def priorities(self, places: np.ndarray | slice) -> np.ndarray:
        """Of some places."""
        return self._sums[self._first_leaf : self._first_leaf + self.capacity][places]

    def load(self, priorities: np.ndarray) -> None:
        """Start over with the priorities of the first places."""
        if priorities.ndim != 1 or len(priorities) > self.capacity:
            raise CheckpointError(f"priorities of shape {priorities.shape} do not fit {self.capacity} transitions")
        self._sums[:] = self._peaks[:] = 0.0
        self.set(np.arange(len(priorities)), np.asarray(priorities, np.float64))


@cached_njit(nogil=True)
def _set(sums: np.ndarray, peaks: np.ndarray, first_leaf: int, places: np.ndarray, priorities: np.ndarray) -> None:
    for k in range(len(places)):
        node = first_leaf + places[k]
        sums[node] = peaks[node] = priorities[k]
        node //= 2
        while node >= 1:
            sums[node] = sums[2 * node] + sums[2 * node + 1]
            peaks[node] = max(peaks[2 * node], peaks[2 * node + 1])
            node //= 2


@cached_njit(nogil=True)
def _weigh(sums: np.ndarray, first_leaf: int, places: np.ndarray, exponent: float, weights: np.ndarray) -> None:
    least = np.inf
    for place in places:
        least = min(least, sums[first_leaf + place])
    for k in range(len(places)):
        weights[k] = (least / sums[first_leaf + places[k]]) ** exponent


@cached_njit(nogil=True)
def _sample(sums: np.ndarray, first_leaf: int, uniform: np.ndarray, places: np.ndarray) -> None:
    share = sums[1] / len(uniform)
    for k in range(len(uniform)):
        mass = (k + uniform[k]) * share
        node = 1
        while node < first_leaf:
            left, right = sums[2 * node], sums[2 * node + 1]
            # Rounding can carry `mass` past the last priority: never go where there is nothing.
            if right > 0.0 and mass >= left:
                mass -= left
                node = 2 * node + 1
            else:
                node = 2 * node
        places[k] = node - first_leaf


# On a device priorities are integers: sums of them do not depend on the order in which a GPU adds. So the same seed
# samples the same places every time.
UNIT = 2.0**-24  # the smallest priority
LARGEST = 2**40  # in units: a million of them still fit into 64 bits
BLOCK = 256


class DeviceSumTree:
    """The sum tree with tensors. Of a place named twice in `set`, the greatest priority holds. Two levels instead of
    twenty, blocks of priorities and their sums, as an operation costs more than the numbers in it.

    >>> tree = DeviceSumTree(3, torch.device("cpu"))
    >>> tree.set(torch.tensor([0, 2]), torch.tensor([1.0, 3.0]))
    >>> tree.total, tree.sample(torch.full((4,), 0.1)).tolist()
    (4.0, [0, 2, 2, 2])
    """

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity, self.device, self._float = capacity, device, wide_float(device)
        blocks = -(-capacity // BLOCK)
        self._units = torch.zeros(blocks * BLOCK, dtype=torch.int64, device=device)
        self._sums = torch.zeros(blocks, dtype=torch.int64, device=device)

    @property
    def tensors(self) -> list[Tensor]:
        return [self._units, self._sums]

    @property
    def total(self) -> float:
        """The sum of all priorities; waits for the device."""
        return int(self._sums.sum()) * UNIT

    def set(self, places: Tensor, priorities: Tensor) -> None:
        """Give places new priorities, none of them 0."""
        self._set_units(places, (priorities.to(self._float) / UNIT).round().clamp(1, LARGEST).long())

    def set_new(self, places: Tensor) -> None:
        """Give places the greatest priority of all, or 1 if there is none."""
        largest = self._units.amax()
        self._set_units(places, torch.where(largest > 0, largest, round(1 / UNIT)).expand(len(places)))

    def _set_units(self, places: Tensor, units: Tensor) -> None:
        # Written twice: a place that is named twice gets the same number in whatever order a GPU writes them.
        self._units.index_fill_(0, places, 0)
        self._units.scatter_reduce_(0, places, units, "amax")
        blocks = places // BLOCK
        self._sums.index_copy_(0, blocks, self._rows(blocks).sum(1))

    def _rows(self, blocks: Tensor) -> Tensor:
        return self._units.view(-1, BLOCK).index_select(0, blocks)

    def sample(self, uniform: Tensor) -> Tensor:
        """One place from each of equal shares of the total, for numbers between 0 and 1 that say where in its share."""
        ends = self._sums.cumsum(0)
        shares = (torch.arange(len(uniform), device=self.device) + uniform.to(self._float)) / len(uniform)
        mass = torch.minimum((shares * ends[-1]).long(), ends[-1] - 1)
        blocks = torch.searchsorted(ends, mass, right=True).clamp_(max=len(ends) - 1)
        rest = mass - ends[blocks] + self._sums[blocks]
        within = (self._rows(blocks).cumsum(1) <= rest.unsqueeze(1)).sum(1)
        return (blocks * BLOCK + within).clamp_(0, self.capacity - 1)

    def weights(self, places: Tensor, exponent: float | Tensor) -> Tensor:
        """Importance weights of sampled places, as those of the sum tree on the host."""
        units = self._units[places].to(self._float)
        return ((units.amin() / units) ** exponent).float()

    def priorities(self, places: np.ndarray | slice) -> np.ndarray:
        """Of some places; waits for the device."""
        return self._units[: self.capacity][places].cpu().double().mul_(UNIT).numpy()

    def load(self, priorities: np.ndarray) -> None:
        """Start over with the priorities of the first places."""
        if priorities.ndim != 1 or len(priorities) > self.capacity:
            raise CheckpointError(f"priorities of shape {priorities.shape} do not fit {self.capacity} transitions")
        self._units.zero_()
        units = np.clip(np.round(np.asarray(priorities, np.float64) / UNIT), 0, LARGEST).astype(np.int64)
        self._units[: len(units)] = torch.from_numpy(units).to(self.device)
        self._sums.copy_(self._units.view(-1, BLOCK).sum(1))


def wide_float(device: torch.device) -> torch.dtype:
    """The floats of most digits: 24 bits would not reach every place of a large buffer. Apple's GPUs have no others."""
    return torch.float32 if device.type == "mps" else torch.float64
