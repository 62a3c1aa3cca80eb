"""A seat: what one player of a two-player game observes and does.

A *duel* is a world in its two-player form: one env has both players. Observations and rewards are the first player's,
the second player's observation is in `infos["obs_agent_two"]`, the action space holds both players' actions one after
the other, and the final info of a game has `winner`: 1 if the first player won, 0 for a draw, -1 if it lost. If the
infos have an `action_mask`, it holds both players' masks, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.config import Opponent, Phase, RunConfig
from rookery.errors import WorldError
from rookery.learners.registry import specs
from rookery.worlds import registry

SCRIPTS = {"none": "none", "weak": "weak", "basic_weak": "weak", "strong": "strong", "basic_strong": "strong"}
VIEW = "obs_agent_two"  # the info with the second player's observation
RETURN_TWO = "return_agent_two"  # the info with the second player's return, if the world tells it


@dataclass(frozen=True)
class Seat:
    """The observation space and action space of one of two players."""

    observation_space: spaces.Space
    action_space: spaces.Space

    @property
    def nothing(self) -> np.ndarray:
        """The action that does nothing: zeros, or the first discrete action."""
        start = getattr(self.action_space, "start", 0)
        return np.zeros(self.action_space.shape or (), self.action_space.dtype) + start

    def in_numbers(self, action_space: spaces.Space) -> np.ndarray | None:
        """A game's discrete actions as the continuous ones of this seat, one row each, so that an agent that has them
        can play against agents with continuous actions. None if no known game has both of these action spaces."""
        return registry.action_table(self.observation_space, self.action_space, action_space)


def seat_of(observation_space: spaces.Space, action_space: spaces.Space) -> Seat | None:
    """One player's part of a duel's spaces; None if the action space does not consist of two equal halves.

    >>> seat_of(spaces.Discrete(3), spaces.MultiDiscrete([8, 8])).action_space
    Discrete(8)
    """
    if not isinstance(action_space, (spaces.Box, spaces.MultiDiscrete)) or len(action_space.shape) != 1:
        return None
    half, rest = divmod(action_space.shape[0], 2)
    first, second = (_part(action_space, part) for part in (slice(0, half), slice(half, None)))
    return Seat(observation_space, first) if half and not rest and first == second else None


def views_in(column: Any, space: spaces.Space) -> np.ndarray:
    """The second player's observations in the shape and type of the space, from the infos' column."""
    return np.asarray(column, space.dtype).reshape(len(column), *(space.shape or ()))


def masks_of_both(masks: np.ndarray, actions: spaces.Space) -> tuple[np.ndarray, np.ndarray]:
    """The masks of the first and of the second player, whose actions are in this space. If there are masks of one
    player only, they are the first one's.

    >>> masks_of_both(np.array([True, False, False, True]), spaces.Discrete(2))
    (array([ True, False]), array([False,  True]))
    """
    one = int(np.sum(actions.nvec)) if isinstance(actions, spaces.MultiDiscrete) else int(getattr(actions, "n", 0))
    if masks.shape[-1] == one:
        return masks, np.ones_like(masks)
    if masks.shape[-1] != 2 * one:
        raise WorldError(
            f"`action_mask` of a two-player world should hold both players' masks, one after the other: {2 * one} "
            f"entries for two times {actions}, got {masks.shape[-1]}"
        )
    return masks[..., :one], masks[..., one:]


def _part(space: spaces.Box | spaces.MultiDiscrete, part: slice) -> spaces.Space:
    if isinstance(space, spaces.Box):
        return spaces.Box(space.low[part], space.high[part], dtype=space.dtype.type)
    counts, starts = space.nvec[part], space.start[part]
    if len(counts) == 1:
        return spaces.Discrete(int(counts[0]), start=int(starts[0]))
    return spaces.MultiDiscrete(counts, start=starts)


OWN_AGENTS = ("self", "latest", "archive")  # opponents that are copies of the run's own agent
NO_STEP_LIMIT = 10**15  # `steps` of a run whose length is in episodes: more than it will ever make


def all_opponents(config: RunConfig) -> list[Opponent]:
    return [opponent for phase in config.all_phases for opponent in phase.opponents]


def needs_two_player_form(config: RunConfig) -> bool:
    """Whether any opponent is a policy, so that the envs must be of the world's two-player form."""
    return any(opponent.who.lower() not in SCRIPTS for opponent in all_opponents(config))


def with_length_in_episodes(config: RunConfig) -> RunConfig:
    """Without a limit of steps, if the user gave `episodes` and no `steps`. A recipe's steps do not count then."""
    if config.episodes is None or "steps" in config.model_fields_set:
        return config
    return config.model_copy(update={"steps": NO_STEP_LIMIT})


def with_steps_of_phases(config: RunConfig) -> RunConfig:
    """`steps` is the length of all phases, if these have an end and the user did not give `steps`."""
    phases = config.phases
    if not phases or not phases[-1].ends or "steps" in config.model_fields_set:
        return config
    lengths = [phase.steps for phase in phases]
    return config.model_copy(update={"steps": sum(lengths) if all(lengths) else NO_STEP_LIMIT})


def counts_episodes(phases: list[Phase]) -> bool:
    """Whether the length of all phases is in episodes."""
    return all(phase.episodes is not None for phase in phases)


def with_absolute_paths(config: RunConfig) -> RunConfig:
    """Code and opponents in files and folders by absolute paths, so that the run can be resumed from any folder."""
    lists = {key: [_absolute(name) for name in getattr(config, key)] for key in ("callbacks", "wrappers")}
    return with_opponents(config.model_copy(update={**_absolute_sections(config), **lists}), _absolute)


def with_opponents(config: RunConfig, name_of: Callable[[str], str]) -> RunConfig:
    """With other names of all opponents: of training, evaluations and the league."""

    def named(opponents: list[Opponent]) -> list[Opponent]:
        return [opponent.model_copy(update={"who": name_of(opponent.who)}) for opponent in opponents]

    evaluation, league = config.evaluation, config.league
    changes: dict[str, Any] = {
        "opponents": named(config.opponents),
        "phases": [phase.model_copy(update={"opponents": named(phase.opponents)}) for phase in config.phases],
        "evaluation": evaluation.model_copy(update={"opponents": list(map(name_of, evaluation.opponents))}),
        "league": league.model_copy(update={"baselines": list(map(name_of, league.baselines))}),
    }
    return config.model_copy(update=changes)


def _absolute(who: str) -> str:
    path, colon, attribute = who.rpartition(":")
    if colon and path.endswith(".py"):
        return f"{Path(path).resolve()}:{attribute}"
    return str(Path(who).resolve()) if "/" in who and Path(who).is_dir() else who


def _absolute_sections(config: RunConfig) -> dict[str, Any]:
    """The learners' sections, in which networks and schedules may be code in files."""
    changed = {}
    for name in specs():
        options = getattr(config, name)
        code = {key: _absolute(value) for key, value in options if isinstance(value, str) and ".py:" in value}
        if code:
            changed[name] = options.model_copy(update=code)
    return changed
