"""Routes of the table of runs, of their curves, and of comparisons."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.web.dashboard_state import state_of
from rookery.web.run_views.run_parts import json_answer, run_index


def run_routes() -> list[BaseRoute]:
    """Routes of this package."""
    return [Route("/api/runs", runs)]


async def runs(request: Request) -> Response:
    """The rows of all runs."""
    index = run_index(state_of(request))
    return await json_answer(lambda: {"runs": index.rows(), "cursor": None})
