"""A league as rows: the learner, its past agents and its other opponents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rookery.training.league.archive import PastAgent
from rookery.training.league.opponent_record import OpponentRecord
from rookery.training.league.ratings import Rating

LEARNER = "the learner"


def league_rows(
    step: int, learner: Rating, members: Iterable[PastAgent], met: Mapping[str, OpponentRecord]
) -> list[dict[str, Any]]:
    """A row for each agent, the best first and retired ones last; wins, draws and losses are the learner's. Kinds:
    "learner", "member", "retired" and "other" (an opponent outside the archive, such as a script)."""
    rows = [_row(LEARNER, "learner", step, learner, None)]
    for member in members:
        kind = "retired" if member.retired else "member"
        rows.append(_row(member.name, kind, member.step, member.record.rating, member.record))
    rows += [_row(name, "other", None, record.rating, record) for name, record in met.items()]
    return sorted(rows, key=lambda row: (row["kind"] == "retired", -row["rating"]))


def _row(name: str, kind: str, step: int | None, rating: Rating, against: OpponentRecord | None) -> dict[str, Any]:
    row = {"name": name, "kind": kind, "step": step, "rating": rating.value, "mu": rating.mu, "sigma": rating.sigma}
    known = against is not None and against.games > 0
    counts = {name: getattr(against, name) if against else None for name in ("games", "won", "drawn", "lost")}
    return {**row, **counts, "win_rate": against.win_rate if against is not None and known else None}
