"""The choice of the next opponent: functions of ratings and of random numbers that are given, without state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from rookery.config.sections import LeagueOptions
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
    shares = _shares(len(members), len(baselines), settings)
    if not any(shares):
        return OpponentChoice("self", SELF)
    way = pick(shares, kind)
    if way == 2:
        return OpponentChoice("baseline", baselines[pick(np.ones(len(baselines)), which)])
    weights = priorities(members, settings.hardness) if way == 0 else np.ones(len(members))
    return OpponentChoice("member", members[pick(weights, which)].name)


def draw_chances(win_rates: Mapping[str, float], baselines: Sequence[str], settings: LeagueOptions) -> dict[str, float]:
    """How likely `choose_opponent` returns each of these members, by the learner's win rates, and each baseline.

    >>> draw_chances({"step-1": 0.5, "step-2": 1.0}, ["weak"], LeagueOptions())
    {'step-1': 0.8, 'step-2': 0.1, 'weak': 0.1}
    """
    shares = _normalised(_shares(len(win_rates), len(baselines), settings))
    weights = _normalised(_priorities(list(win_rates.values()), settings.hardness))
    members = shares[0] * weights + shares[1] / max(1, len(win_rates))
    found = dict(zip(win_rates, members.round(6).tolist(), strict=True))
    return found | {name: round(float(shares[2]) / len(baselines), 6) for name in baselines}


def _normalised(weights: Sequence[float] | np.ndarray) -> np.ndarray:
    """The same with a sum of 1, unless all are 0."""
    return np.asarray(weights) / (np.sum(weights) or 1.0)


def _shares(members: int, baselines: int, settings: LeagueOptions) -> list[float]:
    """Of members by their win rates, of members drawn uniformly, and of baselines; all 0 for the learner itself."""
    by_win_rate, uniform = (settings.pfsp, settings.random) if members else (0.0, 0.0)
    shares = [by_win_rate, uniform, settings.baseline if baselines else 0.0]
    if members and not any(shares):
        shares[1] = 1.0  # only baselines have a share, and there are none
    return shares


def priorities(members: Sequence[PastAgent], hardness: float) -> np.ndarray:
    """Weights of prioritised fictitious self-play: opponents that the learner rarely beats are chosen more often."""
    return _priorities([member.record.win_rate for member in members], hardness)


def _priorities(win_rates: Sequence[float], hardness: float) -> np.ndarray:
    return np.array([(1.0 - win_rate) ** hardness for win_rate in win_rates])


def pick(weights: Sequence[float] | np.ndarray, uniform: float) -> int:
    """The index that a uniform random number in [0, 1) selects by weights.

    >>> [pick([1.0, 0.0, 3.0], u) for u in (0.0, 0.24, 0.26, 0.999)]
    [0, 0, 2, 2]
    """
    edges = np.cumsum(weights)
    return int(np.searchsorted(edges[:-1], uniform * edges[-1], side="right"))
