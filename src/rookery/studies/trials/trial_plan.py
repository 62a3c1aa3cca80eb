"""What a trial consists of: one or several runs, and how their values become the value of the trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rookery.config import RunConfig
from rookery.training.storage.run_dir import RunDir

TRIAL_NAME = "trial-{number:05d}"

Values = Mapping[str, float]  # of the parts of one trial, by the part's name, in the order in which they were trained


@dataclass(frozen=True)
class TrialPart:
    """One run of a trial, such as that of one seed or one fold."""

    name: str  # "seed-0", "fold-3", "verify-1000"
    config: RunConfig  # complete; its `name` and `runs_dir` are those of the run
    run_name: str  # "trial-00012-seed-0"


class TrialPlan(Protocol):
    """Which runs a trial has, and what they are worth. Larger values are better.

    The `config` of each method is that of the trial, with its settings; its `name` is that of the trial, such as
    "trial-00012", and its `runs_dir` the folder of the study's runs. `part_of` makes a part of it.
    """

    def first_parts(self, config: RunConfig) -> list[TrialPart]:
        """The runs that every trial gets. They may be trained in any order."""

    def more_parts(self, config: RunConfig, values: Values, others: Sequence[Values]) -> list[TrialPart]:
        """Further runs, once those so far have these values; none if the trial is complete. `others` are the values of
        the finished trials, by their numbers. The answer depends on these arguments alone."""

    def verify_parts(self, config: RunConfig) -> list[TrialPart]:
        """The runs with held-out seeds (or folds) by which a trial is verified."""

    def value(self, part: TrialPart, run: RunDir) -> float:
        """The value of a run that has ended. NaN is a failure."""

    def total(self, values: Values) -> float:
        """The value of a trial, or of its verification."""

    def interval(self, values: Values) -> tuple[float, float] | None:
        """The 95 % confidence interval of the total; None if there is too little to say."""


def trial_name(number: int) -> str:
    """
    >>> trial_name(12)
    'trial-00012'
    """
    return TRIAL_NAME.format(number=number)


def part_of(config: RunConfig, name: str, **changes: Any) -> TrialPart:
    """The part of this name of the trial that `config` is of; `changes` are other values of keys, such as `seed=1`."""
    run_name = f"{config.name}-{name}"
    return TrialPart(name, config.model_copy(update={**changes, "name": run_name}), run_name)
