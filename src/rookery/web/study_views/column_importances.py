"""How much each parameter matters, from columns: the same shares as `rookery study` prints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rookery.studies.report.importances import FEWEST, MOST
from rookery.studies.report.ped_anova import best_tenth, choice_divergence, is_number, numeric_divergence, shares
from rookery.web.study_views.study_summary import comparable, signed
from rookery.web.study_views.trial_columns import Floats, TrialColumns


def column_importances(columns: TrialColumns) -> dict[str, Any]:
    """The share of each parameter by PED-ANOVA for the first objective, the largest first; none if there are too few
    trials to say."""
    where = np.flatnonzero(comparable(columns))
    where = where[np.argsort(columns.values[where, 0], kind="stable")]
    most = MOST["ped-anova"]
    if len(where) > most:  # evenly over all values
        where = where[np.arange(most) * (len(where) - 1) // (most - 1)]
    losses = -signed(columns)[where, 0]
    found: dict[str, float] = {}
    if len(where) >= FEWEST and losses[0] != losses[-1]:
        best = best_tenth(losses)
        for name, column in columns.params.items():
            has = np.isfinite(column[where])
            if has.sum() >= FEWEST and np.ptp(column[where][has]) > 0:
                found[name] = _divergence(column[where][has], best[has], columns.distributions[name])
    ordered = sorted(shares(found).items(), key=lambda item: -item[1])
    return {"method": "ped-anova", "trials": len(where), "shares": dict(ordered)}


def _divergence(values: Floats, best: np.ndarray[Any, Any], given: dict[str, Any]) -> float:
    if not best.any():
        return 0.0
    choices = given["choices"]
    if choices is None:
        has_ends = given["low"] is not None and given["high"] is not None
        return numeric_divergence(values, best, SimpleNamespace(**given) if has_ends else None)
    occurring, places = np.unique(values.astype(np.intp), return_inverse=True)
    if all(is_number(choices[place]) for place in occurring):
        return numeric_divergence(np.array([choices[place] for place in occurring], np.float64)[places], best, None)
    return choice_divergence(places, best)
