"""A league as a table: that of a run, or the results of a tournament."""

from __future__ import annotations

from typing import Any

from rookery.training.league.league_files import StoredLeague
from rookery.training.league.league_rows import league_rows
from rookery.training.league.tournament_report import TournamentReport


def stored_rows(league: StoredLeague) -> list[dict[str, Any]]:
    """See `league_rows`."""
    return league_rows(league.step, league.learner, league.archive.members, league.met)


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
