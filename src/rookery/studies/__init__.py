"""Studies: searches over settings with Optuna. Every trial is a run, or several: one for each seed or fold.

Populations are here too: runs that differ in numbers only, trained side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.studies.population.pbt import read_lineage, train_pbt
    from rookery.studies.storage.study_view import StudyView, open_study
    from rookery.studies.storage.trial_view import TrialView, VerifiedTrial
    from rookery.studies.study_result import BestTrial, StudyResult
    from rookery.training.population.batchable import why_not_batchable
    from rookery.training.population.train_population import resume_population, train_population

__all__ = [
    "BestTrial",
    "StudyResult",
    "StudyView",
    "TrialView",
    "VerifiedTrial",
    "open_study",
    "read_lineage",
    "resume_population",
    "train_pbt",
    "train_population",
    "why_not_batchable",
]

__getattr__, __dir__ = lazy_names(__name__)
