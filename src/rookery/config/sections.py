"""The sections of a configuration about phases, opponents and the league, the cluster and the search."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from rookery.config.layers import split_names
from rookery.errors import ConfigError
from rookery.gate import Inside, Reaches
from rookery.learners.learner_spec import key
from rookery.worlds import registry

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0)]
WorldOptions = Annotated[dict[str, Any], Reaches("code", "files", "network", when_playing=True)]


class ConfigTable(BaseModel):
    """A section or table of the configuration. Unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Opponent(ConfigTable):
    """An opponent."""

    who: Annotated[str, Reaches("code", "files", "network", when_playing=True)] = Field(
        min_length=1,
        description="none (stands still), a script of the world such as weak or strong, self (a copy of the agent at "
        "the start of the game), latest (the agent at the last checkpoint), archive (sampled from the league), "
        f"{registry.default_game().name} (the agent that comes with rookery), a run, a checkpoint's folder, or "
        "file.py:Agent.",
    )
    weight: float = key(1.0, "How often it is sampled, relative to the other opponents' weights.", gt=0)
    deterministic: bool = key(False, "The opponent takes deterministic actions instead of sampled ones.")


class Variant(ConfigTable):
    """One of several sets of world options, of which each episode gets one."""

    options: WorldOptions = key({}, "Options of the world, such as {mode = 'shooting'}.")
    weight: float = key(1.0, "How often it is sampled, relative to the other variants' weights.", gt=0)


class Shaping(ConfigTable):
    """The weight of one of the world's infos as a reward: constant for `hold` episodes, then linear."""

    start: float = key(0.0, "Weight at the start of the phase.")
    final: float | None = key(None, "Final weight; if omitted, the same as at the start.")
    hold: int = key(0, "Number of episodes for which the weight stays at `start`.", ge=0)
    fall: int = key(0, "Number of episodes over which it then changes linearly to `final`.", ge=0)


class Until(ConfigTable):
    """A condition that ends a phase."""

    win_rate: float = Field(gt=0, le=1, description="Win rate that ends the phase.")
    games: Count = key(100, "Number of latest games over which the win rate is computed.")


class Phase(ConfigTable):
    """A phase of the curriculum. It ends after `episodes` or `steps`, or on the condition `until`, whichever comes
    first. The last phase may have no end: then it lasts as long as the run."""

    name: Annotated[str | None, Inside("it is only shown")] = key(
        None, "Name of the phase; if omitted, its number.", min_length=1
    )
    episodes: Count | None = key(None, "Length in episodes, counted over all envs.")
    steps: Count | None = key(None, "Length in steps, counted over all envs.")
    until: Until | None = key(None, "Ends the phase once enough games are won.")
    options: WorldOptions = key({}, "Options of the world during this phase, such as {mode = 'defense'}.")
    mixture: list[Variant] = key([], "Further sets of options; each episode gets one, sampled by weight.")
    opponents: list[Opponent] = key(
        [], "Opponents of the phase; each episode has one, sampled by weight.",
        json_schema_extra={"words": "a name, or a list of names or tables"},
    )  # fmt: skip
    shaping: Annotated[dict[str, Shaping], Inside("its keys are names of infos")] = key(
        {}, "Infos of the world that are added to the reward, with their weights.",
        json_schema_extra={"words": "a table that maps each info to a number or a table"},
    )  # fmt: skip
    learner: Annotated[dict[str, Any], Reaches("code")] = key({}, "Options of the learner that differ in this phase.")
    clear_replay: bool = key(True, "Start with an empty replay buffer (not in the first phase).")

    @property
    def ends(self) -> bool:
        """Whether the phase has an end."""
        return not (self.episodes is None and self.steps is None and self.until is None)

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_by_name(cls, value: Any) -> Any:
        return opponents_by_name(value)

    @field_validator("shaping", mode="before")
    @classmethod
    def _constant_weights(cls, value: Any) -> Any:
        """A number stands for a constant weight."""
        if not isinstance(value, dict):
            return value
        numbers = (int, float)
        return {key: {"start": float(item)} if isinstance(item, numbers) else item for key, item in value.items()}


def opponents_by_name(value: Any) -> Any:
    """A name stands for an opponent; a string may hold several names, separated by commas.

    >>> opponents_by_name("weak, self"), opponents_by_name(["self", {"who": "strong", "weight": 2.0}])
    ([{'who': 'weak'}, {'who': 'self'}], [{'who': 'self'}, {'who': 'strong', 'weight': 2.0}])
    """
    value = [value] if isinstance(value, dict) else split_names(value)
    if isinstance(value, (list, tuple)):
        return [{"who": item} if isinstance(item, str) else item for item in value]
    return value


