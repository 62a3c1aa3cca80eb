"""The parts of a configuration that are about phases, opponents and the league."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rookery.config.layers import names_in
from rookery.worlds import registry

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0)]


class ConfigTable(BaseModel):
    """A part of the configuration. Keys that do not exist are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Opponent(ConfigTable):
    """Someone to play against."""

    who: str = Field(
        min_length=1,
        description="none (stands still), a script of the world such as weak or strong, self (a copy of the agent as "
        "it is when the game begins), latest (as it was at the last checkpoint), archive (drawn from the league), "
        f"{registry.default_game().name} (the agent that comes with rookery), a run, a checkpoint's folder, or "
        "file.py:Agent.",
    )
    weight: float = Field(1.0, gt=0, description="How often it is drawn, beside the other opponents' weights.")
    deterministic: bool = Field(False, description="An agent's likeliest actions rather than drawn ones.")


class Variant(ConfigTable):
    """One of several sets of options that a world is mixed of."""

    options: dict[str, Any] = Field({}, description="Options of the world, such as {mode = 'shooting'}.")
    weight: float = Field(1.0, gt=0, description="How often it is drawn, beside the other variants' weights.")


class Shaping(ConfigTable):
    """How much one of the world's infos counts as a reward: the same for some episodes, then along a straight line."""

    start: float = Field(0.0, description="Weight at the start of the phase.")
    final: float | None = Field(None, description="Weight in the end; left out, as at the start.")
    hold: int = Field(0, ge=0, description="Episodes of the phase for which the weight stays as it was at the start.")
    fall: int = Field(0, ge=0, description="Episodes over which it then goes to its final value.")


class Until(ConfigTable):
    """A condition that ends a phase."""

    win_rate: float = Field(gt=0, le=1, description="Share of games to be won.")
    games: Count = Field(100, description="Over how many of the latest games of the phase.")


class Phase(ConfigTable):
    """A stretch of a run. It ends after so many episodes or steps, or on a condition; whichever comes first. The last
    phase may have no end of its own: it lasts as long as the run."""

    name: str | None = Field(None, min_length=1, description="What to call it; left out, its number.")
    episodes: Count | None = Field(None, description="Length in episodes, counted over all envs.")
    steps: Count | None = Field(None, description="Length in steps, counted over all envs.")
    until: Until | None = Field(None, description="Ends the phase once enough games are won.")
    options: dict[str, Any] = Field(
        {}, description="Options of the world during this phase, such as {mode = 'defense'}."
    )
    mixture: list[Variant] = Field(
        [], description="Further options, of which each episode gets one set, drawn by weight."
    )
    opponents: list[Opponent] = Field(
        [],
        description="Whom to play against; each episode has one, drawn by weight.",
        json_schema_extra={"words": "a name, or a list of names or tables"},
    )
    shaping: dict[str, Shaping] = Field(
        {},
        description="Infos of the world that count as rewards, and how much.",
        json_schema_extra={"words": "a table with a number or a table for each info"},
    )
    learner: dict[str, Any] = Field({}, description="Options of the learner that differ in this phase.")
    clear_replay: bool = Field(True, description="Begin with an empty replay buffer (not in the first phase).")

    @property
    def ends(self) -> bool:
        """Whether it has an end of its own."""
        return not (self.episodes is None and self.steps is None and self.until is None)

    @field_validator("opponents", mode="before")
    @classmethod
    def _opponents_by_name(cls, value: Any) -> Any:
        return opponents_by_name(value)

    @field_validator("shaping", mode="before")
    @classmethod
    def _constant_weights(cls, value: Any) -> Any:
        """A bare number is a weight that never changes."""
        if not isinstance(value, dict):
            return value
        numbers = (int, float)
        return {key: {"start": float(item)} if isinstance(item, numbers) else item for key, item in value.items()}


def opponents_by_name(value: Any) -> Any:
    """A name stands for an opponent, and names may have commas between them.

    >>> opponents_by_name("weak, self"), opponents_by_name(["self", {"who": "strong", "weight": 2.0}])
    ([{'who': 'weak'}, {'who': 'self'}], [{'who': 'self'}, {'who': 'strong', 'weight': 2.0}])
    """
    value = [value] if isinstance(value, dict) else names_in(value)
    if isinstance(value, (list, tuple)):
        return [{"who": item} if isinstance(item, str) else item for item in value]
    return value


class LeagueOptions(ConfigTable):
    """Past agents that are kept to play against, and how they are drawn (opponent `archive`)."""

    every: Count | None = Field(
        None, description="Steps after which the agent enters the archive; left out, twenty times in a run."
    )
    enter: Literal["schedule", "when better"] = Field(
        "schedule", description="Enter each time, or only if the agent then beats the archive in its latest games."
    )
    win_rate: float = Field(0.6, gt=0, lt=1, description="What counts as beating the archive.")
    size: Count = Field(50, description="How many agents are kept; of more, the lowest rated one leaves.")
    pfsp: Share = Field(0.7, description="Share of opponents drawn by how hard they are to beat.")
    random: Share = Field(0.2, description="Share drawn from all alike.")
    baseline: Share = Field(0.1, description="Share of games against the baselines.")
    baselines: list[str] = Field([], description="Who these are; left out, the scripts of the world.")
    hardness: float = Field(2.0, ge=0, description="Power of (1 - win rate) by which PFSP draws.")

    @model_validator(mode="after")
    def _someone_is_drawn(self) -> LeagueOptions:
        if self.pfsp + self.random + self.baseline <= 0:
            raise ValueError("`league`: one of `pfsp`, `random` and `baseline` should be above 0")
        return self
