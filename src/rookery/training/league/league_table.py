"""A league as a table: that of a run, or the results of a tournament."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rookery.errors import OptionError
from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame, with_prefixes
from rookery.training.league.archive import StoredLeague, league_rows
from rookery.training.league.ratings import Rating
from rookery.training.league.tournament_report import Entry, TournamentReport


def stored_rows(league: StoredLeague) -> list[dict[str, Any]]:
    """See `league_rows`."""
    return league_rows(league.step, league.learner, league.archive.members, league.met)


def print_stored(league: StoredLeague, rows: list[dict[str, Any]]) -> None:
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


BLUE, WARM = "#1b6ca8", "#d1603d"
LINES = (BLUE, "#4c956c", "#9067a7", "#b8860b")  # of different runs
ROOMY, READABLE = 26, 40  # players up to which numbers fit into the matrix easily, and at all
PLOT_FILE = "league.png"
Point = tuple[int, Rating]


def draw_league(stored: Sequence[StoredLeague], report: TournamentReport | None, out: Path) -> Path:
    """Draw to a file whose suffix names the image format: the latest tournament's ratings and its matrix or, if there
    was none, the ratings during training."""
    if report is None:
        figure = figure_class()(figsize=(10, 4.6), layout="constrained", facecolor="white")
        _draw_training(figure.add_subplot(), stored)
        title = "league of " + ", ".join(league.run.name for league in stored)
    else:
        side = min(12.0, 3.2 + 0.3 * len(report.entries))
        figure = figure_class()(figsize=(side + 7.2, side), layout="constrained", facecolor="white")
        curves, matrix = figure.subplots(1, 2, width_ratios=(6.0, side))
        _draw_tournament(curves, report)
        _draw_matrix(matrix, report)
        title = f"{report.title}: {len(report.entries)} players, {report.games} games a pair"
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1, wspace=0.04)
    figure.suptitle(title, x=0.012, ha="left", fontsize=13, fontweight="bold", color=INK)
    save_figure(figure, out, dpi=150)
    return out


def check_picture_file(file: str) -> None:
    """Refuse a file of an unknown image format, before any game is played."""
    known = figure_class()().canvas.get_supported_filetypes()
    kind = Path(file).suffix.lstrip(".").lower()
    if kind not in known:
        raise OptionError(f"plot should name a file ending in one of {', '.join(sorted(known))}, got {file!r}")


# --- ratings over steps -------------------------------------------------------------------------------------------


def _draw_training(axes: Any, stored: Sequence[StoredLeague]) -> None:
    """The learner's rating when its copies entered, and the ratings of these copies now."""
    for league, colour in zip(stored, LINES * len(stored), strict=False):
        members = league.archive.members
        entered = [(member.step, member.entered) for member in members] + [(league.step, league.learner)]
        now = [(member.step, member.record.rating) for member in members]
        name = f"{league.run.name}: " if len(stored) > 1 else ""
        _band(axes, sorted(now, key=_step), colour, f"{name}the agents, by all their games since")
        steps, means = _curve(sorted(entered, key=_step))
        axes.plot(steps, means, color=WARM if len(stored) == 1 else colour, linewidth=1, linestyle=":", marker="o",
                  markersize=3.5, label=f"{name}the learner as they entered, and now")  # fmt: skip
        _levels(axes, {name: record.rating for name, record in league.met.items()})
    _tidy(axes)


def _draw_tournament(axes: Any, report: TournamentReport) -> None:
    runs = list(dict.fromkeys(entry.run for entry in report.entries if entry.run is not None))
    pairs = list(zip(report.entries, report.ratings, strict=True))
    for run, colour in zip(runs, LINES * len(runs), strict=False):
        points = [(entry.step, rating) for entry, rating in pairs if entry.run == run and entry.step is not None]
        _band(axes, sorted(points, key=_step), colour, run if len(runs) > 1 else None)
    _levels(axes, {entry.name: rating for entry, rating in pairs if entry.step is None})
    axes.set_title("rating over steps", loc="left", fontsize=9.5, color=INK)
    _tidy(axes)


def _band(axes: Any, points: Sequence[Point], colour: str, label: str | None) -> None:
    """A line through the means, with a band of one standard deviation."""
    steps, means = _curve(points)
    spread = np.array([rating.sigma for _, rating in points])
    axes.fill_between(steps, means - spread, means + spread, color=colour, alpha=0.15, linewidth=0)
    axes.plot(steps, means, color=colour, linewidth=1.8, marker="o", markersize=4.5, label=label)


def _levels(axes: Any, others: dict[str, Rating]) -> None:
    """Horizontal lines for players without steps, such as scripts."""
    for name, rating in others.items():
        axes.axhline(rating.mu, color=PALE, linewidth=1, linestyle="--", zorder=1)
        axes.annotate(name, (1, rating.mu), (-2, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                      ha="right", fontsize=8.5, color=PALE)  # fmt: skip


def _curve(points: Sequence[Point]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([step for step, _ in points], float), np.array([rating.mu for _, rating in points])


def _step(point: Point) -> int:
    return point[0]


def _tidy(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("steps", color=INK)
    axes.set_ylabel("rating ± one standard deviation", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.xaxis.set_major_formatter(with_prefixes())
    style_frame(axes)
    axes.set_xlim(left=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc="best", labelcolor=INK)


# --- who beats whom -----------------------------------------------------------------------------------------------


def _draw_matrix(axes: Any, report: TournamentReport) -> None:
    """The share of games that the player of a row won against that of a column; a draw is half a win. Best first."""
    from matplotlib.colors import LinearSegmentedColormap

    order = np.array(report.order)
    shares = report.results.shares[np.ix_(order, order)]
    colours = LinearSegmentedColormap.from_list("league", [WARM, "#f7f7f5", BLUE]).with_extremes(bad="#eceef0")
    axes.imshow(np.ma.masked_invalid(shares), cmap=colours, vmin=0, vmax=1)
    names = _labels([report.entries[k] for k in order])
    small = 8.0 if len(names) <= ROOMY else 6.0
    axes.set_xticks(range(len(names)), names, rotation=60, ha="left", rotation_mode="anchor", fontsize=small)
    axes.set_yticks(range(len(names)), names, fontsize=small)
    axes.tick_params(colors=INK, length=0, top=False, labeltop=True, labelbottom=False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(names) <= READABLE:
        _write_shares(axes, shares)
    axes.set_xlabel("share of games won by the player of the row, in percent; a draw is half a win", fontsize=8.5,
                    color=PALE, loc="left")  # fmt: skip


def _labels(entries: Sequence[Entry]) -> list[str]:
    """Short names, such as steps in millions, if they are unique."""
    several = len({entry.run for entry in entries if entry.run is not None}) > 1
    short = []
    for entry in entries:
        run = f"{entry.run} " if several else ""
        short.append(entry.name if entry.step is None else f"{run}{_steps(entry.step)}")
    return short if len(set(short)) == len(short) else [entry.name for entry in entries]


def _steps(count: int) -> str:
    """
    >>> _steps(2_600_752), _steps(253_952), _steps(80)
    ('2.60 M', '254 k', '80')
    """
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if count >= size:
            whole = str(int(count / size))
            return f"{count / size:.{3 - len(whole)}f}{unit}"
    return str(count)


def _write_shares(axes: Any, shares: np.ndarray) -> None:
    size = 7.0 if len(shares) <= ROOMY else 5.5
    for (row, column), share in np.ndenumerate(shares):
        if np.isfinite(share):
            colour = "white" if abs(share - 0.5) > 0.32 else INK
            axes.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=size, color=colour)
