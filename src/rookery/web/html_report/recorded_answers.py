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
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.types import ASGIApp

from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.html_report.asked_app import ask, listed
from rookery.web.html_report.recorded_bands import record_bands
from rookery.web.html_report.recorded_markets import record_markets
from rookery.web.run_folders import RunFolders
from rookery.web.run_views.chunk_curves import AXES

POINTS = 600  # of a curve
EPISODES = 3000
NAMES_AT_ONCE = 100


def record_answers(runs: Sequence[Path]) -> dict[str, Any]:
    """By run: its details, its curves over each axis and its episodes; the table of these runs, bands of those that
    differ in their seeds, and the accounts of those that trade."""
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
        table = await ask(app, "/api/runs")
        rows = [row for row in table["runs"] if row["id"] in chosen]
        runs = {f"{place}/{name}": await _record_run(app, place, name) for place, name in ids}
        return {
            "rows": rows,
            "runs": runs,
            "sparks": await ask(app, "/api/sparks", ids=listed(sorted(chosen))),
            "diffs": {run: await _difference(app, ids[0], run) for run in runs},
            "bands": await record_bands(app, rows, runs),
            "markets": await record_markets(app, rows),
        }


async def _difference(app: ASGIApp, first: tuple[str, str], run: str) -> dict[str, Any]:
    """In what the settings of a run differ from those of the first one; what others differ in follows from that."""
    place, name = (quote(part, safe="") for part in first)
    return dict(await ask(app, f"/api/runs/{place}/{name}/diff", **{"with": run}))


async def _record_run(app: ASGIApp, place: str, name: str) -> dict[str, Any]:
    path = f"/api/runs/{quote(place, safe='')}/{quote(name, safe='')}"
    details = await ask(app, path)
    while details.get("complete") is False:  # a long run is read a part at a time
        details = await ask(app, path)
    metrics = await ask(app, f"{path}/metrics")
    names = [metric["name"] for metric in metrics["names"]]
    return {
        "details": details,
        "metrics": metrics,
        "changed": await ask(app, f"{path}/changed"),
        "curves": {axis: await _curves(app, path, names, axis) for axis in AXES},
        "episodes": await ask(app, f"{path}/episodes", points=EPISODES),
    }


async def _curves(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> list[dict[str, Any]]:
    parts = [names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE)]
    return [await _read_whole(app, path, part, axis) for part in parts]


async def _read_whole(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> dict[str, Any]:
    """Curves of all points: of a long file the first answers are of samples, while it is read."""
    while True:
        found = await ask(app, f"{path}/metrics/data", names=",".join(names), x=axis, points=POINTS)
        if not found["sampled"]:
            return dict(found)
        await asyncio.sleep(0.2)
