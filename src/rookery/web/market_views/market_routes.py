"""Routes of the market pages: lists, a backtest, a registry with its log, a paper account, and curves of all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.errors import RookeryError
from rookery.web.dashboard_state import state_of
from rookery.web.market_views.account_paths import account_file, report_file
from rookery.web.market_views.market_parts import MarketParts, market_parts
from rookery.web.market_views.market_series import axis_of, series_answer
from rookery.web.market_views.paper_details import paper_details
from rookery.web.market_views.registry_details import is_registry, read_entries, registry_details
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.metric_queries import MOST_NAMES, names_of, number_of, points_of
from rookery.web.run_views.run_parts import encoded

MOST_ACCOUNTS = 40
MOST_ENTRIES = 500
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
    """An endpoint: files are read in a thread, and what is wrong with them is a sentence."""

    async def endpoint(request: Request) -> Response:
        parts = market_parts(state_of(request))

        def made() -> bytes:
            try:
                return encoded(answer(parts, request))
            except FileNotFoundError:
                raise NotShown("it was moved or deleted meanwhile") from None

        try:
            body = await run_in_threadpool(made)
        except RookeryError as error:
            return JSONResponse({"error": str(error)}, 409)
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    return endpoint


def _report(parts: MarketParts, request: Request) -> dict[str, Any]:
    place, name = _folder(request)
    version = _whole(request, "version")
    report = parts.reports.read(report_file(parts.folders, place, name, version))
    wanted = ["report" if version is None else f"version-{version}"]
    wanted += [f"fold-{row['fold']}" for row in report["by_fold"] if type(row.get("fold")) is int]
    files = {account: _curves(parts, request, account) for account in wanted[: MOST_ACCOUNTS + 1]}
    accounts = {account: found for account, found in files.items() if found is not None}
    first = accounts.get(wanted[0])
    return {
        **report,
        "place": place,
        "name": name,
        "accounts": list(accounts),
        "symbols": [] if first is None else list(first.weights),
        "problem": None if first is not None else _problem(parts, request, wanted[0]),
        "paper": _has(parts, request, "paper"),
    }


def _registry(parts: MarketParts, request: Request) -> dict[str, Any]:
    place, name = _folder(request)
    folder = parts.folders.find(place, name)
    if not is_registry(folder):
        raise NotShown(f"there is no registry {name!r} in {place!r}")
    found = registry_details(folder)
    for version in found["versions"]:
        version["shown_run"] = shown_run(parts.folders, version.get("run_path"))
    papers = {account: _has(parts, request, account) for account in ("paper", "shadow")}
    return {"place": place, "name": name, "path": str(folder), **found, **papers}


def _audit(parts: MarketParts, request: Request) -> dict[str, Any]:
    """Entries of the log, the newest first; `before` is the number of the entry from which to go back."""
    place, name = _folder(request)
    folder = parts.folders.find(place, name)
    if not is_registry(folder):
        raise NotShown(f"there is no registry {name!r} in {place!r}")
    entries, is_whole = read_entries(folder)
    before = _whole(request, "before")
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
    return series_answer(found, names, axis_of(query), low, high, points_of(query))


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


def _curves(parts: MarketParts, request: Request, account: str) -> Any:
    """An account, or None if it is not there or cannot be read."""
    try:
        return parts.curves(*_folder(request), account)
    except (NotShown, RookeryError):
        return None


def _problem(parts: MarketParts, request: Request, account: str) -> str | None:
    """Why there are no curves."""
    try:
        parts.curves(*_folder(request), account)
    except NotShown:
        return "there is no account.npy beside the report: `rookery backtest` writes it, and the curves appear here"
    except RookeryError as error:
        return str(error)
    return None


def _has(parts: MarketParts, request: Request, account: str) -> bool:
    try:
        account_file(parts.folders, *_folder(request), account)
    except NotShown:
        return False
    return True


def _folder(request: Request) -> tuple[str, str]:
    return request.path_params["place"], request.path_params["name"]


def _whole(request: Request, key: str) -> int | None:
    value = number_of(request.query_params, key)
    if value is None:
        return None
    if not (value.is_integer() and 0 <= value < 10**9):
        raise HTTPException(400, f"{key} is {value:g}; it should be a whole number")
    return int(value)
