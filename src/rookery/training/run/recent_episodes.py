"""Returns, lengths and outcomes of the latest episodes."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from rookery.training.run.info_means import InfoMeans

WINDOW = 100


class RecentEpisodes:
    """Counts finished episodes and keeps the last hundred."""

    def __init__(self) -> None:
        self.count = 0
        self.returns: deque[float] = deque(maxlen=WINDOW)
        self.lengths: deque[int] = deque(maxlen=WINDOW)
        self.outcomes: dict[str, deque[float]] = {}  # such as win_rate
        self.infos = InfoMeans()
        self._is_given = False  # whether `replace` says what is kept

    def add(self, finished: np.ndarray, others: int = 0) -> None:
        """Add what an engine's `finished_episodes()` returns, and count `others` that it has not listed."""
        self.count += len(finished) + others
        if self._is_given:
            return
        self.returns.extend(finished["return"][-WINDOW:].tolist())
        self.lengths.extend(finished["length"][-WINDOW:].tolist())

    def replace(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Keep these instead of all others; their outcomes and infos follow."""
        self.returns.clear()
        self.lengths.clear()
        self.outcomes.clear()
        self.infos.clear()
        self._is_given = True
        self.returns.extend(returns.tolist())
        self.lengths.extend(lengths.tolist())

    def add_outcomes(self, outcomes: dict[str, list[float]]) -> None:
        """Add what `outcomes_of` found in the final infos of some episodes."""
        for name, values in outcomes.items():
            self.outcomes.setdefault(name, deque(maxlen=WINDOW)).extend(values)

    def mean_return(self, last: int = WINDOW) -> float:
        """The mean of the last episodes; NaN if there are none."""
        recent = list(self.returns)[-last:]
        return float(np.mean(recent)) if recent else float("nan")

    def metrics(self) -> dict[str, float]:
        """As progress events hold them."""
        if not self.returns:
            return {"episodes": self.count}
        return {
            "episodes": self.count,
            "episode/return": self.mean_return(),
            "episode/length": float(np.mean(self.lengths)),
            **{f"episode/{name}": float(np.mean(values)) for name, values in self.outcomes.items()},
            **self.infos.metrics(),
        }

    def latest(self) -> dict[str, float]:
        """Of the latest episode, as progress events hold them if the run's length is in episodes."""
        if not self.returns:
            return {}
        return {"episode/latest_return": self.returns[-1], "episode/latest_length": float(self.lengths[-1])}

    def last_outcomes(self, last: int) -> dict[str, float]:
        """Means over the last episodes."""
        return {name: float(np.mean(list(values)[-last:])) for name, values in self.outcomes.items()}

    def state(self) -> dict[str, Any]:
        outcomes = {name: list(values) for name, values in self.outcomes.items()}
        return {
            "count": self.count,
            "returns": list(self.returns),
            "lengths": list(self.lengths),
            "outcomes": outcomes,
            "infos": self.infos.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.returns.extend(map(float, state["returns"]))
        self.lengths.extend(map(int, state["lengths"]))
        self.add_outcomes({name: [*map(float, values)] for name, values in state.get("outcomes", {}).items()})
        self.infos.load(state.get("infos", {}))  # runs of earlier versions have none
