"""The one HTML page, and what it will need: headers name it, so that it is loaded at once."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cache
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.monitor.formatting import PARTS
from rookery.web.page_files import STATIC, file_route

# Each view of the page has an address of its own, which can be sent to somebody; the page finds out which it is. The
# module that shows it is loaded without waiting for that.
VIEWS = {
    "/": "runs", "/compare": "compare", "/runs/{place}/{name}": "run", "/studies": "studies",
    "/studies/{place}/{name}": "study", "/play": "play", "/play/{place}/{name}": "play",
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
