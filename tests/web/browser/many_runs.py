"""A thousand runs as the server would tell them, and a stream that says what a test wants said."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

# Instead of the browser's own: `tell(kind, data)` is an event of the server.
STREAM = """
class Stream extends EventTarget {
  constructor() { super(); globalThis.stream = this; setTimeout(() => this.onopen?.(), 0); }
  close() {}
}
globalThis.EventSource = Stream;
globalThis.tell = (kind, data) => {
  globalThis.stream.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data), lastEventId: "7" }));
};
"""


def row(number: int, **other: Any) -> dict[str, Any]:
    """The row of a run; the larger its number, the larger its return and the later its start."""
    name, place = f"run-{number:04}", "runs" if number % 3 else "old"
    return {
        "id": f"{place}/{name}", "place": place, "name": name, "state": "finished",
        "world": ("CartPole-v1", "hockey")[number % 2], "learner": "ppo", "num_envs": 8, "steps": 1000 + number,
        "total_steps": 10_000, "share": 0.1, "episodes": 10, "seconds": 5.0, "steps_per_second": 1e5,
        "return": float(number), "last_eval": None, "best_eval": None, "eta_seconds": 60.0, "bottleneck": None,
        "stuck": None, "seed": number % 5, "group": f"group{number // 5}", "created": 1e9 + number, "updated": 1e9,
        "tags": [], "hidden": False, **other,
    }  # fmt: skip


def serve_rows(page: Any, rows: list[dict[str, Any]], silent: Sequence[str] = ()) -> None:
    """Answer the page's questions for runs with these rows; `silent` folders do not answer."""
    page.add_init_script(STREAM)
    page.route("**/api/runs", lambda route: _answer(route, {"runs": rows, "cursor": "1", "silent": list(silent)}))
    page.route("**/api/sparks*", lambda route: _answer(route, {one["id"]: [1, 3, 2, 5] for one in rows[:50]}))


def serve_curves(page: Any) -> list[str]:
    """Answer questions for curves; returns the addresses that were requested, as they come."""
    asked: list[str] = []

    def compare(route: Any) -> None:
        asked.append(route.request.url)
        ids = _query(route.request.url)["ids"].split(",")
        x = list(range(0, 5000, 10))
        _answer(
            route,
            {"curves": [{"id": one, "label": one, "x": x, "y": [i + at for at in x]} for i, one in enumerate(ids)]},
        )

    names = [{"name": name, "points": 500} for name in ("episode/return", "ppo/loss")]
    page.route("**/api/compare*", compare)
    page.route("**/metrics", lambda route: _answer(route, {"names": names, "axes": ["steps", "time", "episodes"]}))
    page.route("**/diff*", lambda route: _answer(route, {"ppo.learning_rate": [0.001, 0.0003]}))
    return asked


def until(page: Any, expression: str, seconds: float = 15) -> None:
    """Wait until an expression is true in the page, whose rules forbid Playwright's own way to do it."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(20)


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def _answer(route: Any, data: Any) -> None:
    route.fulfill(status=200, content_type="application/json", body=json.dumps(data))