class LeagueOptions(ConfigTable):
    """Archive of past agents, and how opponents are sampled from it (opponent `archive`)."""

    every: Count | None = key(
        None, "Steps between two agents that enter the archive; if omitted, twenty agents per run."
    )
    enter: Literal["schedule", "when better"] = key(
        "schedule", "Enter each time, or only if the agent beats the archive in its latest games."
    )
    win_rate: float = key(0.6, "Win rate that counts as beating the archive.", gt=0, lt=1)
    size: Count = key(50, "Maximum number of agents; the lowest rated one is removed.")
    pfsp: Share = key(0.7, "Share of opponents sampled by PFSP: the harder to beat, the more often.")
    random: Share = key(0.2, "Share of opponents sampled uniformly.")
    baseline: Share = key(0.1, "Share of games against the baselines.")
    baselines: Annotated[list[str], Reaches("code", "files", "network", when_playing=True)] = key(
        [], "Names of the baselines; if omitted, the scripts of the world."
    )
    hardness: float = key(2.0, "Exponent of (1 - win rate) in PFSP sampling.", ge=0)

    @model_validator(mode="after")
    def _shares_are_positive(self) -> LeagueOptions:
        if self.pfsp + self.random + self.baseline <= 0:
            raise ValueError("`league`: one of `pfsp`, `random` and `baseline` should be > 0")
        return self


class ClusterOptions(ConfigTable):
    """Where the envs of a run step."""

    kind: Literal["local", "ray"] = key(
        "local", "Where envs step. local: on this machine; ray: on the nodes of a Ray cluster, each with its share of "
        "them, for learners on a CPU.",
    )  # fmt: skip
    address: Annotated[str | None, Reaches("network")] = key(
        None, "Address of the cluster, HOST:PORT, or auto for the one that this machine is part of; if omitted, one "
        "is started on this machine and ends with the run.", min_length=1,
    )  # fmt: skip
    nodes: Count | None = key(
        None, "Number of collectors, which step a share of the envs each; if omitted, one for every node, also for "
        "those that join during the run. The numbers of a ppo run do not depend on it as long as it stays.",
    )  # fmt: skip
    timeout: float = key(
        600.0, "Seconds after which a collector that has not returned its rollout, or a learner that has not sent its "
        "gradient, is replaced.", gt=0,
    )  # fmt: skip
    learners: Count = key(
        1, "For ppo: processes of the cluster that compute the gradients of an update together, the run's own among "
        "them. The weights are those of one learner, to float tolerance.",
    )  # fmt: skip
    learner_device: Literal["cpu", "cuda"] = key(
        "cpu", "For ppo: where gradients are computed. cuda: every learner has a GPU of its own, and NCCL sums "
        "gradients between them. The policy acts on CPUs in any case.",
    )  # fmt: skip
    evaluate_apart: bool = key(
        False, "Evaluate the agent in a process of its own on the cluster, with a copy of its weights, while the run "
        "continues. Results are recorded when they arrive, for the step of their weights.",
    )  # fmt: skip
    asynchronous: bool = key(
        False, "For ppo: collectors do not wait for the learner, which takes rollouts as they arrive and corrects by "
        "V-trace what older weights did. Numbers then depend on arrival. Collectors of off-policy learners never "
        "wait, with and without it.",
    )  # fmt: skip
    max_staleness: Count | None = key(
        None, "Where collectors do not wait: updates of the weights that may be made between sending them to a "
        "collector and learning from the steps that it made with them. Older steps are discarded. If omitted, 256, "
        "and 4 for ppo.",
    )  # fmt: skip


def leads(options: ClusterOptions) -> bool:
    """Whether the run's learner shares its updates with others, or has a GPU make them."""
    return options.learners > 1 or options.learner_device == "cuda"


def check_local(options: ClusterOptions) -> None:
    """Refuse what only a cluster reads in a configuration that asks for none. One that names `kind` may have it all the
    same: `--on local` is for the file of a run on a cluster."""
    given = options.model_fields_set
    for name in ("address", "nodes", "timeout", "max_staleness"):
        if name in given and "kind" not in given and getattr(options, name) is not None:
            raise needs_cluster(name)


