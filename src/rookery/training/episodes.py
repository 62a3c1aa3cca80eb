"""How the latest episodes went."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

WINDOW = 100


class Episodes:
    """Counts finished episodes and remembers the last hundred."""

    def __init__(self) -> None:
        self.count = 0
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)

    def add(self, finished: np.ndarray) -> None:
        """Take in what an engine's `finished_episodes()` gives."""
        self.count += len(finished)
        self.returns.extend(finished["return"][-WINDOW:].tolist())
        self.lengths.extend(finished["length"][-WINDOW:].tolist())

    def mean_return(self, last: int = WINDOW) -> float:
        """The mean of the last so many; NaN if there are none."""
        recent = list(self.returns)[-last:]
        return float(np.mean(recent)) if recent else float("nan")

    def figures(self) -> dict[str, float]:
        """What a monitor shows."""
        if not self.returns:
            return {"episodes": self.count}
        return {
            "episodes": self.count,
            "episode/return": self.mean_return(),
            "episode/length": float(np.mean(self.lengths)),
        }

    def state(self) -> dict[str, Any]:
        return {"count": self.count, "returns": list(self.returns), "lengths": list(self.lengths)}

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.returns.extend(state["returns"])
        self.lengths.extend(state["lengths"])
