"""The HTTP side of `rookery serve`, as a Starlette application: `/act`, `/health` and `/version`."""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rookery.console import say
from rookery.deploy.serving.act_request import UnknownBody, read_request, write_answer
from rookery.deploy.serving.champion_watch import ChampionWatch
from rookery.deploy.serving.http_server import OwnHosts
from rookery.deploy.serving.served_agent import Batcher, QueueFull
from rookery.errors import OptionError, SpaceError
from rookery.version import __version__

MOST_BODY_BYTES = 16 << 20
BODY_SECONDS = 30.0  # until the body of a request must have arrived


@dataclass
class ServedState:
    """What the routes use."""

    batcher: Batcher
    watch: ChampionWatch
    about: dict[str, Any]
    most_body_bytes: int = MOST_BODY_BYTES
    started: float = 0.0
    failure: str = ""  # the last error of the agent itself


def make_app(state: ServedState, token: str | None = None, hosts: OwnHosts | None = None) -> Starlette:
    """The application. With a token, every request must carry it as `Authorization: Bearer TOKEN`; with `hosts`, it
    must be sent to one of them, and not by a page of another site."""
    state.started = time.monotonic()
    routes = [
        Route("/act", act, methods=["POST"]),
        Route("/health", health, methods=["GET"]),
        Route("/version", version, methods=["GET"]),
    ]
    guard = [Middleware(_HostGuard, hosts=hosts)] if hosts else []
    guard += [Middleware(_TokenGuard, token=token)] if token else []
    app = Starlette(routes=routes, middleware=guard, exception_handlers={HTTPException: _refusal})
    app.state.served = state
    return app


async def act(request: Request) -> Response:
    """Actions for a batch of observations."""
    state: ServedState = request.app.state.served
    headers = dict(request.headers)  # Starlette searches its list for every name
    try:
        body = await _body(request, headers, state.most_body_bytes)
        wanted = read_request(state.batcher.agent.reader, body, headers)
        answer = await state.batcher.answer(wanted)
    except UnknownBody as error:
        return _error(415, str(error))
    except (OptionError, SpaceError) as error:
        return _error(400, str(error))
    except QueueFull:
        return _error(503, "too many requests wait: try again", {"retry-after": "1"})
    except TimeoutError:
        return _error(408, f"the body did not arrive within {BODY_SECONDS:.0f} s", {"connection": "close"})
    except ClientDisconnect:
        return Response(status_code=400)
    except HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - of the agent: the server continues
        return _failed(state, error)
    content, about = write_answer(answer, body, headers)
    return Response(content, headers=about)


async def health(request: Request) -> Response:
    """Whether it works, what it serves, and what is wrong with a newer champion."""
    state: ServedState = request.app.state.served
    problem = state.watch.problem or state.failure
    return JSONResponse(
        {
            "status": "degraded" if problem else "ok",
            "problem": problem or None,
            "version": state.batcher.agent.version,
            "waiting": state.batcher.waiting,
            "answered": state.batcher.answered,
            "batches": state.batcher.batches,
            "swaps": state.watch.swaps,
            "uptime_seconds": round(time.monotonic() - state.started, 1),
        }
    )


async def version(request: Request) -> Response:
    """Which agent acts, and what it observes and does."""
    state: ServedState = request.app.state.served
    agent = state.batcher.agent
    spaces = {name: str(getattr(agent.agent, name)) for name in ("observation_space", "action_space")}
    recurrent = bool(agent.agent.policy.memory_size)
    return JSONResponse(
        {"version": agent.version, "recurrent": recurrent, **spaces, **state.about, "rookery": __version__}
    )


class _HostGuard:
    """Answers 403 to requests to other host names, and of pages of other sites."""

    def __init__(self, app: ASGIApp, hosts: OwnHosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        foreign = None
        if scope["type"] == "http":
            foreign = self._hosts.refusal(scope["headers"], scope["method"] not in ("GET", "HEAD"), "server")
        answer = self._app if foreign is None else _error(403, foreign, {"connection": "close"})
        await answer(scope, receive, send)


class _TokenGuard:
    """Answers 401 to requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._wanted = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(given, self._wanted):
            await self._app(scope, receive, send)
            return
        refusal = _error(401, "the token is missing or wrong: send `Authorization: Bearer TOKEN`")
        refusal.headers["www-authenticate"] = "Bearer"
        await refusal(scope, receive, send)


async def _body(request: Request, headers: dict[str, str], most: int) -> bytes:
    """The body, unless it is too large, as announced or in fact, or comes too slowly."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > most:
        raise _too_large(most)
    parts, size = list[bytes](), 0
    async with asyncio.timeout(BODY_SECONDS):
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                return b"".join(parts)


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a body may have up to {most} bytes: send fewer observations at a time")


def _failed(state: ServedState, error: Exception) -> Response:
    failure = f"the agent failed: {type(error).__name__}: {error}"
    if failure != state.failure:
        say(failure)
    state.failure = failure
    return _error(500, failure)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, dict(error.headers or {}))


def _error(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": text}, status, headers)
