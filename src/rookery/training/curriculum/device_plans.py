"""The plans of the next episodes of all envs, on a device: what `Phases.plan_episode` returns, as numbers.

A plan is a row of the table of parameter records, and the code of an opponent. Plans are made between two rollouts,
for as many episodes as an env can begin in a rollout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.config import Opponent, Phase
from rookery.kernel.cuda_runtime import DeviceArrays
from rookery.learners.captured_call import CapturedCall
from rookery.training.curriculum.device_draws import (
    COPIES,
    POLICIES,
    WORLD_PLAYED,
    code_of,
    code_of_copy,
    episode_draws,
    pick_many,
)
from rookery.training.curriculum.phases import Phases
from rookery.training.resolve.seats import SCRIPTS

ARCHIVE = "archive"
MOST_AT_ONCE = 1 << 20  # plans whose random numbers are drawn together
ChooseFromLeague = Callable[[Tensor, Tensor], Tensor]  # two random numbers for each game -> codes


class PlanBuffer:
    """Plans for the episodes `first`, `first + 1`, ... of each env: [episodes, envs]."""

    def __init__(
        self,
        phases: Phases,
        seed: int,
        num_envs: int,
        length: int,
        options_of: Callable[[Mapping[str, Any], str], Tensor],
        has_scripts: bool,
        device: torch.device,
    ) -> None:
        """`options_of` returns the record of parameters for options of an episode and the name of its opponent."""
        self._phases, self._seed, self._scripts = phases, seed, has_scripts
        self._envs = torch.arange(num_envs, device=device)
        self._numbers = torch.arange(length, device=device)[:, None]
        self.first = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self._draws = torch.zeros(0, dtype=torch.float64, device=device)  # four numbers for each plan, where needed
        self._draw = CapturedCall(self._draw_numbers, device, state=lambda: [], name="the draws of plans")
        self.records = torch.zeros(length, num_envs, dtype=torch.int64, device=device)
        self.codes = torch.zeros(length, num_envs, dtype=torch.int64, device=device)
        players = WORLD_PLAYED if has_scripts else WORLD_PLAYED[:1]
        rows: list[Tensor] = []
        self._start: list[int] = []  # of each phase, in the table
        for phase in phases.all:
            self._start.append(len(rows))
            for options in _variants(phase):
                rows += [options_of(options, who) for who in players]
        self._players = len(players)
        self.table = torch.stack(rows)
        self.varies = len(rows) > 1

    def plan(self, begun: Tensor, number_of: Callable[[str], int], choose: ChooseFromLeague) -> None:
        """Plan the next episodes of envs that have begun so many. `number_of` names opponents that are policies, and
        `choose` draws from the league."""
        self.first.copy_(begun)
        phase, start = self._phases.current, self._start[self._phases.index]
        draws = self._drawn() if len(phase.mixture) > 1 or len(phase.opponents) > 1 or _has_archive(phase) else None
        codes = self._opponents(phase, draws, number_of, choose)
        self.codes.copy_(codes)
        variant = self._weighted([variant.weight for variant in phase.mixture], draws, 0)
        player = torch.where((codes >= 0) & (codes < 2 * POLICIES), codes // 2, 0) if self._players > 1 else 0
        self.records.copy_((start + variant) * self._players + player)

    def _drawn(self) -> Tensor:
        if not len(self._draws):
            self._draws = self._draws.new_zeros(4, *self.codes.shape)
        self._draw()
        return self._draws

    def _draw_numbers(self) -> None:
        """Hundreds of small operations, on some episodes at a time: each needs memory for its result."""
        some = max(1, MOST_AT_ONCE // len(self._envs))
        for numbers, draws in zip(self._numbers.split(some), self._draws.split(some, 1), strict=True):
            draws.copy_(episode_draws(self._seed, self._envs, numbers + self.first))

    def next_of(self, begun: Tensor) -> tuple[Tensor, Tensor]:
        """The records and opponents of the episodes that follow so many."""
        at = (begun - self.first).clamp(0, len(self.codes) - 1)[None]
        return self.records.gather(0, at)[0], self.codes.gather(0, at)[0]

    def _opponents(
        self, phase: Phase, draws: Tensor | None, number_of: Callable[[str], int], choose: ChooseFromLeague
    ) -> Tensor:
        if not phase.opponents:
            return torch.zeros_like(self.codes)
        codes = torch.tensor([_code(opponent, number_of) for opponent in phase.opponents], device=self.codes.device)
        which = self._weighted([opponent.weight for opponent in phase.opponents], draws, 1)
        chosen = codes[which]
        if _has_archive(phase):
            assert draws is not None
            archived = torch.tensor([opponent.who == ARCHIVE for opponent in phase.opponents], device=codes.device)
            picked = choose(draws[2], draws[3])
            deterministic = torch.tensor(
                [int(opponent.deterministic) for opponent in phase.opponents], device=codes.device
            )
            offset = torch.where(picked < 0, -deterministic[which], deterministic[which])
            chosen = torch.where(archived[which], picked + offset, chosen)
        return chosen

    def _weighted(self, weights: list[float], draws: Tensor | None, row: int) -> Tensor:
        if draws is None or len(weights) < 2:
            return torch.zeros_like(self.codes)
        return pick_many(torch.tensor(weights, dtype=torch.float64, device=draws.device), draws[row])


def _variants(phase: Phase) -> list[dict[str, Any]]:
    mixture = [variant.options for variant in phase.mixture] or [{}]
    return [{**phase.options, **options} for options in mixture]


def _has_archive(phase: Phase) -> bool:
    return any(opponent.who == ARCHIVE for opponent in phase.opponents)


def _code(opponent: Opponent, number_of: Callable[[str], int]) -> int:
    who = SCRIPTS.get(opponent.who.lower(), opponent.who)
    if who == ARCHIVE:
        return 0
    if who in COPIES:
        return code_of_copy(who, opponent.deterministic)
    if who in WORLD_PLAYED:
        return code_of(WORLD_PLAYED.index(who), False)
    return code_of(number_of(who), opponent.deterministic)


class ShapingWeights:
    """The weights of infos in the rewards of each env, which stay the same for an episode."""

    def __init__(self, phases: Phases, num_envs: int, device: torch.device) -> None:
        self._keys = phases.shaped
        self.weights = torch.zeros(num_envs, len(self._keys), device=device)
        self._episodes = torch.zeros((), dtype=torch.float64, device=device)  # of the phase
        self._most = torch.zeros((), dtype=torch.float64, device=device)
        size = len(self._keys)
        self._start, self._change, self._hold, self._fall = torch.zeros(4, size, dtype=torch.float64, device=device)

    def begin_phase(self, phases: Phases) -> None:
        """Take the numbers of the current phase."""
        phase = phases.current
        self._episodes.fill_(phases.episodes)
        self._most.fill_(math.inf if phase.episodes is None else phase.episodes)
        rows = [(0.0, 0.0, 0.0, 0.0)] * len(self._keys)
        for k, key in enumerate(self._keys):
            shaping = phase.shaping.get(key)
            if shaping is not None:
                final = shaping.start if shaping.final is None else shaping.final
                rows[k] = (shaping.start, final - shaping.start, shaping.hold, shaping.fall)
        columns = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4).T
        for mine, values in zip((self._start, self._change, self._hold, self._fall), columns, strict=True):
            mine.copy_(values)

    def count(self, ended: Tensor) -> None:
        """Count the episodes that have ended."""
        if self._keys:
            self._episodes.add_(ended.sum())

    def begin(self, rows: Tensor) -> None:
        """Episodes begin in these rows, with the present weights."""
        if not self._keys:
            return
        past = torch.minimum(self._episodes, self._most) - self._hold
        share = torch.where(self._fall > 0, (past / self._fall.clamp(min=1.0)).clamp(max=1.0), 1.0)
        present = self._start + torch.where(past > 0, self._change * share, 0.0)
        self.weights.copy_(torch.where(rows[:, None], present.float(), self.weights))

    def shaped(self, rewards: Tensor, env_arrays: DeviceArrays, ended: Tensor) -> Tensor:
        """Rewards plus weighted infos; those of an episode's last step are its final ones."""
        for k, key in enumerate(self._keys):
            if key in env_arrays.world.info:
                values = torch.where(ended, env_arrays.field("final_infos", key), env_arrays.field("infos", key))
                rewards = rewards + self.weights[:, k] * values
        return rewards

    def state(self) -> list[Tensor]:
        """What steps change."""
        return [self.weights, self._episodes]


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


class HostCopy:
    """A copy of a tensor in the host's memory. `start` begins to copy, without waiting; `wait` returns the numbers."""

    def __init__(self, source: Tensor) -> None:
        self._source, on_gpu = source, source.device.type == "cuda"
        self._target = torch.empty(source.shape, dtype=source.dtype, pin_memory=on_gpu)
        self._event = torch.cuda.Event() if on_gpu else None
        self.pending = False

    def start(self) -> None:
        """Copy the tensor as it is at this point of the device's work."""
        self._target.copy_(self._source, non_blocking=True)
        if self._event is not None:
            self._event.record()
        self.pending = True

    def wait(self) -> np.ndarray:
        """The copied numbers, once they have arrived."""
        if self._event is not None:
            self._event.synchronize()
        self.pending = False
        return self._target.numpy().copy()
