"""Routes of one run: its details, its stream."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config
from rookery.web.dashboard_state import DashboardState, state_of
from rookery.web.live.config_changes import changed_keys, config_difference
from rookery.web.live.episode_sample import episode_sample
from rookery.web.live.event_stream import EventStream
from rookery.web.live.live_parts import rare_events, run_watcher, table_watcher
from rookery.web.live.position import Position
from rookery.web.live.ranged_file import RangedFile
from rookery.web.live.rare_events import RareEventsOfRuns
from rookery.web.live.run_details import run_details
from rookery.web.live.run_log import run_log
from rookery.web.place_threads import place_threads
from rookery.web.run_views.run_index import RunIndex
from rookery.web.run_views.run_parts import encoded, run_index

RUN = "/api/runs/{place}/{name}"


def live_routes() -> list[BaseRoute]:
    """The routes of this package."""
    return [
        Route("/api/stream", table_stream), Route(RUN, details), Route(f"{RUN}/stream", run_stream),
        Route(f"{RUN}/diff", diff), Route(f"{RUN}/changed", changed),
        Route(f"{RUN}/episodes", episodes), Route(f"{RUN}/log", log), Route(f"{RUN}/files/{{path:path}}", stored_file),
    ]  # fmt: skip


async def details(request: Request) -> Response:
    """All that is known of a run, but for its curves."""
    state, place, name = _asked(request)
    return await _answer(state, place, _details, state, place, name, rare_events(state), run_index(state))


def _details(state: DashboardState, place: str, name: str, rare: RareEventsOfRuns, index: RunIndex) -> dict[str, Any]:
    folder = state.folders.find(place, name)
    return run_details(folder, rare.of(folder), index.row(place, name))


async def changed(request: Request) -> Response:
    """The keys of its config that differ from the defaults. To know these takes longer than all other details."""
    state, place, name = _asked(request)
    return await _answer(state, place, lambda: changed_keys(read_config(RunDir(state.folders.find(place, name)))))


async def diff(request: Request) -> Response:
    """The keys in which the configs of two runs differ."""
    state, place, name = _asked(request)
    other, _, other_name = request.query_params.get("with", "").partition("/")
    if not other_name:
        raise HTTPException(400, "`with` names the other run, such as with=runs/NAME")
    return await _answer(
        state, place,
        lambda: config_difference(state.folders.find(place, name), state.folders.find(other, other_name)),
    )  # fmt: skip


async def episodes(request: Request) -> Response:
    """Some of the run's episodes, for a scatter plot."""
    state, place, name = _asked(request)
    points = _number(request, "points", 5000)
    return await _answer(state, place, lambda: episode_sample(state.folders.find(place, name), points))


async def log(request: Request) -> Response:
    """The log, or what was added to it after a byte."""
    state, place, name = _asked(request)
    start = _number(request, "from", -1)
    return await _answer(state, place, lambda: run_log(state.folders.find(place, name), start if start >= 0 else None))


async def stored_file(request: Request) -> Response:
    """A file of the run."""
    state, place, name = _asked(request)
    parts = request.path_params["path"].split("/")
    return await place_threads(state).run(
        place, lambda: RangedFile(state.folders.file(place, name, *parts), request)
    )  # fmt: skip


async def table_stream(request: Request) -> Response:
    """The rows of the table of runs as they change."""
    return EventStream(table_watcher(state_of(request)).events(_last_id(request)))


async def run_stream(request: Request) -> Response:
    """The events of a run as they come."""
    state, place, name = _asked(request)
    folder = await place_threads(state).run(place, state.folders.find, place, name)
    return EventStream(run_watcher(state).events(place, folder, _last_position(request)))


def _asked(request: Request) -> tuple[DashboardState, str, str]:
    state, place = state_of(request), request.path_params["place"]
    state.folders.folder(place)  # an unknown one gets no threads
    return state, place, request.path_params["name"]


async def _answer(state: DashboardState, place: str, function: Any, *arguments: Any) -> Response:
    found = await place_threads(state).run(place, function, *arguments)
    return Response(encoded(found), media_type="application/json")


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise HTTPException(400, f"`{name}` should be a whole number, got {text[:80]!r}")
    return int(text) if text else default


def _last_position(request: Request) -> Position | None:
    text = _last_id(request)
    try:
        return Position.parse(text) if text else None
    except ValueError as error:
        raise HTTPException(400, str(error)) from None


def _last_id(request: Request) -> str | None:
    """From the header, in which a browser has the newest one, or the query, where the page puts it."""
    return request.headers.get("last-event-id") or request.query_params.get("last_event_id")
