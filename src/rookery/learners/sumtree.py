"""A sum tree: samples places in proportion to their priorities, in logarithmic time."""

from __future__ import annotations

import numpy as np

from rookery.errors import CheckpointError
from rookery.learners.cached_njit import cached_njit


class SumTree:
    """Priorities of `capacity` places, all 0 at first. A place with priority 0 is never sampled.

    Every node is the sum of the two below it, computed anew whenever one of them changes and never by adding a
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
        """Begin anew with the priorities of the first places."""
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
