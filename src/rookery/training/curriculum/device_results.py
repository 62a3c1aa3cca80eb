"""What a rollout on a device brings for the host to decide on: episodes, outcomes of games, opponents in use."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

NO_GAME = 2  # an outcome in the log: no episode ended, or nobody can win


class RolloutResults:
    """A log of the ends of episodes in a rollout, and figures about it.

    The figures are: the number of episodes; that of outcomes, and the latest of them, oldest first; games lost, drawn
    and won against each opponent's number; and whether a game is, or will be, against it.
    """

    def __init__(self, length: int, num_envs: int, numbers: int, window: int, device: torch.device) -> None:
        self._numbers, self._window = numbers, window
        self._clock = torch.zeros(1, dtype=torch.int64, device=device)
        self._episodes = torch.zeros((), dtype=torch.int64, device=device)
        self._outcomes = torch.full((length, num_envs), NO_GAME, dtype=torch.int8, device=device)
        self._facing = torch.zeros(length, num_envs, dtype=torch.int16, device=device)
        self.figures = torch.zeros(2 + window + 4 * numbers, dtype=torch.int64, device=device)

    def state(self) -> list[Tensor]:
        """What steps change and read again."""
        return [self._clock, self._episodes]

    def begin(self) -> None:
        """A rollout begins."""
        self._clock.zero_()
        self._episodes.zero_()
        self._outcomes.fill_(NO_GAME)

    def add(self, ended: Tensor, winner: Tensor | None, facing: Tensor) -> None:
        """Log a step: which episodes ended, who won them, and the codes of their opponents."""
        self._episodes.add_(ended.sum())
        if winner is None:
            return
        outcomes = torch.where(ended, winner.clamp(-1, 1), NO_GAME).to(torch.int8)
        self._outcomes.index_copy_(0, self._clock, outcomes[None])
        if self._numbers > 1:
            self._facing.index_copy_(0, self._clock, facing[None].to(torch.int16))
        self._clock.add_(1).remainder_(len(self._outcomes))

    def finish(self, facing: Tensor, planned: Tensor) -> None:
        """A rollout has ended: compute its figures."""
        outcomes, figures = self._outcomes.flatten().long(), self.figures
        games = outcomes != NO_GAME
        figures[0] = self._episodes
        figures[1] = games.sum()
        if self._window:
            self._keep_latest(outcomes, games)
        counts = torch.zeros(4 * self._numbers, dtype=torch.int64, device=figures.device)
        if self._numbers > 1:
            place = torch.where(games, 3 * (self._facing.flatten().long() // 2) + outcomes + 1, 3 * self._numbers)
            counts[: 3 * self._numbers + 1].scatter_add_(0, place, torch.ones_like(place))
            counts[3 * self._numbers] = 0
            used = counts[3 * self._numbers :]
            for codes in (facing, planned):
                used.scatter_(0, (codes // 2).clamp(min=0), 1)
        figures[2 + self._window :] = counts

    def _keep_latest(self, outcomes: Tensor, games: Tensor) -> None:
        """The last outcomes at the end of the window."""
        rank = games.sum() - games.long().cumsum(0)  # how many games are later
        wanted = games & (rank < self._window)
        place = torch.where(wanted, self._window - 1 - rank, self._window)
        latest = torch.zeros(self._window + 1, dtype=torch.int64, device=outcomes.device)
        self.figures[2 : 2 + self._window] = latest.scatter_(0, place, outcomes)[:-1]

    def read(self, figures: np.ndarray) -> tuple[int, list[int], np.ndarray, np.ndarray]:
        """The number of episodes, the latest outcomes, the results [numbers, 3], and which numbers are used."""
        episodes, games = int(figures[0]), min(int(figures[1]), self._window)
        latest = figures[2 + self._window - games : 2 + self._window].tolist()
        counts = figures[2 + self._window :]
        return episodes, latest, counts[: 3 * self._numbers].reshape(-1, 3), counts[3 * self._numbers :] > 0
