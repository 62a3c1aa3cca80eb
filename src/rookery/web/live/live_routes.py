"""Routes of one run as it grows: its details, stream, episodes, log and files; and the stream of the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.learners.own_learners import learner_names
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import differences, flat_config, read_config
from rookery.web.dashboard_state import DashboardState, json_answer, place_threads, state_of
from rookery.web.kept import Kept
from rookery.web.live.event_stream import EventStream
from rookery.web.live.metrics_reader import Position
from rookery.web.live.run_details import RareEvents, run_details
from rookery.web.live.run_files import RangedFile, episode_sample, run_log
from rookery.web.live.run_watcher import RunWatcher
from rookery.web.live.table_watcher import TableWatcher
from rookery.web.marks import marks_of
from rookery.web.queries import BadAddress, integer_of
from rookery.web.run_views.run_routes import run_index, table_changes

RUN = "/api/runs/{place}/{name}"
POINTS = 5000  # of a scatter plot
KEPT_RUNS = 64  # with what was read of them for their pages
NOT_SHOWN = ("world", "tables", "name", "runs_dir")  # of a config, among what somebody changed


def live_routes() -> list[BaseRoute]:
    return [
        Route("/api/stream", table_stream), Route(RUN, details), Route(f"{RUN}/stream", run_stream),
        Route(f"{RUN}/diff", diff), Route(f"{RUN}/changed", changed),
        Route(f"{RUN}/episodes", episodes), Route(f"{RUN}/log", log), Route(f"{RUN}/files/{{path:path}}", stored_file),
    ]  # fmt: skip


async def details(request: Request) -> Response:
    """All that is known of a run, but for its curves."""
    state, place, name = _asked(request)
    rare, index = state.part("rare events", lambda: Kept[Path, RareEvents](KEPT_RUNS)), run_index(state)

    def found() -> dict[str, Any]:
        folder = state.folders.find(place, name)
        return run_details(folder, rare.of(folder, lambda: RareEvents(folder)), index.row(place, name))

    return await json_answer(state, place, found)


async def changed(request: Request) -> Response:
    """The keys of its config that differ from the defaults. To know these takes longer than all other details."""
    state, place, name = _asked(request)
    return await json_answer(state, place, lambda: changed_keys(read_config(RunDir(state.folders.find(place, name)))))


async def diff(request: Request) -> Response:
    """The keys in which the configs of two runs differ."""
    state, place, name = _asked(request)
    other, _, other_name = request.query_params.get("with", "").partition("/")
    if not other_name:
        raise BadAddress("`with` names the other run, such as with=runs/NAME")
    return await json_answer(
        state, place,
        lambda: differences([RunDir(state.folders.find(*run)) for run in ((place, name), (other, other_name))]),
    )  # fmt: skip


async def episodes(request: Request) -> Response:
    """Some of the run's episodes, for a scatter plot."""
    state, place, name = _asked(request)
    points = integer_of(request.query_params, "points")
    return await json_answer(state, place, lambda: episode_sample(state.folders.find(place, name), points or POINTS))


async def log(request: Request) -> Response:
    """The log, or what was added to it after a byte."""
    state, place, name = _asked(request)
    start = integer_of(request.query_params, "from")
    return await json_answer(state, place, lambda: run_log(state.folders.find(place, name), start))


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


def _last_position(request: Request) -> Position | None:
    text = _last_id(request)
    try:
        return Position.parse(text) if text else None
    except ValueError as error:
        raise BadAddress(str(error)) from None


def _last_id(request: Request) -> str | None:
    """From the header, in which a browser has the newest one, or the query, where the page puts it."""
    return request.headers.get("last-event-id") or request.query_params.get("last_event_id")


def run_watcher(state: DashboardState) -> RunWatcher:
    return state.part("run watcher", lambda: RunWatcher(place_threads(state)))


def table_watcher(state: DashboardState) -> TableWatcher:
    return state.part(
        "table watcher",
        lambda: TableWatcher(
            state.folders, run_index(state), table_changes(state), marks_of(state), place_threads(state)
        ),
    )


def changed_keys(config: Mapping[str, Any]) -> dict[str, list[Any]]:
    """{key: [default, value]} of the keys that somebody set, or rookery chose; of learners' options its own only."""
    defaults = _defaults()
    others = tuple(f"{name}." for name in learner_names() if name != config.get("learner"))
    return {
        key: [defaults.get(key), value]
        for key, value in flat_config(config)
        if value != defaults.get(key) and not key.startswith((*others, "tables.")) and key not in NOT_SHOWN
    }


@cache
def _defaults() -> dict[str, Any]:
    from rookery.config.schema import RunConfig  # late: half a second, which the start of the server does not need

    return dict(flat_config(RunConfig(world="any").model_dump(mode="json")))
