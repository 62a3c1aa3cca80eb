"""A study of population-based training: one population, whose members are its trials. A trial is recorded with the
settings that its member has in the end, and with the rounds in which it was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial

from rookery.config import RunConfig
from rookery.studies.population.pbt import Scheduler, read_lineage, train_pbt
from rookery.studies.space.space import SearchSpace, value_at
from rookery.studies.storage.study_folder import StudyFolder
from rookery.studies.storage.study_store import Claim, StudyStore
from rookery.studies.storage.trial_view import LINEAGE, SECONDS
from rookery.training.population.train_population import recorded_config
from rookery.training.run.callbacks import Result
from rookery.training.storage.run_dir import RunDir

PART = "member"


def train_population_study(folder: StudyFolder, base: RunConfig, storage: str | None) -> bool:
    """Train the population in the study's folder and record its members; returns whether it has come to its end.
    Called again, it continues."""
    config = base.model_copy(update={"runs_dir": str(folder.runs)})
    space = Scheduler(config).space
    results = train_pbt(config)
    if any(result.reason == "interrupted" for result in results):
        return False
    settings = [_final_settings(space, result) for result in results]
    sampler = GivenSettings(space, settings)
    with StudyStore.open(folder, storage, base, sampler, directions=["maximize"]) as store:
        while (claim := store.claim("population", len(results))) is not None:
            claim.suggest(space.suggest)
            _record(claim, results[claim.number], folder)
    return True


def _final_settings(space: SearchSpace, result: Result) -> dict[str, Any]:
    recorded = recorded_config(RunDir(result.path))
    return {dimension.key: dimension.to_param(value_at(recorded, dimension.key)) for dimension in space.dimensions}


def _record(claim: Claim, result: Result, folder: StudyFolder) -> None:
    run = result.path.relative_to(folder.path) if result.path.is_relative_to(folder.path) else result.path
    value = result.evaluation
    about = {"value": value, "run": str(run), "seconds": result.seconds, "steps": result.total_steps, "reason": ""}
    claim.set_part(PART, about)
    claim.set_attribute(SECONDS, result.seconds)
    claim.set_attribute(LINEAGE, _rounds_of(result.path.name, read_lineage(folder.runs)))
    if value is None:
        claim.fail("the member was never evaluated")
    else:
        claim.finish(value)


def _rounds_of(member: str, rounds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """When a member became a copy, and of which one."""
    return [
        {"step": one["step"], "from": copy["from"], "settings": copy["settings"]}
        for one in rounds for copy in one["copies"] if copy["member"] == member
    ]  # fmt: skip


class GivenSettings(BaseSampler):
    """Gives each trial the parameters of its number."""

    def __init__(self, space: SearchSpace, params: Sequence[dict[str, Any]]) -> None:
        self._space, self._params = space, params

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._space.distributions

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        return self._params[trial.number]

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return RandomSampler(seed=0).sample_independent(study, trial, param_name, param_distribution)
