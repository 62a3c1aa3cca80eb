"""Curves of one or several accounts on one axis, with as few points as a screen can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException

from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.run_views.decimation import decimated, on_one_axis

AXES = ("time", "elapsed")


def axis_of(query: Mapping[str, str]) -> str:
    """The axis `x`: UTC seconds, or seconds since the first bar of each account, to lay folds over each other."""
    axis = query.get("x", AXES[0])
    if axis not in AXES:
        raise HTTPException(400, f"x is {axis[:60]!r}; it should be one of {', '.join(AXES)}")
    return axis


def series_answer(
    accounts: Mapping[str, AccountCurves], names: Sequence[str], axis: str, low: float | None, high: float | None,
    points: int,
) -> dict[str, Any]:  # fmt: skip
    """The curves between `low` and `high`, by `account:name`. Points next to the ends are included, so that lines go
    on to the edge of the picture."""
    parts, exact, ends = {}, True, []
    for account, curves in accounts.items():
        if not len(curves.times):
            continue
        times = curves.times - curves.times[0] if axis == "elapsed" else curves.times
        ends += [float(times[0]), float(times[-1])]
        first = 0 if low is None else max(0, int(times.searchsorted(low)) - 1)
        last = len(times) if high is None else int(times.searchsorted(high, "right")) + 1
        inside = slice(first, last)
        exact = exact and len(times[inside]) <= points
        for name in names:
            curve = curves.curve(name)
            if curve is not None and len(times[inside]):
                parts[f"{account}:{name}"] = decimated(times[inside], curve[inside].astype(np.float64), points)
    x, series = on_one_axis(parts)
    return {"x": x, "series": series, "exact": exact, "range": (min(ends), max(ends)) if ends else None}
