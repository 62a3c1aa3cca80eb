"""Which plan the trials of a study follow."""

from __future__ import annotations

from rookery.config import RunConfig
from rookery.studies.trials.seed_plan import SeedPlan
from rookery.studies.trials.trial_plan import TrialPlan
from rookery.worlds import registry
from rookery.worlds.built_in_worlds import BACKTEST
from rookery.worlds.world_spec import load_object

CROSS_VALIDATION = "rookery.studies.trials.market_plan:CrossValidationPlan"


def plan_for(config: RunConfig) -> TrialPlan:
    """The plan of a study: by cross-validation in market worlds, else by seeds. `config` is that of the study, with its
    section `search`."""
    if metric_of(config) == "sharpe_difference":
        return load_object(CROSS_VALIDATION)(config.search)
    return SeedPlan(config.search)


def metric_of(config: RunConfig) -> str:
    """The value of a run: what `search.metric` says, or what suits the world."""
    if config.search.metric != "auto":
        return config.search.metric
    return "sharpe_difference" if is_market(config) else "evaluation"


def is_market(config: RunConfig) -> bool:
    """Whether the world trades on bars, so that its trials are cross-validated."""
    spec = registry.get(config.world) or registry.by_source(config.world)
    return spec is not None and spec.report == BACKTEST
