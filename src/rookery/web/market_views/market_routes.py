"""Routes of the market pages: lists, a backtest, a registry with its log, a paper account, and curves of all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.errors import RookeryError
from rookery.web.dashboard_state import ALL_PLACES, json_answer, state_of
from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.market_views.market_listing import MarketListing, is_registry, read_entries, registry_details
from rookery.web.market_views.paper_details import paper_details
from rookery.web.market_views.stored_accounts import AccountCache, StoredReports, account_file, is_log, report_file
from rookery.web.queries import choice_of, integer_of, names_of, number_of, points_of
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.metric_curves import decimated, on_one_axis
from rookery.web.run_views.run_routes import MOST_NAMES

MOST_ACCOUNTS = 40
MOST_ENTRIES = 500
MOST_INTEGER = 10**9 - 1  # of a version, and of an entry of the log
AXES = ("time", "elapsed")  # UTC seconds, or seconds since the first bar of each account, to lay folds over each other


class MarketParts:
    """What was read of accounts and reports."""

    def __init__(self, folders: RunFolders) -> None:
        self.folders, self.cache, self.reports = folders, AccountCache(), StoredReports()
        self.listing = MarketListing(folders, self.cache, self.reports)

    def curves(self, place: str, name: str, account: str) -> AccountCurves:
        """An account in a folder, as it is now."""
        path = account_file(self.folders, place, name, account)
        if not is_log(account):
            return self.cache.curves(path)
        log = self.cache.log(path)
        with log.lock:
            return log.columns.curves()


Answer = Callable[[MarketParts, Request], Any]


def market_routes() -> list[BaseRoute]:
    """What the pages of markets ask for."""
    one = "/api/markets/{place}/{name}"
    return [
        Route("/api/markets", _answering(lambda parts, _: parts.listing.lists())),
        Route(f"{one}/report", _answering(_report)),
        Route(f"{one}/registry", _answering(_registry)),
        Route(f"{one}/audit", _answering(_audit)),
        Route(f"{one}/paper", _answering(_paper)),
        Route(f"{one}/series", _answering(_series)),
    ]


def _answering(answer: Answer) -> Any:
    """An endpoint: files are read in a thread."""

    async def endpoint(request: Request) -> Response:
        state = state_of(request)
        parts = state.part("markets", lambda: MarketParts(state.folders))
        place = request.path_params.get("place", ALL_PLACES)
        return await json_answer(state, place, lambda: answer(parts, request))

    return endpoint


def _report(parts: MarketParts, request: Request) -> dict[str, Any]:
    place, name = _folder(request)
    version = integer_of(request.query_params, "version", most=MOST_INTEGER)
    report = parts.reports.read(report_file(parts.folders, place, name, version))
    wanted = ["report" if version is None else f"version-{version}"]
    wanted += [f"fold-{row['fold']}" for row in report["by_fold"] if type(row.get("fold")) is int]
    files = {account: _account(parts, request, account) for account in wanted[: MOST_ACCOUNTS + 1]}
    first, problem = files[wanted[0]]
    return {
        **report,
        "place": place,
        "name": name,
        "accounts": [account for account, (curves, _) in files.items() if curves is not None],
        "symbols": [] if first is None else list(first.weights),
        "problem": problem,
        "paper": _has(parts, request, "paper"),
    }


def _registry(parts: MarketParts, request: Request) -> dict[str, Any]:
    (place, name), folder = _folder(request), _registry_folder(parts, request)
    found = registry_details(folder)
    for version in found["versions"]:
        version["shown_run"] = shown_run(parts.folders, version.get("run_path"))
    papers = {account: _has(parts, request, account) for account in ("paper", "shadow")}
    return {"place": place, "name": name, "path": str(folder), **found, **papers}


def _audit(parts: MarketParts, request: Request) -> dict[str, Any]:
    """Entries of the log, the newest first; `before` is the number of the entry from which to go back."""
    entries, is_whole = read_entries(_registry_folder(parts, request))
    before = integer_of(request.query_params, "before", most=MOST_INTEGER)
    if before is not None:
        entries = [entry for entry in entries if type(entry.get("entry")) is int and entry["entry"] < before]
    shown = entries[: -MOST_ENTRIES - 1 : -1]
    return {"entries": shown, "more": len(entries) > len(shown), "is_whole": is_whole}


def _paper(parts: MarketParts, request: Request) -> dict[str, Any]:
    place, name = _folder(request)
    account = "shadow" if request.query_params.get("account") == "shadow" else "paper"
    log = parts.cache.log(account_file(parts.folders, place, name, account))
    return {"place": place, "name": name, "account": account, **paper_details(log)}


def _series(parts: MarketParts, request: Request) -> dict[str, Any]:
    query = request.query_params
    names, accounts = names_of(query, "names", MOST_NAMES), names_of(query, "accounts", MOST_ACCOUNTS)
    place, name = _folder(request)
    found = {account: parts.curves(place, name, account) for account in accounts}
    low, high = number_of(query, "from"), number_of(query, "to")
    return series_answer(found, names, choice_of(query, "x", AXES), low, high, points_of(query))


def shown_run(folders: RunFolders, path: object) -> str | None:
    """The id of the run in a folder, if it is one of those that are shown."""
    if not isinstance(path, str):
        return None
    parent, name = os.path.split(path)
    for place, folder in folders.places.items():
        if os.path.realpath(folder) == parent:
            with suppress(NotShown):
                folders.find(place, name)
                return f"{place}/{name}"
    return None


def _account(parts: MarketParts, request: Request, account: str) -> tuple[AccountCurves | None, str | None]:
    """An account, or why there are no curves."""
    try:
        return parts.curves(*_folder(request), account), None
    except NotShown:
        return (
            None,
            "there is no account.npy beside the report: `rookery backtest` writes it, and the curves appear here",
        )
    except RookeryError as error:
        return None, str(error)


def _has(parts: MarketParts, request: Request, account: str) -> bool:
    try:
        account_file(parts.folders, *_folder(request), account)
    except NotShown:
        return False
    return True


def _registry_folder(parts: MarketParts, request: Request) -> Path:
    place, name = _folder(request)
    folder = parts.folders.find(place, name)
    if not is_registry(folder):
        raise NotShown(f"there is no registry {name!r} in {place!r}")
    return folder


def _folder(request: Request) -> tuple[str, str]:
    return request.path_params["place"], request.path_params["name"]


def series_answer(
    accounts: Mapping[str, AccountCurves], names: Sequence[str], axis: str, low: float | None, high: float | None,
    points: int,
) -> dict[str, Any]:  # fmt: skip
    """The curves between `low` and `high`, by `account:name`. Points next to the ends are included, so that lines reach
    the edge of the picture."""
    parts, exact, ends = {}, True, []
    for account, curves in accounts.items():
        if not len(curves.times):
            continue
        times = curves.times - curves.times[0] if axis == "elapsed" else curves.times
        ends += [float(times[0]), float(times[-1])]
        first = 0 if low is None else max(0, int(times.searchsorted(low)) - 1)
        last = len(times) if high is None else int(times.searchsorted(high, "right")) + 1
        inside = slice(first, last)
        exact = exact and len(times[inside]) <= points
        for name in names:
            curve = curves.curve(name)
            if curve is not None and len(times[inside]):
                parts[f"{account}:{name}"] = decimated(times[inside], curve[inside].astype(np.float64), points)
    x, series = on_one_axis(parts)
    return {"x": x, "series": series, "exact": exact, "range": (min(ends), max(ends)) if ends else None}
