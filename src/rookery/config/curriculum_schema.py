"""The sections of a configuration about phases, opponents and the league."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rookery.config.layers import split_names
from rookery.gate import Inside, Reaches
from rookery.worlds import registry

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0)]
WorldOptions = Annotated[dict[str, Any], Reaches("code", "files", "network", when_playing=True)]


class ConfigTable(BaseModel):
    """A section or table of the configuration. Unknown keys are refused."""

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
    weight: float = Field(1.0, gt=0, description="How often it is sampled, relative to the other opponents' weights.")
    deterministic: bool = Field(False, description="The opponent takes deterministic actions instead of sampled ones.")


class Variant(ConfigTable):
    """One of several sets of world options, of which each episode gets one."""

    options: WorldOptions = Field({}, description="Options of the world, such as {mode = 'shooting'}.")
    weight: float = Field(1.0, gt=0, description="How often it is sampled, relative to the other variants' weights.")


class Shaping(ConfigTable):
    """The weight of one of the world's infos as a reward: constant for `hold` episodes, then linear."""

    start: float = Field(0.0, description="Weight at the start of the phase.")
    final: float | None = Field(None, description="Final weight; if omitted, the same as at the start.")
    hold: int = Field(0, ge=0, description="Number of episodes for which the weight stays at `start`.")
    fall: int = Field(0, ge=0, description="Number of episodes over which it then changes linearly to `final`.")


class Until(ConfigTable):
    """A condition that ends a phase."""

    win_rate: float = Field(gt=0, le=1, description="Win rate that ends the phase.")
    games: Count = Field(100, description="Number of latest games over which the win rate is computed.")


class Phase(ConfigTable):
    """A phase of the curriculum. It ends after `episodes` or `steps`, or on the condition `until`, whichever comes
    first. The last phase may have no end: then it lasts as long as the run."""

    name: Annotated[str | None, Inside("it is only shown")] = Field(
        None, min_length=1, description="Name of the phase; if omitted, its number."
    )
    episodes: Count | None = Field(None, description="Length in episodes, counted over all envs.")
    steps: Count | None = Field(None, description="Length in steps, counted over all envs.")
    until: Until | None = Field(None, description="Ends the phase once enough games are won.")
    options: WorldOptions = Field({}, description="Options of the world during this phase, such as {mode = 'defense'}.")
    mixture: list[Variant] = Field([], description="Further sets of options; each episode gets one, sampled by weight.")
    opponents: list[Opponent] = Field(
        [],
        description="Opponents of the phase; each episode has one, sampled by weight.",
        json_schema_extra={"words": "a name, or a list of names or tables"},
    )
    shaping: Annotated[dict[str, Shaping], Inside("its keys are names of infos")] = Field(
        {},
        description="Infos of the world that are added to the reward, with their weights.",
        json_schema_extra={"words": "a table that maps each info to a number or a table"},
    )
    learner: Annotated[dict[str, Any], Reaches("code")] = Field(
        {}, description="Options of the learner that differ in this phase."
    )
    clear_replay: bool = Field(True, description="Start with an empty replay buffer (not in the first phase).")

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

    every: Count | None = Field(
        None, description="Steps between two agents that enter the archive; if omitted, twenty agents per run."
    )
    enter: Literal["schedule", "when better"] = Field(
        "schedule", description="Enter each time, or only if the agent beats the archive in its latest games."
    )
    win_rate: float = Field(0.6, gt=0, lt=1, description="Win rate that counts as beating the archive.")
    size: Count = Field(50, description="Maximum number of agents; the lowest rated one is removed.")
    pfsp: Share = Field(0.7, description="Share of opponents sampled by PFSP: the harder to beat, the more often.")
    random: Share = Field(0.2, description="Share of opponents sampled uniformly.")
    baseline: Share = Field(0.1, description="Share of games against the baselines.")
    baselines: Annotated[list[str], Reaches("code", "files", "network", when_playing=True)] = Field(
        [], description="Names of the baselines; if omitted, the scripts of the world."
    )
    hardness: float = Field(2.0, ge=0, description="Exponent of (1 - win rate) in PFSP sampling.")

    @model_validator(mode="after")
    def _shares_are_positive(self) -> LeagueOptions:
        if self.pfsp + self.random + self.baseline <= 0:
            raise ValueError("`league`: one of `pfsp`, `random` and `baseline` should be > 0")
        return self
