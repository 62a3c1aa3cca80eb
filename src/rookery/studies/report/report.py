"""All that the report of a study shows, as text, as JSON or as plots: read and computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from rookery.studies.report.importances import Method, importances
from rookery.studies.report.run_progress import RunProgress, running_parts
from rookery.studies.report.study_figures import StudyFigures, pareto_front, study_figures, top_trials
from rookery.studies.storage.study_view import StudyView, TrialView

FOLD = "fold-"


@dataclass(frozen=True)
class StudyReport:
    """A study with what follows from its trials."""

    study: StudyView
    figures: StudyFigures
    method: Method
    importances: Mapping[str, float]
    progress: list[RunProgress]
    market: Mapping[str, Any] | None = None  # overfitting figures; None unless trials have folds
    front: list[TrialView] = field(default_factory=list)  # of a study with several objectives

    def top(self, count: int) -> list[TrialView]:
        """The best trials; with several objectives, those of the Pareto front."""
        return self.front[:count] if self.front else top_trials(self.study, count)


class Reporter:
    """Makes reports of a study again and again. What takes long is computed again only if trials have ended."""

    def __init__(self, method: Method = "ped-anova") -> None:
        self._method = method
        self._ended = -1
        self._importances: Mapping[str, float] = {}
        self._market: Mapping[str, Any] | None = None

    def report(self, study: StudyView, now: datetime | None = None) -> StudyReport:
        figures = study_figures(study, now)
        if figures.ended != self._ended:
            self._ended = figures.ended
            self._importances = importances(study, self._method)
            self._market = _market(study)
        return StudyReport(
            study=study,
            figures=figures,
            method=self._method,
            importances=self._importances,
            progress=running_parts(study),
            market=self._market,
            front=pareto_front(study) if len(study.directions) > 1 else [],
        )


def has_folds(study: StudyView) -> bool:
    """Whether trials are cross-validated, as in market worlds."""
    return any(name.startswith(FOLD) for trial in study.trials for name in trial.parts)


def _market(study: StudyView) -> Mapping[str, Any] | None:
    if not has_folds(study):
        return None
    from rookery.studies.report.market_overfitting import market_figures

    return market_figures(study)
