"""A report as tables on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.training.backtest.figures import percent
from rookery.training.backtest.records import COSTS

MOST_PERIODS = 14  # rows by period: the finest unit with so many
NAMES = {"agent": "agent", "hold": "hold", "equal_weight": "equal weight"}


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def amount(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:,.2f}"


def share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def length(figures: Mapping[str, Any]) -> str:
    """The longest drawdown in bars and days."""
    bars, days = figures["longest_drawdown_bars"], figures["longest_drawdown_days"]
    return "-" if bars is None or days is None else f"{bars:,} bars, {days:.3g} days"


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
        ("trades", f"{agent['trades']:,} ({agent['trades_per_day']:.3g} a day)"),
        ("turnover", f"{agent['turnover']:.4g} times the equity ({agent['turnover_per_day']:.3g} a day)"),
        (
            "exposure",
            f"{share(agent['exposure'])} of the equity on average, {share(agent['time_in_market'])} of the time",
        ),
        ("costs", f"{amount(costs['total'])} ({share(agent['costs_of_initial_equity'])} of the initial equity)"),
        *((f"  {kind}", amount(costs[kind])) for kind in COSTS if costs[kind]),
    ]


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


def print_report(report: Mapping[str, Any]) -> None:
    """Print it on standard output."""
    from rookery import printing

    out = printing.console()
    out.print(report["verdict"], style="bold", soft_wrap=True)
    for text in report["notes"]:
        out.print(text, soft_wrap=True)
    out.print()
    for name, text in fact_rows(report):
        out.print(f"{name:<11} {text}", soft_wrap=True)
    out.print()
    shown = printing.table("", "", "agent>", "95 % interval>", "hold>", "equal weight>")
    for row in figure_rows(report):
        shown.add_row(*row)
    printing.print_table(out, shown)
    out.print()
    for name, text in trading_rows(report):
        out.print(f"{name:<11} {text}", soft_wrap=True)
    _print_rest(report, out)


def _print_rest(report: Mapping[str, Any], out: Any) -> None:
    from rookery import printing

    unit = period_unit(report)
    for title, header, rows in (
        ("by fold", ("fold", "from", "to", "agent>", "hold>", "equal weight>", "trades>"), fold_texts(report)),
        (
            f"by {unit}",
            (unit, "agent>", "hold>", "equal weight>", "drawdown>", "trades>", "costs>"),
            period_texts(report, unit),
        ),
        (
            "by asset",
            ("symbol", "profit>", "before costs>", "trades>", "in market>", "hit rate>", "hold>"),
            asset_texts(report),
        ),
    ):
        if rows:
            out.print()
            shown = printing.table("", *(title if k == 0 else name for k, name in enumerate(header)))
            for row in rows:
                shown.add_row(*row)
            printing.print_table(out, shown)


def fold_texts(report: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows by fold, as texts."""
    return [
        (
            str(row["fold"]),
            row["start"],
            row["end"],
            *(percent(row[name]["total_return"]) for name in NAMES),
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
