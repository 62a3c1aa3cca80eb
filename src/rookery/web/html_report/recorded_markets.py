"""The backtests of runs that trade: figures and curves, as the pages of markets show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp

from rookery.training.backtest.joined_account import STRATEGIES
from rookery.training.backtest.records import COSTS
from rookery.web.html_report.asked_app import NoAnswer, ask

POINTS = 1000  # of a curve
MOST_SYMBOLS = 20  # whose positions are drawn, as in `static/js/markets/account_board.js`
CURVES = (
    *(f"{what}/{strategy}" for what in ("equity", "drawdown") for strategy in STRATEGIES),
    *(f"cost/{kind}" for kind in COSTS), "turnover",
)  # fmt: skip


async def record_markets(app: ASGIApp, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The `list` of backtests, and those `of` each run; empty if no run has one."""
    listed = (await ask(app, "/api/markets"))["backtests"]
    chosen = {row["id"] for row in rows}
    found = {}
    for row in listed:
        if row["id"] in chosen:
            with suppress(NoAnswer):  # its file is damaged
                found[row["id"]] = await _record(app, row["place"], row["name"])
    return {"list": [row for row in listed if row["id"] in found], "of": found} if found else {}


async def _record(app: ASGIApp, place: str, name: str) -> dict[str, Any]:
    path = f"/api/markets/{quote(place, safe='')}/{quote(name, safe='')}"
    report = await ask(app, f"{path}/report")
    names = [*CURVES, *(f"weight/{place}" for place in range(min(MOST_SYMBOLS, len(report["symbols"]))))]
    series = {
        account: await ask(app, f"{path}/series", accounts=account, names=",".join(names), points=POINTS)
        for account in report["accounts"]
    }
    return {"report": report, "series": series}
