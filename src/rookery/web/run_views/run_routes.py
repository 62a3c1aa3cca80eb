"""Routes of the table of runs, of their curves, and of comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.monitor.statistics import EPISODE
from rookery.web.dashboard_state import ALL_PLACES, DashboardState, json_answer, place_threads, state_of
from rookery.web.marks import marks_of
from rookery.web.queries import BadAddress, choice_of, names_of, number_of, points_of
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.compared_curves import ComparedRun, Sparks, compare
from rookery.web.run_views.metric_curves import AXES, decimated, on_one_axis
from rookery.web.run_views.metric_reader import FoundCurves, MetricReader
from rookery.web.run_views.run_index import RunIndex
from rookery.web.run_views.run_table import RunTable, TableChanges


def run_routes() -> list[BaseRoute]:
    return [
        Route("/api/runs", runs),
        Route("/api/sparks", spark_lines),
        Route("/api/runs/{place}/{name}/metrics", metrics),
        Route("/api/runs/{place}/{name}/metrics/data", metrics_data),
        Route("/api/compare", compared),
    ]


async def runs(request: Request) -> Response:
    """The rows of all runs, and the cursor with which a stream of the table continues after them."""
    state = state_of(request)
    table = await run_table(state).read()
    return await json_answer(state, ALL_PLACES, lambda: table)


async def spark_lines(request: Request) -> Response:
    """The returns of some runs as a few numbers each."""
    state = state_of(request)
    known, ids = sparks(state), names_of(request.query_params, "ids", MOST_IDS)
    return await json_answer(
        state, _place_of(state, ids),
        lambda: {run.id: known.of(run.path / "metrics.jsonl") for run in runs_of(state.folders, ids)},
    )  # fmt: skip


async def metrics(request: Request) -> Response:
    """The names of a run's metrics, with the number of their points."""
    state, params = state_of(request), request.path_params
    reader = metric_reader(state)

    def answer() -> dict[str, Any]:
        path = state.folders.find(params["place"], params["name"])
        if not _has_metrics(path):
            return {"names": [], "axes": AXES, "exact": True}
        names, exact = reader.names(path / "metrics.jsonl")
        listed = [{"name": name, "points": points} for name, points in names.items()]
        return {"names": listed, "axes": AXES, "exact": exact}

    return await json_answer(state, params["place"], answer)


async def metrics_data(request: Request) -> Response:
    """Curves of some metrics of a run."""
    state, params, query = state_of(request), request.path_params, request.query_params
    names, axis, points = names_of(query, "names", MOST_NAMES), choice_of(query, "x", AXES), points_of(query)
    low, high = number_of(query, "from"), number_of(query, "to")
    reader = metric_reader(state)

    def answer() -> dict[str, Any]:
        path = state.folders.find(params["place"], params["name"])
        if not _has_metrics(path):
            return {"x": [], "series": {name: [] for name in names}, "exact": True, "sampled": False, "range": None}
        found = reader.curves(path / "metrics.jsonl", names, axis, low, high, points)
        return data_answer(found, names, low, high, points)

    return await json_answer(state, params["place"], answer)


async def compared(request: Request) -> Response:
    """One metric of several runs."""
    state, query = state_of(request), request.query_params
    ids, axis = names_of(query, "ids", MOST_IDS), choice_of(query, "x", AXES)
    smoothing, bands = number_of(query, "smoothing") or 0.0, choice_of(query, "bands", ("none", "seeds"))
    if not 0 <= smoothing < 1:
        raise BadAddress(f"smoothing is {smoothing:g}; it should be at least 0 and below 1")
    metric, reader = query.get("metric") or EPISODE, metric_reader(state)
    return await json_answer(
        state, _place_of(state, ids),
        lambda: {"curves": compare(reader, runs_of(state.folders, ids), metric, axis, smoothing, bands == "seeds")},
    )  # fmt: skip


def _place_of(state: DashboardState, ids: Sequence[str]) -> str:
    """The place of runs, if they are all in one."""
    places = {unquote(run).partition("/")[0] for run in ids}
    return next(iter(places)) if len(places) == 1 and places <= state.folders.places.keys() else ALL_PLACES


def _has_metrics(path: Path) -> bool:
    """Whether a run has begun to write metrics; a link is not followed."""
    metrics = path / "metrics.jsonl"
    if metrics.is_symlink():
        raise NotShown(f"the metrics of {path.name!r} are a link, which is not followed")
    return metrics.is_file()


def run_index(state: DashboardState) -> RunIndex:
    return state.part("run index", lambda: RunIndex(state.folders, marks_of(state).of))


def table_changes(state: DashboardState) -> TableChanges:
    """What has changed in the table since a reader saw it."""
    return state.part("table changes", TableChanges)


def run_table(state: DashboardState) -> RunTable:
    return state.part(
        "run table", lambda: RunTable(state.folders, run_index(state), table_changes(state), place_threads(state))
    )


def metric_reader(state: DashboardState) -> MetricReader:
    return state.part("metric reader", MetricReader)


def sparks(state: DashboardState) -> Sparks:
    """The spark lines of runs."""
    return state.part("sparks", Sparks)


MOST_NAMES, MOST_IDS = 100, 500


def runs_of(folders: RunFolders, ids: Sequence[str]) -> list[ComparedRun]:
    """The runs of these ids that are there. A comma in a name is written `%2C`, a percent sign `%25`."""
    found = []
    for run in map(unquote, ids):
        place, _, name = run.partition("/")
        try:
            found.append(ComparedRun(run, folders.find(place, name)))
        except NotShown:
            continue
    return found


def data_answer(
    read: FoundCurves, names: Sequence[str], low: float | None, high: float | None, points: int
) -> dict[str, Any]:
    """The curves between `low` and `high` on one axis, with few enough points. Those next to the ends are included, so
    that lines continue to the edge of the picture."""
    found = {name: read.curves.curve(name) for name in names}
    whole = [x for x, _ in found.values() if len(x)]
    parts, full = {}, read.exact
    for name, (x, y) in found.items():
        first = 0 if low is None else max(0, int(x.searchsorted(low)) - 1)
        last = len(x) if high is None else int(x.searchsorted(high, "right")) + 1
        x, y = x[first:last], y[first:last]
        full = full and len(x) <= points
        parts[name] = decimated(x, y, points)
    x, series = on_one_axis(parts)
    ends = (min(float(x[0]) for x in whole), max(float(x[-1]) for x in whole)) if whole else None
    return {"x": x, "series": series, "exact": full, "sampled": not read.exact, "range": read.ends or ends}
