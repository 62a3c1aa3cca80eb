"""What the dashboard answers about a few runs, recorded for a page without a server.

The answers are those of the application itself, so that a report shows what the dashboard shows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders

AXES = ("steps", "time", "episodes")
POINTS = 600  # of a curve
EPISODES = 3000
NAMES_AT_ONCE = 100


def record_answers(runs: Sequence[Path]) -> dict[str, Any]:
    """By run: its details, its curves over each axis, its episodes and its log; and the table of these runs."""
    paths = [Path(os.path.abspath(run)) for run in runs]
    folders = RunFolders(path.parent for path in paths)
    app = make_app(DashboardState(folders))
    places = {path: place for place, path in folders.places.items()}
    ids = [(places[path.parent], path.name) for path in paths]
    with ThreadPoolExecutor(1) as pool:  # a notebook has an event loop in this thread already
        return pool.submit(asyncio.run, _record(app, ids)).result()


async def _record(app: Starlette, ids: Sequence[tuple[str, str]]) -> dict[str, Any]:
    chosen = {f"{place}/{name}" for place, name in ids}
    async with app.router.lifespan_context(app):
        table = await _ask(app, "/api/runs")
        return {
            "rows": [row for row in table["runs"] if row["id"] in chosen],
            "runs": {f"{place}/{name}": await _record_run(app, place, name) for place, name in ids},
            "sparks": await _ask(app, "/api/sparks", ids=",".join(sorted(chosen))),
        }


async def _record_run(app: ASGIApp, place: str, name: str) -> dict[str, Any]:
    path = f"/api/runs/{quote(place, safe='')}/{quote(name, safe='')}"
    details = await _ask(app, path)
    while details.get("complete") is False:  # a long run is read a part at a time
        details = await _ask(app, path)
    metrics = await _ask(app, f"{path}/metrics")
    names = [metric["name"] for metric in metrics["names"]]
    return {
        "details": details,
        "metrics": metrics,
        "changed": await _ask(app, f"{path}/changed"),
        "curves": {axis: await _curves(app, path, names, axis) for axis in AXES},
        "episodes": await _ask(app, f"{path}/episodes", points=EPISODES),
    }


async def _curves(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> list[dict[str, Any]]:
    parts = [names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE)]
    return [await _read_whole(app, path, part, axis) for part in parts]


async def _read_whole(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> dict[str, Any]:
    """Curves of all points: of a long file the first answers are of samples, while it is read."""
    while True:
        found = await _ask(app, f"{path}/metrics/data", names=",".join(names), x=axis, points=POINTS)
        if not found["sampled"]:
            return dict(found)
        await asyncio.sleep(0.2)


async def _ask(app: ASGIApp, path: str, **query: Any) -> Any:
    """The answer of the application to a GET request, which does not leave this process."""
    body, status = bytearray(), 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": urlencode(query).encode(), "root_path": "",
        "headers": [(b"host", b"localhost")], "client": None, "server": None,
    }  # fmt: skip
    await app(scope, receive, send)
    answer = orjson.loads(bytes(body))
    if status != 200:
        raise LookupError(answer.get("error", f"{path}: {status}"))
    return answer
