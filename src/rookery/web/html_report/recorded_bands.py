"""Runs that differ in their seeds alone, as the bands that a comparison draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.types import ASGIApp

from rookery.web.html_report.asked_app import ask, listed
from rookery.web.run_views.chunk_curves import AXES

POINTS = 250  # of a band
COLUMNS = ("x", "y", "low", "high")


async def record_bands(
    app: ASGIApp, rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """By axis and metric; empty if no two runs belong together."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row["group"] is not None:
            groups.setdefault(row["group"], []).append(row["id"])
    ids = [run for members in groups.values() if len(members) > 1 for run in members]
    if not ids:
        return {}
    names = dict.fromkeys(metric["name"] for run in ids for metric in runs[run]["metrics"]["names"])
    found = {axis: {name: await _bands(app, ids, name, axis) for name in names} for axis in AXES}
    return found if any(bands for metrics in found.values() for bands in metrics.values()) else {}


async def _bands(app: ASGIApp, ids: Sequence[str], metric: str, axis: str) -> list[dict[str, Any]]:
    found = await ask(app, "/api/compare", ids=listed(ids), metric=metric, x=axis, bands="seeds")
    return [_short(curve) for curve in found["curves"] if "ids" in curve]


def _short(curve: dict[str, Any]) -> dict[str, Any]:
    """Evenly chosen points, with the last one."""
    last = len(curve["x"]) - 1
    count = min(POINTS, last + 1)
    places = [round(number * last / max(1, count - 1)) for number in range(count)]
    return {**curve, **{name: [curve[name][place] for place in places] for name in COLUMNS}}
