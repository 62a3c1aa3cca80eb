"""A report as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rookery.training.backtest.figures import date_text, percent
from rookery.training.backtest.over_time import significance_text
from rookery.training.backtest.records import COSTS
from rookery.training.backtest.svg_chart import heat_map
from rookery.training.backtest.trades import Trade

NAME_WIDTH = 13
MOST_PERIODS = 14  # rows by period: the finest unit with so many
MOST_TRADES = 8  # rows of trades: those with the largest profits and losses
NAMES = {"agent": "agent", "hold": "hold", "equal_weight": "equal weight"}


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:,.2f}"


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def length(figures: Mapping[str, Any]) -> str:
    """The longest drawdown."""
    days = figures["longest_drawdown_days"]
    return "-" if days is None else f"{days:.3g} days"


# The figures that every account has: the text, how it is shown, and its interval's key.
FIGURES: tuple[tuple[str, Callable[[Mapping[str, Any]], str], str], ...] = (
    ("total return", lambda x: percent(x["total_return"]), "total_return"),
    ("return a year", lambda x: percent(x["annual_return"]), ""),
    ("volatility a year", lambda x: share(x["volatility"]), ""),
    ("Sharpe ratio a year", lambda x: ratio(x["sharpe"]), "sharpe"),
    ("Sortino ratio a year", lambda x: ratio(x["sortino"]), "sortino"),
    ("Calmar ratio", lambda x: ratio(x["calmar"]), ""),
    ("maximum drawdown", lambda x: share(x["max_drawdown"]), "max_drawdown"),
    ("longest drawdown", length, ""),
    ("bars with a gain", lambda x: share(x["hit_rate"]), "hit_rate"),
)
SHOWN_AS: Mapping[str, Callable[[float | None], str]] = {
    "total_return": percent,
    "max_drawdown": share,
    "hit_rate": share,
}


def trading_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What only the agent has: trades, exposure and costs."""
    agent = report["agent"]
    costs = agent["costs"]
    return [
        ("fills", f"{agent['trades']:,} ({agent['trades_per_day']:.3g} a day)"),
        ("turnover", f"{agent['turnover']:.4g} times the equity ({agent['turnover_per_day']:.3g} a day)"),
        (
            "exposure",
            f"{share(agent['exposure'])} of the equity on average, {share(agent['most_exposed'])} at most; "
            f"{share(agent['time_in_market'])} of the time",
        ),
        ("  long, short", f"{share(agent['exposure_long'])}, {share(agent['exposure_short'])} on average"),
        ("costs", f"{amount(costs['total'])} ({share(agent['costs_of_initial_equity'])} of the initial equity)"),
        *((f"  {kind}", amount(costs[kind])) for kind in COSTS if costs[kind]),
    ]


def trade_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the trades have in common."""
    found = report["trades"]
    if not found["count"]:
        return [("trades", "none")]
    still = f", {found['open']:,} open when the bars ended" if found["open"] else ""
    kinds = f"{found['long']:,} long, {found['count'] - found['long']:,} short"
    return [
        ("trades", f"{found['count']:,} from entry to exit ({kinds}{still})"),
        ("won", f"{share(found['won'])}; profit factor {ratio(found['profit_factor'])}"),
        (
            "of the equity",
            f"{percent(found['mean_win'], 2)} when won, {percent(found['mean_loss'], 2)} when lost, on average",
        ),
        ("held", f"{found['days_held']:.3g} days on average, {found['longest_days']:.3g} at most"),
    ]


def over_time_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The moving Sharpe ratio, and what would be significant."""
    moving = report["rolling_sharpe"]
    rows = [("significance", significance_text(report["significance"]))]
    if moving is not None:
        text = f"{ratio(moving['least'])} to {ratio(moving['most'])} a year, half of the time below "
        text += f"{ratio(moving['median'])}; above hold {share(moving['above_hold'])} of the time"
        rows.append((f"Sharpe, {moving['days']} d", text))
    return rows


