"""The section `search` of a configuration: what a study varies, what it may cost, and how its trials are compared."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from rookery.config.curriculum_schema import ConfigTable, Count
from rookery.gate import Inside, Reaches

Runs = Annotated[int, Field(ge=1, le=1000)]  # of one trial, which are planned as a list
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_in(value: Any) -> Any:
    """A length of time as seconds, from a number or a text such as "20h", "90m", "1.5d".

    >>> seconds_in("20h"), seconds_in(30), seconds_in("90 m")
    (72000.0, 30, 5400.0)
    """
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(\d{1,20}(?:\.\d+)?)\s*([smhd]?)", value.strip())
    if found is None:
        raise ValueError(f'a length of time is a number of seconds, or a text such as "20h" or "90m", got {value!r}')
    return float(found[1]) * UNITS[found[2]]


def bytes_in(value: Any) -> Any:
    """An amount of memory as bytes, from a number or a text such as "4GB".

    >>> bytes_in("4GB"), bytes_in("512 MB"), bytes_in(7)
    (4294967296, 536870912, 7)
    """
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(\d{1,20}(?:\.\d+)?)\s*([KMGT]?)i?B?", value.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(f'an amount of memory is a number of bytes, or a text such as "4GB", got {value!r}')
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


Seconds = Annotated[float, Field(gt=0), BeforeValidator(seconds_in)]
Bytes = Annotated[int, Field(gt=0), BeforeValidator(bytes_in)]


class PopulationOptions(ConfigTable):
    """Trials that train side by side as one program, and population-based training."""

    size: Count = Field(1, description="Trials that train side by side as one program; 1 trains them one by one.")
    exploit_every: Count | None = Field(
        None,
        description="Steps after which population-based training replaces the worst members by changed copies of the "
        "best; if omitted, members keep their settings.",
    )
    quantile: float = Field(0.25, gt=0, le=0.5, description="Share of members that are replaced, and that are copied.")
    perturb: float = Field(1.2, gt=1, description="Factor by which copied numbers are multiplied or divided.")
    resample: float = Field(0.25, ge=0, le=1, description="Probability that a copied number is drawn anew instead.")


class SearchOptions(ConfigTable):
    """A search: what varies between trials, and how trials are compared."""

    n_trials: Count = Field(100, description="Number of trials of the study, with those of earlier searches.")
    study_name: Annotated[str | None, Inside("its pattern")] = Field(
        None,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}$",
        description="Name of the study; if omitted, made of world and learner. A study of that name is continued.",
    )
    studies_dir: Annotated[str, Inside("a recorded study is where it was found")] = Field(
        "studies", min_length=1, description="Folder that holds one folder per study."
    )
    storage: Annotated[str | None, Reaches("network")] = Field(
        None,
        min_length=1,
        description="Where trials are recorded: a SQLite file, or the URL of a database such as "
        "postgresql://user@host/name; if omitted, study.db in the study's folder.",
    )
    workers: Count | None = Field(
        None, description="Processes that train trials at the same time; if omitted, by cores and memory."
    )
    timeout: Seconds | None = Field(
        None, description='Time after which no trial is begun and running ones are stopped, such as "20h".'
    )
    sampler: Literal["tpe", "gp", "cmaes", "random", "grid"] = Field(
        "tpe", description="How the settings of a trial are chosen, by Optuna."
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the sampler.")
    space: Annotated[dict[str, Any], Reaches("code", "files", "network")] = Field(
        {},
        description="What varies: for each key of the configuration log, uniform, int, choice or value; if omitted, a "
        "space of the learner's.",
    )
    constraints: Annotated[list[str], Inside("arithmetic that rookery computes itself")] = Field(
        [], description='Conditions on the settings of a trial, such as "ppo.epochs * ppo.minibatches <= 64".'
    )
    enqueue: Annotated[list[dict[str, Any]], Reaches("code", "files", "network")] = Field(
        [], description="Settings that are tried first; the configuration's own are always among them."
    )
    seeds: Runs = Field(3, description="Largest number of seeds of a trial.")
    first_seeds: Runs = Field(1, description="Seeds that every trial gets; more only while it may still be the best.")
    verify: int = Field(
        3,
        ge=0,
        le=1000,
        description="Number of best trials that are trained again with held-out seeds; 0 verifies none.",
    )
    verify_seeds: Runs = Field(5, description="Held-out seeds of each of them.")
    metric: Literal["auto", "best_evaluation", "evaluation", "sharpe_difference"] = Field(
        "auto",
        description="Value of a run: the mean return of its last evaluation, of its best one (biased upwards), or the "
        "Sharpe ratio less that of holding. auto is sharpe_difference in market worlds, else evaluation.",
    )
    folds: Runs | None = Field(
        None, description="Groups of combinatorial purged cross-validation of a market world; if omitted, 4."
    )
    embargo: int = Field(50, ge=0, description="Bars between a test part of a fold and what follows it.")
    pruner: Literal["none", "median", "asha", "hyperband", "wilcoxon"] = Field(
        "none", description="Stop trials early that look bad, by Optuna; none trains all of them to the end."
    )
    objectives: Literal["value", "value+seconds"] = Field(
        "value",
        description="What is optimised: the value, or the value and the seconds of training, as a Pareto front.",
    )
    trial_timeout: Seconds | None = Field(None, description='Longest time of a trial, such as "30m".')
    trial_memory: Bytes | None = Field(None, description='Most memory of a trial, such as "4GB".')
    trial_gpu_memory: Bytes | None = Field(None, description='Most GPU memory of a trial, such as "8GB".')
    max_failures: Count = Field(5, description="The search ends if so many trials fail and none has finished.")
    population: PopulationOptions = Field(
        default_factory=PopulationOptions, description="Trials that train side by side."
    )
