"""A league as a table: what a run has stored, or what came of a tournament."""

from __future__ import annotations

from typing import Any

from rookery.training.league.league_files import StoredLeague
from rookery.training.league.ratings import Rating
from rookery.training.league.standing import Standing
from rookery.training.league.tournament_report import TournamentReport


def stored_rows(league: StoredLeague) -> list[dict[str, Any]]:
    """One row for everyone, the best first; those who left come last. What was won is the learner's. Kinds: "learner",
    "member", "retired" and "other" (met outside the archive, such as a script)."""
    rows = [_row("the learner", "learner", league.step, league.learner, None)]
    for member in league.archive.members:
        kind = "retired" if member.retired else "member"
        rows.append(_row(member.name, kind, member.step, member.standing.rating, member.standing))
    rows += [_row(name, "other", None, standing.rating, standing) for name, standing in league.met.items()]
    return sorted(rows, key=lambda row: (row["kind"] == "retired", -row["rating"]))


def _row(name: str, kind: str, step: int | None, rating: Rating, against: Standing | None) -> dict[str, Any]:
    row = {"name": name, "kind": kind, "step": step, "rating": rating.value, "mu": rating.mu, "sigma": rating.sigma}
    known = against is not None and against.games > 0
    counts = {name: getattr(against, name) if against else None for name in ("games", "won", "drawn", "lost")}
    return {**row, **counts, "win_rate": against.win_rate if against is not None and known else None}


def print_stored(league: StoredLeague, rows: list[dict[str, Any]]) -> None:
    """For a person."""
    from rookery import printing

    members = len(league.archive.active)
    title = f"league of {league.run.name} at step {league.step:,}: {members} agent{'' if members == 1 else 's'}"
    shown = printing.table(
        title, "agent", "step>", "rating>", "±>", "at least>", "games>", "won>", "drawn>", "lost>", "won lately>", ""
    )
    for row in rows:
        left = "retired" if row["kind"] == "retired" else ""
        shown.add_row(*_told(row), *(_count(row[key]) for key in COUNTS), _share(row["win_rate"]), left)
    _print(shown)


def print_report(report: TournamentReport) -> None:
    """For a person."""
    from rookery import printing

    title = f"{report.title}: {len(report.entries)} players, {report.games} games a pair, seed {report.seed}"
    shown = printing.table(
        title, "player", "step>", "rating>", "±>", "at least>", "games>", "won>", "drawn>", "lost>", "score>"
    )
    for row in report.rows():
        parts = (f"{row[key] / row['games']:.1%}" for key in ("won", "drawn", "lost"))
        shown.add_row(*_told(row), _count(row["games"]), *parts, f"{row['score']:.3f}")
    _print(shown)
    by = {name: "-" if value is None else f"{value:.3f}" for name, value in report.agreement().items()}
    print(f"\nSpearman's correlation of rating and score: {by['score']}; of rating and share won: {by['win_rate']}")


COUNTS = ("games", "won", "drawn", "lost")


def _told(row: dict[str, Any]) -> list[str]:
    return [row["name"], _count(row["step"]), f"{row['mu']:.1f}", f"{row['sigma']:.1f}", f"{row['rating']:.1f}"]


def _count(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _print(shown: Any) -> None:
    from rookery import printing

    printing.print_table(printing.console(), shown)
