"""The one HTML page, and the files it loads. Nothing is loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

STATIC = Path(__file__).parent / "static"
# Each view of the page has an address of its own, which can be sent to somebody; the page finds out which it is.
VIEWS = (
    "/", "/compare", "/runs/{place}/{name}", "/studies", "/studies/{place}/{name}", "/play", "/play/{place}/{name}",
)  # fmt: skip


def page_routes() -> list[BaseRoute]:
    """Routes of the page and of its files."""
    return [*(Route(path, shell) for path in VIEWS), Mount("/static", StaticFiles(directory=STATIC))]


async def shell(request: Request) -> Response:
    """The page, whatever it will show."""
    return FileResponse(STATIC / "index.html", media_type="text/html", headers={"Cache-Control": "no-cache"})
