"""How the latest episodes went."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

WINDOW = 100


class RecentEpisodes:
    """Counts finished episodes and remembers the last hundred."""

    def __init__(self) -> None:
        self.count = 0
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self.outcomes: dict[str, deque[float]] = {}  # such as win_rate

    def add(self, finished: np.ndarray) -> None:
        """Take in what an engine's `finished_episodes()` gives."""
        self.count += len(finished)
        self.returns.extend(finished["return"][-WINDOW:].tolist())
        self.lengths.extend(finished["length"][-WINDOW:].tolist())

    def note(self, outcomes: dict[str, list[float]]) -> None:
        """Take in what the last infos of some episodes say about how they went."""
        for name, values in outcomes.items():
            self.outcomes.setdefault(name, deque(maxlen=WINDOW)).extend(values)

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
            **{f"episode/{name}": float(np.mean(values)) for name, values in self.outcomes.items()},
        }

    def last_outcomes(self, last: int) -> dict[str, float]:
        """Means over the last so many episodes."""
        return {name: float(np.mean(list(values)[-last:])) for name, values in self.outcomes.items()}

    def state(self) -> dict[str, Any]:
        outcomes = {name: list(values) for name, values in self.outcomes.items()}
        return {
            "count": self.count,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "outcomes": outcomes,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.returns.extend(map(float, state["returns"]))
        self.lengths.extend(map(int, state["lengths"]))
        self.note({name: [*map(float, values)] for name, values in state.get("outcomes", {}).items()})
