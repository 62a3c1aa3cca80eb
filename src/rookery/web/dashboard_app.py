"""The dashboard as a Starlette application: every package of `web` adds its routes here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from importlib import import_module
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from rookery.errors import RookeryError
from rookery.version import __version__
from rookery.web.control_routes import control_routes
from rookery.web.dashboard_state import ALL_PLACES, DashboardState, place_threads, state_of
from rookery.web.live.live_routes import live_routes
from rookery.web.page_shell import page_routes
from rookery.web.queries import BadAddress
from rookery.web.rewind_routes import rewind_routes
from rookery.web.run_folders import NotShown
from rookery.web.run_views.run_routes import run_routes, run_table


class LateRoutes(BaseRoute):
    """All paths that begin with one of these prefixes. `place` names the function that makes their routes, as
    "package.module:function": imported when first asked for, as what most pages do not need takes half a second."""

    def __init__(self, place: str, *prefixes: str) -> None:
        self._place, self._prefixes = place, prefixes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        fits = scope["type"] in ("http", "websocket") and scope["path"].startswith(self._prefixes)
        return (Match.FULL, {}) if fits else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        router = await asyncio.to_thread(lambda: self.router)
        await router(scope, receive, send)

    @cached_property
    def router(self) -> Router:
        """The routes themselves. Two threads at once would make two equal ones, of which the last stays."""
        module, _, function = self._place.partition(":")
        return Router(getattr(import_module(module), function)())


STUDIES = LateRoutes("rookery.web.study_views.study_routes:study_routes", "/api/studies")
LATE = (
    LateRoutes("rookery.web.play.play_routes:play_routes", "/api/agents", "/api/play"),
    STUDIES,
    LateRoutes("rookery.web.market_views.market_routes:market_routes", "/api/markets"),
    LateRoutes("rookery.web.league_views.league_routes:league_routes", "/api/leagues"),
)


def make_app(state: DashboardState) -> Starlette:
    """The application. Its pages are one HTML shell; what they show comes from `/api/`."""
    routes = [
        Route("/api/health", health),
        *control_routes(),
        *run_routes(),
        *live_routes(),
        *rewind_routes(),
        *LATE,
        *page_routes(),
    ]
    errors: dict[Any, Any] = {
        HTTPException: _refusal, BadAddress: _saying(400), NotShown: _saying(404), RookeryError: _saying(409),
        FileNotFoundError: _saying(404, "it was moved or deleted in the meantime"),
        Exception: _saying(500, "the dashboard failed here: its terminal has the details"),
    }  # fmt: skip
    app = Starlette(routes=routes, exception_handlers=errors, lifespan=_lifespan)
    app.state.dashboard = state
    return app


async def health(request: Request) -> Response:
    """That the dashboard answers, and what it shows."""
    places = state_of(request).folders.places
    paths = [str(path) for path in places.values()]
    return JSONResponse({"status": "ok", "version": __version__, "folders": list(places), "paths": paths})


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Begin to read the runs, which the first page will ask for; in the end, close what the packages have opened."""
    reading = asyncio.create_task(_read_ahead(app.state.dashboard))
    yield
    reading.cancel()
    for part in app.state.dashboard.parts.values():
        if hasattr(part, "close"):
            await asyncio.to_thread(part.close)


async def _read_ahead(state: DashboardState) -> None:
    with suppress(Exception):  # the request that needs it will say what is wrong
        runs = {row["id"] for row in (await run_table(state).read())["runs"]}
        await place_threads(state).run(ALL_PLACES, lambda: _has_studies(state, runs) and STUDIES.router)


def _has_studies(state: DashboardState, runs: Collection[str]) -> bool:
    """Whether somebody may soon open the page of a study: its modules are imported while the browser loads the page."""
    others = (path for place, name, path in state.folders.children() if f"{place}/{name}" not in runs)
    return any((path / name).is_file() for path in others for name in ("study.json", "study.db"))


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


def _saying(status: int, sentence: str | None = None) -> Callable[[Request, Exception], Awaitable[Response]]:
    """The answer to an error: what it says itself, or this sentence."""

    async def answer(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": sentence or str(error)}, status)

    return answer
