"""Means of the infos of the latest episodes' last steps, as metrics of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.training.evaluation.final_numbers import MOST_NUMBERS, PREFIX, final_numbers

WINDOW = 100  # episodes


class InfoMeans:
    """Keeps the numbers of the last hundred episodes, for the first names that occur."""

    def __init__(self) -> None:
        self._latest: dict[str, deque[float]] = {}

    def add(self, infos: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Add the episodes that ended in one step, from the step's infos and the world's metadata."""
        for name, values in final_numbers(infos["final_info"], metadata).items():
            if name not in self._latest:
                if len(self._latest) >= MOST_NUMBERS:
                    continue
                self._latest[name] = deque(maxlen=WINDOW)
            self._latest[name].extend(values[-WINDOW:].tolist())

    def clear(self) -> None:
        """Keep nothing."""
        self._latest.clear()

    def metrics(self) -> dict[str, float]:
        """As progress events hold them."""
        return {f"{PREFIX}{name}": float(np.mean(values)) for name, values in self._latest.items()}

    def state(self) -> dict[str, list[float]]:
        return {name: list(values) for name, values in self._latest.items()}

    def load(self, state: Mapping[str, list[float]]) -> None:
        self._latest = {name: deque(map(float, values), maxlen=WINDOW) for name, values in state.items()}
