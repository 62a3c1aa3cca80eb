"""What a paper account is worth now, by its log."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rookery.data.feeds.fetch import time_name
from rookery.deploy.paper.account_folder import SHADOW, AccountFolder
from rookery.deploy.paper.account_log import Line

TIMES = ("since", "last_bar")


@dataclass(frozen=True)
class PaperStatus:
    """An account, as the last line of its log says.

    Attributes:
        account: Its folder.
        agents: Who trades: the registry and its alias, or the run.
        version: The number of the version that trades; 0 for a run.
        since: The first bar, in seconds since 1970.
        last_bar: The last one.
        equity, start_equity: What it is worth, and what it began with.
        drawdown: The part of its highest value that it has lost; after a resumption, since then.
        positions: Units by symbol.
        fills, orders, costs: How many, and what they cost in all.
        waiting: Orders for the next bar.
        handover: The version that takes over once nothing is held.
        killed: Why the kill-switch has stopped it; None if it has not.
        shadow: The same of the challenger's account, if there is one.
    """

    account: str
    agents: str
    version: int | None
    since: int
    last_bar: int
    bars: int
    equity: float
    start_equity: float
    drawdown: float
    positions: dict[str, float]
    fills: int
    orders: int
    costs: float
    waiting: int
    handover: int | None
    killed: dict[str, str] | None
    shadow: PaperStatus | None = None

    def as_json(self) -> dict[str, Any]:
        """With times as texts."""
        return _with_time_names(asdict(self))


def read_status(folder: AccountFolder) -> PaperStatus:
    """The status of an account. It needs no lock: a process may trade meanwhile."""
    lines = folder.lines()
    bars = [line for line in lines if line["kind"] == "bar"]
    if not bars:
        return PaperStatus(
            str(folder.path), lines[0]["agents"], None, lines[0]["start"], lines[0]["start"], 0, 0.0, 0.0, 0.0, {}, 0,
            0, 0.0, 0, None, None,
        )  # fmt: skip
    last, after = bars[-1], lines[lines.index(bars[-1]) + 1 :]
    killed = after[-1] if after and after[-1]["kind"] == "kill" else None
    resumed = any(line["kind"] == "resume" for line in after)
    peak = last["equity"] if resumed else last["peak"]
    closing = last["closing"] or {}
    shadow = AccountFolder(folder.path / SHADOW)
    return PaperStatus(
        account=str(folder.path),
        agents=lines[0]["agents"],
        version=last["version"],
        since=bars[0]["time"],
        last_bar=last["time"],
        bars=len(bars),
        equity=last["equity"],
        start_equity=bars[0]["equity"],
        drawdown=1.0 - last["equity"] / peak if peak > 0 else 0.0,
        positions=_positions(bars),
        fills=sum(len(line["fills"]) for line in bars),
        orders=sum(len(line["orders"]) for line in bars),
        costs=sum(_costs(line) for line in bars),
        waiting=0 if killed else len(last["orders"]),
        handover=closing.get("version"),
        killed=None if killed is None else {"reason": killed["reason"], "why": killed["why"]},
        shadow=read_status(shadow) if shadow.has_begun else None,
    )


def _positions(bars: list[Line]) -> dict[str, float]:
    """Units by symbol: the sum of all fills would carry rounding, so the last entry of each account counts."""
    found: dict[str, float] = {}
    form: list[str] = []
    for line in bars:
        form = line["begin"]["form"]["symbols"] if "begin" in line else form
        for number, entry in enumerate(line["books"]):
            if entry is not None:
                names = form if len(entry["positions"]) == len(form) else [form[number]]
                found |= dict(zip(names, entry["positions"], strict=True))
    return found


def _costs(line: Line) -> float:
    kinds = ("fees", "spread_cost", "impact_cost", "funding_cost")
    return sum(entry[kind] for entry in line["books"] if entry is not None for kind in kinds)


def _with_time_names(found: dict[str, Any]) -> dict[str, Any]:
    shadow = found.get("shadow")
    named = {name: time_name(value) if name in TIMES else value for name, value in found.items()}
    return named | {"shadow": None if shadow is None else _with_time_names(shadow)}