def needs_cluster(key: str) -> ConfigError:
    """The error for a key of this section in a run on one machine."""
    return ConfigError(f'`cluster.{key}` is for runs on a cluster: give `cluster.kind` = "ray" too')


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

    size: Count = key(1, "Trials that train side by side as one program; 1 trains them one by one.")
    exploit_every: Count | None = key(
        None, "Steps after which population-based training replaces the worst members by changed copies of the best; "
        "if omitted, members keep their settings.",
    )  # fmt: skip
    quantile: float = key(0.25, "Share of members that are replaced, and that are copied.", gt=0, le=0.5)
    perturb: float = key(1.2, "Factor by which copied numbers are multiplied or divided.", gt=1)
    resample: float = key(0.25, "Probability that a copied number is drawn again instead.", ge=0, le=1)


class SearchOptions(ConfigTable):
    """A search: what varies between trials, and how trials are compared."""

    n_trials: Count = key(100, "Number of trials of the study, with those of earlier searches.")
    study_name: Annotated[str | None, Inside("its pattern")] = key(
        None, "Name of the study; if omitted, made of world and learner. A study of that name is continued.",
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=,@-]{0,99}$",
        json_schema_extra={"words": "a folder name of letters, digits and any of _ . + = , @ -"},
    )  # fmt: skip
    studies_dir: Annotated[str, Inside("a recorded study is where it was found")] = key(
        "studies", "Folder that contains one folder per study.", min_length=1
    )
    storage: Annotated[str | None, Reaches("network")] = key(
        None, "Where trials are recorded: a SQLite file, or the URL of a database such as "
        "postgresql://user@host/name; if omitted, study.db in the study's folder.", min_length=1,
    )  # fmt: skip
    jobs: Count | None = key(None, "Trials that are trained at the same time; if omitted, by cores and memory.")
    timeout: Seconds | None = key(
        None, 'Time after which no trial is begun and running ones are stopped, such as "20h".'
    )
    sampler: Literal["tpe", "gp", "cmaes", "random", "grid"] = key(
        "tpe", "How the settings of a trial are chosen, by Optuna."
    )
    seed: int = key(0, "Seed of the sampler.", ge=0, lt=2**32)
    space: Annotated[dict[str, Any], Reaches("code", "files", "network")] = key(
        {}, "What varies: for each key of the configuration log, uniform, int, choice or value; if omitted, a space "
        "of the learner's.",
    )  # fmt: skip
    constraints: Annotated[list[str], Inside("arithmetic that rookery computes itself")] = key(
        [], 'Conditions on the settings of a trial, such as "ppo.epochs * ppo.minibatches <= 64".'
    )
    enqueue: Annotated[list[dict[str, Any]], Reaches("code", "files", "network")] = key(
        [], "Settings that are tried first; the configuration's own are always among them."
    )
    seeds: Runs = key(3, "Largest number of seeds of a trial.")
    first_seeds: Runs = key(1, "Seeds that every trial gets; more only while it may still be the best.")
    verify: int = key(
        3, "Number of best trials that are trained again with held-out seeds; 0 verifies none.", ge=0, le=1000
    )
    verify_seeds: Runs = key(5, "Held-out seeds of each of them.")
    metric: Literal["auto", "best_evaluation", "evaluation", "sharpe_difference"] = key(
        "auto", "Value of a run: the mean return of its last evaluation, of its best one (biased upwards), or the "
        "Sharpe ratio less that of holding. auto is sharpe_difference in market worlds, else evaluation.",
    )  # fmt: skip
    folds: Runs | None = key(None, "Groups of combinatorial purged cross-validation of a market world; if omitted, 4.")
    embargo: int = key(
        50, "Bars between a test part of a fold and what follows it; more if the features need it.", ge=0
    )
    pruner: Literal["none", "median", "asha", "hyperband", "wilcoxon"] = key(
        "none", "Stop trials early that look bad, by Optuna; none trains all of them to the end."
    )
    objectives: Literal["value", "value+seconds"] = key(
        "value", "What is optimised: the value, or the value and the seconds of training, as a Pareto front."
    )
    trial_timeout: Seconds | None = key(None, 'Longest time of a trial, such as "30m".')
    trial_memory: Bytes | None = key(None, 'Most memory of a trial, such as "4GB".')
    trial_gpu_memory: Bytes | None = key(None, 'Most GPU memory of a trial, such as "8GB".')
    max_failures: Count = key(5, "The search ends if so many trials fail and none has finished.")
    population: PopulationOptions = Field(
        default_factory=PopulationOptions, description="Trials that train side by side."
    )
