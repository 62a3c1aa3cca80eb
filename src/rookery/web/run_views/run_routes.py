"""Routes of the table of runs, of their curves, and of comparisons."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.web.dashboard_state import state_of
from rookery.web.run_views.run_parts import json_answer, run_index, table_changes


def run_routes() -> list[BaseRoute]:
    """Routes of this package."""
    return [Route("/api/runs", runs)]


async def runs(request: Request) -> Response:
    """The rows of all runs, and the cursor with which a stream of the table goes on after them."""
    index, changes = run_index(state_of(request)), table_changes(state_of(request))

    def table() -> dict[str, Any]:
        rows = index.rows()
        return {"runs": rows, "cursor": changes.take(rows)}

    return await json_answer(table)
