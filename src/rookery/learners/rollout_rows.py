"""A rollout that is filled with rows of others as they come: each row is the steps of one env, whichever it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from rookery.learners.rollout import Rollout
from rookery.learners.rollout_parts import NAMES, RolloutPart


@dataclass
class WaitingRows:
    """Rows of a part that were not placed yet."""

    part: RolloutPart
    envs: np.ndarray  # the number of each row's env among all
    version: int  # of the weights that acted
    first: int = 0  # of those that wait

    @property
    def count(self) -> int:
        return len(self.envs) - self.first


class RowFiller:
    """Fills a learner's rollout on a CPU. An env's row goes to its own place if that is free: rewards are normalised
    with what is known of the env there."""

    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._free = np.ones(rollout.envs, bool)
        if rollout.log_probs is None:
            rollout.log_probs = rollout.new_array()

    @property
    def is_full(self) -> bool:
        return not self._free.any()

    def place(self, waiting: WaitingRows) -> int:
        """As many of these rows as there is room for; returns how many."""
        count = min(waiting.count, int(self._free.sum()))
        rows = np.arange(waiting.first, waiting.first + count)
        places = self._places(waiting.envs[rows])
        self._store(places, rows, waiting.part)
        waiting.first += count
        self._free[places] = False
        if self.is_full:
            self._rollout.advance(slice(0, self._rollout.envs), self._rollout.length)
        return count

    def _places(self, envs: np.ndarray) -> np.ndarray:
        """The places of envs: their own, or others that are free."""
        own = self._free[envs]
        free = self._free.copy()
        free[envs[own]] = False
        places = envs.copy()
        places[~own] = np.flatnonzero(free)[: np.count_nonzero(~own)]
        return places

    def _store(self, places: np.ndarray, rows: np.ndarray, part: RolloutPart) -> None:
        rollout = self._rollout
        for k, (leaf, last) in enumerate(zip(rollout.observations, rollout.last, strict=True)):
            leaf.numpy()[:, places] = part[f"observation{k}"][:, rows]
            last.numpy()[places] = part[f"last{k}"][rows]
        for name in (*NAMES, "log_probs"):
            if name in part:
                getattr(rollout, name).numpy()[:, places] = part[name][:, rows]
        if "masks" in part:
            for t, mask in enumerate(part["masks"]):
                rollout.store_mask(t, places, np.array(mask[rows]))
        if "final_steps" in part:
            self._store_finals(places, rows, part)

    def _store_finals(self, places: np.ndarray, rows: np.ndarray, part: RolloutPart) -> None:
        """The last observations of truncated episodes of these rows."""
        envs = part["final_envs"]
        chosen = np.flatnonzero((envs >= rows[0]) & (envs <= rows[-1])) if len(rows) else np.zeros(0, int)
        for k in chosen:
            place = torch.tensor([places[envs[k] - rows[0]]])
            leaves = [torch.from_numpy(np.array(part[f"final_leaf{n}"][k : k + 1])) for n in range(len(self._leaves))]
            self._rollout.finals.append((int(part["final_steps"][k]), place, leaves))

    @property
    def _leaves(self) -> list[torch.Tensor]:
        return self._rollout.observations
