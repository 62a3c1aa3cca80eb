"""The parameters of a study as places on an axis of a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rookery.console import printable
from rookery.studies.report.report import StudyReport
from rookery.studies.report.report_tables import setting_text
from rookery.studies.storage.study_view import TrialView


@dataclass(frozen=True)
class PlotParameter:
    """A parameter: its places from its smallest value to its largest, or one place per choice."""

    name: str
    choices: tuple[str, ...] | None  # None for numbers
    is_log: bool

    def place(self, trial: TrialView) -> float | None:
        """Where the trial's value is on the axis; None if it has none."""
        if self.name not in trial.params:
            return None
        value = trial.params[self.name]
        if self.choices is not None:
            return float(self.choices.index(setting_text(value)))
        return math.log10(value) if self.is_log else float(value)


def label(text: str) -> str:
    """A name in a plot: Matplotlib takes what is between dollars for a formula."""
    return printable(text).replace("$", r"\$")


def plot_parameters(report: StudyReport, trials: Sequence[TrialView], most: int) -> list[PlotParameter]:
    """The parameters that vary, the most important first."""
    names = dict.fromkeys([*report.importances, *(name for trial in trials for name in trial.params)])
    found = [_parameter(name, [trial for trial in trials if name in trial.params]) for name in names]
    return [each for each in found if each is not None][:most]


def _parameter(name: str, trials: Sequence[TrialView]) -> PlotParameter | None:
    values = [trial.params[name] for trial in trials]
    texts = list(dict.fromkeys(map(setting_text, values)))
    if len(texts) < 2:
        return None
    if not all(_is_number(value) for value in values):
        return PlotParameter(name, tuple(sorted(texts)), False)
    declared: Any = trials[0].distributions.get(name)
    return PlotParameter(name, None, bool(getattr(declared, "log", False)) and min(values) > 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