def figure_rows(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name, agent, its interval, hold, equal weight."""
    intervals = report["certainty"]["intervals"]
    rows = []
    for name, text, key in FIGURES:
        ends = intervals.get(key)
        show = SHOWN_AS.get(key, ratio)
        interval = f"{show(ends[0])} to {show(ends[1])}" if ends else ""
        rows.append((name, text(report["agent"]), interval, *(text(report[x]) for x in ("hold", "equal_weight"))))
    return rows


def fact_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was tested, on which bars, with which costs."""
    data, checkpoint = report["data"], report.get("checkpoint")
    what = ", ".join(filter(None, (report.get("run"), checkpoint)))
    kind = "synthetic" if data["synthetic"] and "synthetic" not in data["source"] else ""
    found = [
        ("agent", " ".join(filter(None, (what, f"in {report['world']}" if report.get("world") else "")))),
        (
            "bars",
            f"{data['bars']:,} of {data['timeframe']}, {data['start']} to {data['end']} (UTC); {report['split']}",
        ),
        ("symbols", ", ".join(data["symbols"])),
        ("data", ", ".join(filter(None, (data["source"], kind)))),
        ("costs", f"{report['costs']['name']}: {'; '.join(report['costs']['rates'])}"),
        ("annualised", f"with {report['annualised_with']['how']}"),
        ("intervals", report["certainty"]["how"]),
        ("p-value", report["certainty"]["test"]),
    ]
    return [(name, text) for name, text in found if text]


def period_unit(report: Mapping[str, Any], most: int = MOST_PERIODS) -> str:
    """The finest unit with few periods; if all have many, the longest."""
    units = report["by_period"]
    return next((unit for unit in reversed(units) if len(units[unit]) <= most), next(iter(units)))


def print_report(report: Mapping[str, Any], trades: Sequence[Trade]) -> None:
    """Print it on standard output."""
    from rookery import printing

    out = printing.console()
    out.print(report["verdict"], style="bold", soft_wrap=True)
    for text in report["notes"]:
        out.print(text, soft_wrap=True)
    out.print()
    for name, text in fact_rows(report):
        out.print(f"{name:<{NAME_WIDTH}} {text}", soft_wrap=True)
    out.print()
    shown = printing.table("", "", "agent>", "95 % interval>", "hold>", "equal weight>")
    for row in figure_rows(report):
        shown.add_row(*row)
    printing.print_table(out, shown)
    out.print()
    for name, text in (*trading_rows(report), *trade_rows(report), *over_time_rows(report)):
        out.print(f"{name:<{NAME_WIDTH}} {text}", soft_wrap=True)
    for title, header, rows in tables(report, trades, MOST_PERIODS, MOST_TRADES):
        names = [name if k < LEFT.get(title, 1) else f"{name}>" for k, name in enumerate(header)]
        out.print()
        shown = printing.table("", title, *names[1:])
        for row in rows:
            shown.add_row(*row)
        printing.print_table(out, shown)


LEFT = {"by fold": 3, "worst drawdowns": 4, "trades": 4}  # columns of words; others have one
PERIOD_HEADER = ("agent", "hold", "equal weight", "drawdown", "fills", "costs")


def tables(
    report: Mapping[str, Any], trades: Sequence[Trade], most_periods: int, most_trades: int
) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Title, header and rows of each table that has rows."""
    unit = period_unit(report, most_periods)
    found = [
        (
            "by fold",
            ("fold", "from", "to", "agent", "hold", "equal weight", "Sharpe ratio", "fills"),
            fold_texts(report),
        ),
        ("by month, in %", *month_texts(report)),
        (f"by {unit}", (unit, *PERIOD_HEADER), period_texts(report, unit)),
        (
            "by asset",
            ("symbol", "profit", "before costs", "fills", "in market", "hit rate", "hold"),
            asset_texts(report),
        ),
        ("worst drawdowns", ("depth", "from", "bottom", "until", "days"), fall_texts(report)),
        (
            "trades",
            ("symbol", "side", "entered", "left", "held", "return", "profit", "costs"),
            trade_texts(trades, most_trades),
        ),
    ]
    return [(title, header, rows) for title, header, rows in found if rows]


def month_texts(report: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The months of the agent with a row per year; none of an account of less than two months."""
    found = heat_map(report)
    if found.unit != "month":
        return (), []
    rows = []
    for name, cells in zip(found.rows, found.cells, strict=True):
        year = float(np.prod(1 + cells[np.isfinite(cells)]) - 1)
        texts = ["" if not np.isfinite(cell) else f"{100 * cell:+.1f}" for cell in (*cells, year)]
        rows.append((name, *texts))
    return ("", *found.columns, "year"), rows


def fall_texts(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of the worst drawdowns, as texts."""
    return [
        (share(fall["depth"]), fall["start"], fall["bottom"], fall["end"] or "not over", f"{fall['days']:.3g}")
        for fall in report["worst_drawdowns"]
    ]


def trade_texts(trades: Sequence[Trade], most: int) -> list[tuple[str, ...]]:
    """The rows of trades, as texts; of many, those with the largest profits and losses."""
    chosen = set(sorted(range(len(trades)), key=lambda k: -abs(trades[k].profit))[:most])
    return [
        (
            trade.symbol,
            trade.side,
            date_text(trade.entered),
            date_text(trade.left) if trade.closed else "open",
            held_text(trade),
            percent(trade.part, 2),
            amount(trade.profit),
            amount(trade.costs),
        )
        for k, trade in enumerate(trades)
        if k in chosen
    ]


def held_text(trade: Trade) -> str:
    """How long a trade was held.

    >>> held_text(Trade("A", "long", 0, 7200, 2, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, True))
    '2 h'
    """
    hours = (trade.left - trade.entered) / 3600
    return f"{60 * hours:.3g} min" if hours < 1 else f"{hours:.3g} h" if hours < 48 else f"{hours / 24:.3g} days"


def fold_texts(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows by fold, as texts."""
    return [
        (
            str(row["fold"]),
            row["start"],
            row["end"],
            *(percent(row[name]["total_return"]) for name in NAMES),
            ratio(row["agent"]["sharpe"]),
            f"{row['trades']:,}",
        )
        for row in report["by_fold"]
    ]


def period_texts(report: Mapping[str, Any], unit: str) -> list[tuple[str, ...]]:
    """The rows by period, as texts."""
    return [
        (
            row["period"],
            *(percent(row[name]) for name in NAMES),
            share(row["max_drawdown"]),
            f"{row['trades']:,}",
            amount(sum(row["costs"].values())),
        )
        for row in report["by_period"][unit]
    ]


def asset_texts(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows by asset, as texts."""
    return [
        (
            row["symbol"],
            amount(row["profit"]),
            amount(row["profit_before_costs"]),
            f"{row['trades']:,}",
            share(row["time_in_market"]),
            share(row["hit_rate"]),
            percent(row["hold_return"]),
        )
        for row in report["by_asset"]
    ]
