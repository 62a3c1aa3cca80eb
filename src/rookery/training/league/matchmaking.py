"""The choice of the next opponent: functions of ratings and of random numbers that are given, without state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from rookery.config.curriculum_schema import LeagueOptions
from rookery.training.league.archive import PastAgent

SELF = "self"


class OpponentChoice(NamedTuple):
    """An opponent: a member of the archive or a baseline, by its name, or the learner itself."""

    kind: Literal["member", "baseline", "self"]
    name: str


def choose_opponent(
    members: Sequence[PastAgent], baselines: Sequence[str], settings: LeagueOptions, kind: float, which: float
) -> OpponentChoice:
    """An opponent from two uniform random numbers in [0, 1): for the kind of choice, and for which opponent.

    As long as there are no members it is a baseline or, if baselines have no share, the learner itself.
    """
    by_win_rate, uniform = (settings.pfsp, settings.random) if members else (0.0, 0.0)
    shares = [by_win_rate, uniform, settings.baseline if baselines else 0.0]
    if not any(shares):
        if not members:
            return OpponentChoice("self", SELF)
        shares[1] = 1.0  # only baselines have a share, and there are none
    way = pick(shares, kind)
    if way == 2:
        return OpponentChoice("baseline", baselines[pick(np.ones(len(baselines)), which)])
    weights = priorities(members, settings.hardness) if way == 0 else np.ones(len(members))
    return OpponentChoice("member", members[pick(weights, which)].name)


def priorities(members: Sequence[PastAgent], hardness: float) -> np.ndarray:
    """Weights of prioritised fictitious self-play: opponents that the learner rarely beats are chosen more often."""
    return np.array([(1.0 - member.record.win_rate) ** hardness for member in members])


def pick(weights: Sequence[float] | np.ndarray, uniform: float) -> int:
    """The index that a uniform random number in [0, 1) selects by weights.

    >>> [pick([1.0, 0.0, 3.0], u) for u in (0.0, 0.24, 0.26, 0.999)]
    [0, 0, 2, 2]
    """
    edges = np.cumsum(weights)
    return int(np.searchsorted(edges[:-1], uniform * edges[-1], side="right"))
