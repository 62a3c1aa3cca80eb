"""Studies: searches over settings with Optuna. Every trial is a run, or several: one for each seed or fold.

Populations are here too: runs that differ in numbers only, trained side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.studies.population.pbt import read_lineage as read_lineage, train_pbt as train_pbt
    from rookery.studies.storage.study_view import StudyView as StudyView, open_study as open_study
    from rookery.studies.storage.trial_view import TrialView as TrialView, VerifiedTrial as VerifiedTrial
    from rookery.studies.study_result import BestTrial as BestTrial, StudyResult as StudyResult
    from rookery.training.population.batchable import why_not_batchable as why_not_batchable
    from rookery.training.population.train_population import (
        resume_population as resume_population,
        train_population as train_population,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
