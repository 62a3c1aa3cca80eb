"""What can be played, and the socket of a session: messages go to and fro between a page and a process."""

from __future__ import annotations

import asyncio
import json

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from rookery.web.dashboard_state import DashboardState, state_of
from rookery.web.play.play_processes import PlayProcess, PlayProcesses, SessionEnded
from rookery.web.play.play_request import PlayRequest, read_request
from rookery.web.play.playable_agents import playable_agents
from rookery.web.play.replay_request import ReplayRequest, read_replay
from rookery.web.play.session_channel import LONGEST_LINE, MessageKind
from rookery.web.run_folders import NotShown

ENDED = 1011  # the code of a closed WebSocket


def play_routes() -> list[BaseRoute]:
    """Routes of the agents and of the sessions."""
    return [Route("/api/agents", agents), WebSocketRoute("/api/play", play)]


async def agents(request: Request) -> Response:
    """The agents that can be played."""
    found = await asyncio.to_thread(playable_agents, state_of(request).folders)
    return Response(orjson.dumps({"agents": found}), media_type="application/json")


async def play(socket: WebSocket) -> None:
    """A session: its process runs as long as the page holds the socket."""
    await socket.accept()
    dashboard: DashboardState = socket.app.state.dashboard
    processes: PlayProcesses = dashboard.parts.setdefault("play", PlayProcesses())
    process = None
    try:
        read = read_replay if "league" in socket.query_params else read_request
        request: PlayRequest | ReplayRequest = await asyncio.to_thread(read, socket.query_params, dashboard.folders)
        process = await processes.start(request)
        await _relay(socket, process)
    except (NotShown, SessionEnded) as error:
        await _refuse(socket, str(error))
    except WebSocketDisconnect:
        pass
    finally:
        if process is not None:
            # Also when the server stops, and this task with it: no process may stay.
            await asyncio.shield(processes.end(process))


async def _relay(socket: WebSocket, process: PlayProcess) -> None:
    """Until either side ends. A page that reads slowly gets few messages: the process waits to hear what was seen."""
    both = [asyncio.create_task(_to_page(socket, process)), asyncio.create_task(_to_process(socket, process))]
    try:
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _to_page(socket: WebSocket, process: PlayProcess) -> None:
    while True:
        kind, payload = await process.read()
        if kind == MessageKind.TEXT:
            await socket.send_text(payload.decode())
        else:
            await socket.send_bytes(payload)


async def _to_process(socket: WebSocket, process: PlayProcess) -> None:
    while True:
        await process.write(_checked(await socket.receive_text()))


def _checked(text: str) -> bytes:
    """A message from the page as one line; it must be a small JSON object."""
    try:
        message = json.loads(text) if len(text) <= LONGEST_LINE else None
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise SessionEnded(f"a message to a session should be a JSON object of at most {LONGEST_LINE} bytes")
    return json.dumps(message).encode()


async def _refuse(socket: WebSocket, sentence: str) -> None:
    """Tell the page why, and close."""
    if socket.client_state != WebSocketState.CONNECTED or socket.application_state != WebSocketState.CONNECTED:
        return
    try:
        await socket.send_text(json.dumps({"kind": "error", "error": sentence}))
        await socket.close(ENDED)
    except (WebSocketDisconnect, RuntimeError):  # it has left meanwhile
        pass
