"""How a paper account stands: figures, what it holds, gaps in its bars, delays of a feed, and alerts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rookery.data.calendars import gap_rows
from rookery.deploy.paper.account_files import NAME as EVENTS
from rookery.errors import RookeryError
from rookery.files import open_plain
from rookery.training.backtest.records import COSTS
from rookery.training.storage.run_record import as_object, is_busy, number
from rookery.web.market_views.paper_log import PaperColumns, PaperLog

EVENTS_TAIL = 256 << 10  # bytes
MOST_GAPS, MOST_ALERTS = 50, 100


def paper_row(log: PaperLog) -> dict[str, Any]:
    """What the list of all paper accounts shows."""
    with log.lock:
        columns = log.columns
        first, last = columns.first("agent"), columns.last("agent")
        return {
            "state": _state(log),
            "agents": columns.head.get("agents"),
            "data": columns.head.get("data"),
            "version": columns.version,
            "bars": len(columns),
            "since": columns.first("time"),
            "last_bar": columns.last("time"),
            "equity": last,
            "return": last / first - 1 if first and last is not None else None,
            "symbols": columns.symbols[:20],
            "killed": columns.killed,
            "complete": log.is_complete,
            "problem": log.problem,
        }


def paper_details(log: PaperLog) -> dict[str, Any]:
    """Everything but the curves."""
    with log.lock:
        row, columns = paper_row(log), log.columns
        curves = columns.curves()
        drawdown = curves.curve("drawdown/agent")
        turnover = curves.curve("turnover")
        costs = {kind: columns.total(kind) for kind in COSTS}
        found = {
            "symbols": columns.symbols,
            "timeframe": columns.head.get("timeframe"),
            "calendar": columns.calendar,
            "start_equity": columns.first("agent"),
            "drawdown": -float(drawdown[-1]) if drawdown is not None and len(drawdown) else None,
            "max_drawdown": -float(drawdown.min()) if drawdown is not None and len(drawdown) else None,
            "turnover": float(turnover[-1]) if turnover is not None and len(turnover) else None,
            "costs": {**costs, "total": sum(costs.values())},
            "positions": columns.positions,
            "fills": columns.num_fills,
            "orders": columns.num_orders,
            "waiting": columns.waiting,
            "missed": columns.missed,
            "closing": columns.closing,
            "last_fills": list(columns.fills)[::-1],
            "stops": list(columns.stops)[::-1],
        }
        gaps = _gaps(columns, curves.times)
    return {**row, **found, "gaps": gaps, **_events(log.path.parent / EVENTS), "shadow": _has_shadow(log.path)}


def _state(log: PaperLog) -> str:
    if log.columns.killed is not None:
        return "stopped by the kill-switch"
    folder = log.path.parent
    locks = (
        (folder / "paper.lock", folder.parent / "paper.lock") if folder.name == "shadow" else (folder / "paper.lock",)
    )
    return "running" if any(map(is_busy, locks)) else "not running"


def _gaps(columns: PaperColumns, times: np.ndarray) -> list[dict[str, Any]]:
    """Where bars are missing although the market was open, the newest first."""
    timeframe = columns.head.get("timeframe")
    if not isinstance(timeframe, int) or timeframe <= 0 or len(times) < 2:
        return []
    try:
        rows = gap_rows(times.astype(np.int64), timeframe, columns.calendar)[-MOST_GAPS:]
    except (RookeryError, ValueError, OverflowError):
        return []  # a calendar that is not known here
    return [
        {"after": float(times[row]), "until": float(times[row + 1]),
         "bars": round(float(times[row + 1] - times[row]) / timeframe) - 1}
        for row in rows[::-1].tolist()
    ]  # fmt: skip


def _events(path: Path) -> dict[str, Any]:
    """The delays of the last bars of a feed, and the alerts, the newest first."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - EVENTS_TAIL))
            events = [as_object(line) for line in file.read(EVENTS_TAIL).split(b"\n")]
    except OSError:
        events = []
    alerts = [event for event in events if event.get("kind") == "alert" and isinstance(event.get("text"), str)]
    came = [(number(event.get("time")), number(event.get("at"))) for event in events if event.get("kind") == "bar"]
    delays = [at - bar for bar, at in came if at is not None and bar is not None]
    worst = {"delay": delays[-1], "largest_delay": max(delays)} if delays else {"delay": None, "largest_delay": None}
    shown = [{key: alert.get(key) for key in ("alert", "text", "at")} for alert in alerts[: -MOST_ALERTS - 1 : -1]]
    return {**worst, "alerts": shown}


def _has_shadow(log: Path) -> bool:
    return (log.parent / "shadow" / log.name).is_file()
