"""The long-lived objects of this package, one of each for a dashboard, and answers in JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from starlette.responses import Response

from rookery.web.dashboard_state import DashboardState
from rookery.web.marks import marks_of
from rookery.web.place_threads import place_threads
from rookery.web.run_views.metric_reader import MetricReader
from rookery.web.run_views.run_index import RunIndex
from rookery.web.run_views.run_table import RunTable
from rookery.web.run_views.sparks import Sparks
from rookery.web.run_views.table_changes import TableChanges


def run_index(state: DashboardState) -> RunIndex:
    """The rows of all runs."""
    return _part(state, "run index", lambda: RunIndex(state.folders, marks_of(state).of))


def table_changes(state: DashboardState) -> TableChanges:
    """What has changed in the table since a reader saw it."""
    return _part(state, "table changes", TableChanges)


def run_table(state: DashboardState) -> RunTable:
    """The table of all runs."""
    return _part(
        state,
        "run table",
        lambda: RunTable(state.folders, run_index(state), table_changes(state), place_threads(state)),
    )


def metric_reader(state: DashboardState) -> MetricReader:
    """The metrics of runs."""
    return _part(state, "metric reader", lambda: MetricReader(state.parts.get("file batches")))


def sparks(state: DashboardState) -> Sparks:
    """The spark lines of runs."""
    return _part(state, "sparks", Sparks)


async def json_answer(state: DashboardState, place: str, make: Callable[[], Any]) -> Response:
    """What `make` returns, made in a thread of a place and encoded there; NaN and infinity become null."""
    data = await place_threads(state).run(place, lambda: encoded(make()))
    return Response(data, media_type="application/json")


def encoded(value: Any) -> bytes:
    """The value as JSON. A name that is not UTF-8 has its odd bytes replaced."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        return orjson.dumps(_plain(value), option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: Any) -> Any:
    """The value without what JSON cannot hold: lone surrogates, and integers beyond 64 bits."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, int) and abs(value) >= 1 << 63 else value


def _part(state: DashboardState, name: str, make: Callable[[], Any]) -> Any:
    """Made on first use. Only the event loop asks, so that there is one of each."""
    if name not in state.parts:
        state.parts[name] = make()
    return state.parts[name]
