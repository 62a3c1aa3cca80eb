"""How much each parameter matters, from columns: the same shares as `rookery study` prints."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from rookery.studies.report.importances import MOST, importances
from rookery.studies.storage.study_view import StudyView, TrialView
from rookery.web.study_views.study_summary import comparable
from rookery.web.study_views.trial_columns import TrialColumns


def column_importances(columns: TrialColumns) -> dict[str, Any]:
    """The share of each parameter by PED-ANOVA for the first objective, the largest first."""
    where = np.flatnonzero(comparable(columns))
    where = where[np.argsort(columns.values[where, 0], kind="stable")]
    most = MOST["ped-anova"]
    if len(where) > most:  # evenly over all values, as `importances` would take them
        where = where[np.arange(most) * (len(where) - 1) // (most - 1)]
    maximise = bool(columns.head.directions[0]) if columns.head.directions else True
    study = StudyView("", None, "", maximise, _trials(columns, where))
    return {"method": "ped-anova", "trials": len(where), "shares": importances(study)}


def _trials(columns: TrialColumns, where: np.ndarray[Any, Any]) -> list[TrialView]:
    declared = {name: SimpleNamespace(**given) for name, given in columns.distributions.items() if _has_ends(given)}
    names = list(columns.params)
    table = np.array([columns.params[name][where] for name in names]).T if names else np.empty((len(where), 0))
    choices = [columns.distributions[name]["choices"] for name in names]
    trials = []
    for place, row in zip(where.tolist(), table.tolist(), strict=True):
        value = float(columns.values[place, 0])
        known = {
            name: each if picks is None else picks[int(each)]
            for name, each, picks in zip(names, row, choices, strict=True)
            if each == each  # NaN: the trial does not have it
        }
        number = int(columns.number[place])
        trials.append(TrialView(number, "finished", value, (value,), params=known, distributions=declared))
    return trials


def _has_ends(given: Mapping[str, Any]) -> bool:
    return given["low"] is not None and given["high"] is not None
