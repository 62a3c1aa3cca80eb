"""The plans of the next episodes of all envs, on a device: what `Phases.plan_episode` returns, as numbers.

A plan is a row of the table of parameter records, and the code of an opponent. Plans are made between two rollouts,
for as many episodes as an env can begin in a rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rookery.config import Opponent, Phase
from rookery.learners.execution.captured_call import CapturedCall
from rookery.training.curriculum.device_draws import episode_draws, pick_many
from rookery.training.curriculum.opponent_codes import COPIES, POLICIES, WORLD_PLAYED, code_of, code_of_copy
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
