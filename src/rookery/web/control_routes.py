"""What the page can change: stop and resume a run, its tags, whether it is hidden. Off without --allow-control."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.errors import FileError, OptionError, RunError
from rookery.web.dashboard_state import DashboardState, state_of
from rookery.web.marks import marks_of

Change = Callable[[DashboardState, str, str, dict[str, Any]], dict[str, Any]]


def control_routes() -> list[BaseRoute]:
    """Routes of the session and of all changes."""
    changes: dict[str, Change] = {"stop": _stop, "resume": _resume, "tags": _tags, "hide": _hide}
    paths = {name: f"/api/runs/{{place}}/{{name}}/{name}" for name in changes}
    posts = [Route(paths[name], _changing(change), methods=["POST"]) for name, change in changes.items()]
    return [Route("/api/session", session), *posts]


async def session(request: Request) -> Response:
    """The token that changes need, which only our own page can read, and whether they are allowed."""
    state = state_of(request)
    return JSONResponse({"csrf": state.csrf, "allow_control": state.allow_control})


def _changing(change: Change) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        state = state_of(request)
        values = await _checked(request, state)
        place, name = request.path_params["place"], request.path_params["name"]
        try:
            return JSONResponse(await run_in_threadpool(change, state, place, name, values))
        except OptionError as error:
            raise HTTPException(400, str(error)) from None
        except (RunError, FileError, OSError) as error:
            raise HTTPException(409, str(error)) from None

    return answer


async def _checked(request: Request, state: DashboardState) -> dict[str, Any]:
    """The JSON object of a request that may change something."""
    if not state.allow_control:
        raise HTTPException(403, "runs are only shown: start the dashboard with --allow-control to change them")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"the type of the body should be application/json, got {kind!r:.60}")
    if not hmac.compare_digest(request.headers.get("x-csrf-token", "").encode(), state.csrf.encode()):
        raise HTTPException(403, "the header X-CSRF-Token is missing or wrong: /api/session has its value")
    try:
        values = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise HTTPException(400, "the body should be a JSON object")
    return values


def _stop(state: DashboardState, place: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    from rookery.web.run_control import stop_run  # with what it needs, a tenth of the start of the server

    return {"stopping": stop_run(_run(state, place, name))}


def _resume(state: DashboardState, place: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    from rookery.web.run_control import resume_run

    return {"resumed": resume_run(_run(state, place, name))}


def _tags(state: DashboardState, place: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    marks_of(state).set_tags(place, name, values.get("tags"))
    return _marked(state, place, name)


def _hide(state: DashboardState, place: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    marks_of(state).set_hidden(place, name, values.get("hidden"))
    return _marked(state, place, name)


def _marked(state: DashboardState, place: str, name: str) -> dict[str, Any]:
    tags, hidden = marks_of(state).of(place, name)
    return {"tags": tags, "hidden": hidden}


def _run(state: DashboardState, place: str, name: str) -> Path:
    return state.folders.find(place, name)
