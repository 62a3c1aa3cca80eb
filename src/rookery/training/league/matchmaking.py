"""Who is played against next. All functions of what is known and of numbers drawn elsewhere: no state, no chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from rookery.config.curriculum_schema import LeagueOptions
from rookery.training.league.archive import Member

SELF = "self"


class Drawn(NamedTuple):
    """An opponent: a member of the archive or a baseline, by its name, or the learner itself."""

    kind: Literal["member", "baseline", "self"]
    name: str


def draw(
    members: Sequence[Member], baselines: Sequence[str], settings: LeagueOptions, kind: float, which: float
) -> Drawn:
    """An opponent from two uniform numbers in [0, 1): for the kind of draw, and for who it is.

    As long as there are no members it is a baseline or, where those have no share either, the learner itself.
    """
    by_rate, alike = (settings.pfsp, settings.random) if members else (0.0, 0.0)
    shares = [by_rate, alike, settings.baseline if baselines else 0.0]
    if not any(shares):
        if not members:
            return Drawn("self", SELF)
        shares[1] = 1.0  # baselines alone were wanted, and there are none
    way = pick(shares, kind)
    if way == 2:
        return Drawn("baseline", baselines[pick(np.ones(len(baselines)), which)])
    weights = priorities(members, settings.hardness) if way == 0 else np.ones(len(members))
    return Drawn("member", members[pick(weights, which)].name)


def priorities(members: Sequence[Member], hardness: float) -> np.ndarray:
    """Weights of prioritised fictitious self-play: whoever the learner rarely beats is played against more often."""
    return np.array([(1.0 - member.standing.win_rate) ** hardness for member in members])


def pick(weights: Sequence[float] | np.ndarray, uniform: float) -> int:
    """The place where a uniform number in [0, 1) falls among weights.

    >>> [pick([1.0, 0.0, 3.0], u) for u in (0.0, 0.24, 0.26, 0.999)]
    [0, 0, 2, 2]
    """
    edges = np.cumsum(weights)
    return int(np.searchsorted(edges[:-1], uniform * edges[-1], side="right"))
