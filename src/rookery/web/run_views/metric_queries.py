"""What a page may ask about metrics: the values of a query, checked, and the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException

from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views.chunk_curves import AXES
from rookery.web.run_views.compared_curves import ComparedRun
from rookery.web.run_views.decimation import decimated, on_one_axis
from rookery.web.run_views.metric_reader import FoundCurves

MOST_NAMES, MOST_IDS = 100, 500
LEAST_POINTS, POINTS, MOST_POINTS = 10, 1500, 20_000


def axis_of(query: Mapping[str, str]) -> str:
    """The axis `x`."""
    axis = query.get("x", AXES[0])
    if axis not in AXES:
        raise HTTPException(400, f"x is {axis[:60]!r}; it should be one of {', '.join(AXES)}")
    return axis


def number_of(query: Mapping[str, str], key: str, default: float | None = None) -> float | None:
    """A finite number, or the default if it is not given."""
    text = query.get(key, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise HTTPException(400, f"{key} is {text[:60]!r}; it should be a number")
    return value


def points_of(query: Mapping[str, str]) -> int:
    """How many points a curve may have."""
    return int(min(max(number_of(query, "points") or POINTS, LEAST_POINTS), MOST_POINTS))


def names_of(query: Mapping[str, str], key: str, most: int) -> list[str]:
    """Names divided by commas, each once."""
    names = list(dict.fromkeys(filter(None, query.get(key, "").split(","))))
    if not names:
        raise HTTPException(400, f"{key} is missing: name what to show, divided by commas")
    if len(names) > most:
        raise HTTPException(400, f"{key} has {len(names)} names; at most {most} can be asked for at once")
    return names


def runs_of(folders: RunFolders, ids: Sequence[str]) -> list[ComparedRun]:
    """The runs of these ids that are there. A comma in a name is written `%2C`, a percent sign `%25`."""
    found = []
    for run in map(unquote, ids):
        place, _, name = run.partition("/")
        try:
            found.append(ComparedRun(run, folders.find(place, name)))
        except NotShown:
            continue
    return found


def data_answer(
    read: FoundCurves, names: Sequence[str], low: float | None, high: float | None, points: int
) -> dict[str, Any]:
    """The curves between `low` and `high` on one axis, with few enough points. Those next to the ends are included, so
    that lines go on to the edge of the picture."""
    found = {name: read.curves.curve(name) for name in names}
    whole = [x for x, _ in found.values() if len(x)]
    parts, full = {}, read.exact
    for name, (x, y) in found.items():
        first = 0 if low is None else max(0, int(x.searchsorted(low)) - 1)
        last = len(x) if high is None else int(x.searchsorted(high, "right")) + 1
        x, y = x[first:last], y[first:last]
        full = full and len(x) <= points
        parts[name] = decimated(x, y, points)
    x, series = on_one_axis(parts)
    ends = (min(float(x[0]) for x in whole), max(float(x[-1]) for x in whole)) if whole else None
    return {"x": x, "series": series, "exact": full, "sampled": not read.exact, "range": read.ends or ends}
