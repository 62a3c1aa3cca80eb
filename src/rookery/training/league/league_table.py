"""A league as a table: that of a run, or the results of a tournament."""

from __future__ import annotations

from typing import Any

from rookery.training.league.league_files import StoredLeague
from rookery.training.league.opponent_record import OpponentRecord
from rookery.training.league.ratings import Rating
from rookery.training.league.tournament_report import TournamentReport


def stored_rows(league: StoredLeague) -> list[dict[str, Any]]:
    """A row for each agent, the best first and retired ones last; wins, draws and losses are the learner's. Kinds:
    "learner", "member", "retired" and "other" (an opponent outside the archive, such as a script)."""
    rows = [_row("the learner", "learner", league.step, league.learner, None)]
    for member in league.archive.members:
        kind = "retired" if member.retired else "member"
        rows.append(_row(member.name, kind, member.step, member.record.rating, member.record))
    rows += [_row(name, "other", None, record.rating, record) for name, record in league.met.items()]
    return sorted(rows, key=lambda row: (row["kind"] == "retired", -row["rating"]))


def _row(name: str, kind: str, step: int | None, rating: Rating, against: OpponentRecord | None) -> dict[str, Any]:
    row = {"name": name, "kind": kind, "step": step, "rating": rating.value, "mu": rating.mu, "sigma": rating.sigma}
    known = against is not None and against.games > 0
    counts = {name: getattr(against, name) if against else None for name in ("games", "won", "drawn", "lost")}
    return {**row, **counts, "win_rate": against.win_rate if against is not None and known else None}


def print_stored(league: StoredLeague, rows: list[dict[str, Any]]) -> None:
    """Print it."""
    from rookery import printing

    members = len(league.archive.active)
    title = f"league of {league.run.name} at step {league.step:,}: {members} agent{'' if members == 1 else 's'}"
    table = printing.table(
        title,
        "agent",
        "step>",
        "rating>",
        "±>",
        "at least>",
        "games>",
        "won>",
        "drawn>",
        "lost>",
        "recent win rate>",
        "",
    )
    for row in rows:
        left = "retired" if row["kind"] == "retired" else ""
        table.add_row(*_rating_cells(row), *(_count(row[key]) for key in COUNTS), _share(row["win_rate"]), left)
    _print(table)


def print_report(report: TournamentReport) -> None:
    """Print it."""
    from rookery import printing

    title = f"{report.title}: {len(report.entries)} players, {report.games} games a pair, seed {report.seed}"
    table = printing.table(
        title, "player", "step>", "rating>", "±>", "at least>", "games>", "won>", "drawn>", "lost>", "score>"
    )
    for row in report.rows():
        parts = (f"{row[key] / row['games']:.1%}" for key in ("won", "drawn", "lost"))
        table.add_row(*_rating_cells(row), _count(row["games"]), *parts, f"{row['score']:.3f}")
    _print(table)
    by = {name: "-" if value is None else f"{value:.3f}" for name, value in report.agreement().items()}
    print(f"\nSpearman's correlation of rating and score: {by['score']}; of rating and share won: {by['win_rate']}")


COUNTS = ("games", "won", "drawn", "lost")


def _rating_cells(row: dict[str, Any]) -> list[str]:
    return [row["name"], _count(row["step"]), f"{row['mu']:.1f}", f"{row['sigma']:.1f}", f"{row['rating']:.1f}"]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _print(table: Any) -> None:
    from rookery import printing

    printing.print_table(printing.console(), table)
