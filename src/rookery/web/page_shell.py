"""The one HTML page and its files. Headers name what a view will need, so that it is loaded at once; the files come
from memory, as a view loads some thirty small ones."""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.monitor.formatting import PARTS

STATIC = Path(__file__).resolve().parent / "static"
# Each view of the page has an address of its own, which can be sent to somebody; the page finds out which it is. The
# module that shows it is loaded without waiting for that.
VIEWS = {
    "/": "runs", "/compare": "compare", "/diff": "diff", "/runs/{place}/{name}": "run",
    "/studies": "studies", "/studies/{place}/{name}": "study", "/play": "play", "/play/{place}/{name}": "play",
    "/markets": "markets", "/markets/backtest/{place}/{name}": "market_backtest",
    "/markets/registry/{place}/{name}": "market_registry", "/markets/paper/{place}/{name}": "market_paper",
    "/leagues": "leagues", "/leagues/{place}/{name}": "league",
}  # fmt: skip
IMPORTED = re.compile(r'^import .* from "(\.{1,2}/[\w./-]+\.js)";$', re.MULTILINE)
CHARTS, CHART_LIBRARY = "/static/js/uplot.js", "/static/vendor/uPlot.iife.min.js"
# The metrics that the overview of a run asks for, as `static/js/run/overview_tab.js` does, and the number of points.
OVERVIEW = (
    "episode/return", "eval/return", "eval/return_low", "eval/return_high", "episode/length", "eval/length",
    *(f"time/{part}" for part in PARTS),
)  # fmt: skip
CURVES = urlencode({"names": ",".join(OVERVIEW), "x": "steps", "points": 1500})
RUN = "/api/runs/{place}/{name}"
# What a view will ask for first: the server begins to read while the page loads its modules.
ASKED = {
    "runs": ["/api/runs"],
    "run": [f"{RUN}/metrics/data?{CURVES}", f"{RUN}/metrics", RUN, "/api/session"],
    "study": ["/api/studies/{place}/{name}/trials?columns=results&format=packed"],
}


def page_routes() -> list[BaseRoute]:
    """Routes of the page and of its files."""
    return [*(Route(path, _shell(view)) for path, view in VIEWS.items()), file_route()]


def _shell(view: str) -> Callable[[Request], Awaitable[Response]]:
    """The page, whatever it will show. Its headers name what this view needs."""

    async def shell(request: Request) -> Response:
        names = {name: quote(text, safe="!*'()~") for name, text in request.path_params.items()}
        modules, links = modules_of(view), []
        if not request.url.query:  # another tab, axis or part of the curves asks for something else
            # First, as they take longest: a browser has six connections, and asks in this order.
            asked = [address.format(**names) for address in ASKED.get(view, ())]
            links += [f"<{address}>; rel=preload; as=fetch; crossorigin" for address in asked]
        links += [f"<{module}>; rel=modulepreload" for module in modules]
        if CHARTS in modules:
            links.append(f"<{CHART_LIBRARY}>; rel=preload; as=script")
        headers = {"Cache-Control": "no-cache", "Link": ", ".join(links)}
        return FileResponse(STATIC / "index.html", media_type="text/html", headers=headers)

    return shell


@cache
def modules_of(view: str) -> tuple[str, ...]:
    """The addresses of the modules that a view imports, and of those that they import."""
    found = dict.fromkeys([STATIC / "js" / "main.js", STATIC / "js" / "views" / f"{view}.js"])
    waiting = list(found)
    while waiting:
        module = waiting.pop()
        imported = [(module.parent / name).resolve() for name in IMPORTED.findall(module.read_text())]
        waiting += [each for each in imported if each not in found]
        found.update(dict.fromkeys(imported))
    return tuple(f"/static/{path.relative_to(STATIC).as_posix()}" for path in found)


def file_route() -> Route:
    """The route of all files. Only those that are there now are ever read, so no name leads elsewhere."""
    known = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.is_file()}

    async def page_file(request: Request) -> Response:
        path = known.get(request.path_params["name"])
        if path is None:
            raise HTTPException(404)
        body, headers = _read(path, path.stat().st_mtime_ns)
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=mimetypes.guess_type(path.name)[0])

    return Route("/static/{name:path}", page_file)


@lru_cache(maxsize=1024)
def _read(path: Path, modified_ns: int) -> tuple[bytes, dict[str, str]]:
    body = path.read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:32]
    return body, {"ETag": f'"{digest}"', "Last-Modified": formatdate(modified_ns / 1e9, usegmt=True)}
