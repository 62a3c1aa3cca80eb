"""The episodes of envs on a GPU. Listing all of them would take a kernel in every step: each env keeps its latest one
and their number, and this reads them when something is logged, evaluated or saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rookery.engine.segment_stepping import EPISODE
from rookery.training.run.recent_episodes import WINDOW

MOST_LISTED = 1024  # episodes at a look; others are counted


class LatestEpisodes:
    """Counts the finished episodes of all rows, and lists the latest one of each."""

    def __init__(self, envs: Any) -> None:
        self._envs = envs
        self._first: torch.Tensor | None = None  # episodes that each row had begun before
        self._seen = torch.zeros(0)  # and at the last look
        self.others = 0  # episodes that ended before the last look and were not listed

    def begin(self) -> None:
        """All envs have begun new episodes, or were loaded: what they finished before is known."""
        self._first = self._envs.episodes_begun()
        self._seen = self._first.clone()

    def take(self) -> np.ndarray:
        """The latest episode of rows that have finished any since the last look, as an engine's records."""
        begun = self._envs.episodes_begun()
        new = (begun - self._seen).cpu().numpy()
        self._seen = begun
        rows = np.flatnonzero(new > 0)[:MOST_LISTED]
        self.others = int(new.sum()) - len(rows)
        episodes = np.zeros(len(rows), EPISODE)
        episodes["env"] = rows
        episodes["return"], episodes["length"] = self._results(rows)
        return episodes

    def infos_of(self, rows: np.ndarray) -> dict[str, Any]:
        """Infos of the last steps of these rows' latest episodes, in the form of a step's."""
        ended = np.zeros(self._envs.num_envs, np.bool_)
        ended[rows] = True
        final: dict[str, np.ndarray] = {}
        for name, values in self._envs.final_infos().items():
            final |= {name: values.cpu().numpy(), f"_{name}": ended}
        return {"final_info": final, "_final_info": ended}

    def window(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A hundred rows that have finished an episode, spread over all, and the results of their latest ones: by the
        envs' present state alone, whenever it was looked at before."""
        assert self._first is not None
        rows = np.flatnonzero((self._seen - self._first).cpu().numpy() > 0)
        rows = rows[np.linspace(0, len(rows) - 1, min(WINDOW, len(rows))).astype(np.int64)]
        return rows, *self._results(rows)

    def _results(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        chosen = torch.from_numpy(rows).to(self._envs.last_returns.device)
        return tuple(x[chosen].cpu().numpy() for x in (self._envs.last_returns, self._envs.last_lengths))
