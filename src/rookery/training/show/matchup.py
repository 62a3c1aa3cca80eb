"""A game for two to look at: an agent against an opponent that was named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.learners.agent import Agent
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.resolve.seats import VIEW, Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of, is_two_player, spaces
from rookery.worlds import registry

SCRIPT_TITLES = {"weak": "weak script", "strong": "strong script", "none": "nobody"}
ONLY = np.zeros(1, np.int64)  # the number of the only game there is


@dataclass(frozen=True)
class Rivals:
    """Who is seen against whom. `actions` says what each of the agent's choices stands for, if the game wants that."""

    names: tuple[str, str]
    opponent: Player | Script
    seat: Seat
    actions: np.ndarray | None


def against(world: World, agent: Agent, name: str, who: str, runs_dir: str | Path) -> tuple[World, Rivals]:
    """The two-player form of a world, and who plays there: an agent, and the opponent `who`."""
    duel = duel_of(world)
    seat = seat_of(*spaces(duel))
    assert seat is not None  # or it would be no duel
    opponent = find_player(who, seat, runs_dir)
    seated(agent, name, seat)  # or it says why it cannot play there
    actions = None if agent.action_space == seat.action_space else seat.in_numbers(agent.action_space)
    script = opponent.parameter if isinstance(opponent, Script) else "free"
    if script != "free" or is_two_player(duel):  # other worlds may have no scripts, nor a word for that
        duel = replace(duel, env_kwargs={**duel.env_kwargs, "player_two": script})
    return duel, Rivals((_title(name), _title(opponent.name)), opponent, seat, actions)


def _title(name: str) -> str:
    """A player's name for people who watch."""
    shipped = registry.agents().get(name)
    return shipped.agent.title if shipped and shipped.agent else SCRIPT_TITLES.get(name, name)


def usual_opponent(world: World) -> str:
    """Whom to show an agent against if nobody was named."""
    spec = registry.by_source(world.source)
    return spec.two_player.usual_opponent if spec and spec.two_player else "none"


def needs_opponent(world: World, agent: Agent) -> bool:
    """Whether the agent plays one side of a world that holds both."""
    return is_two_player(world) and spaces(world)[1] != agent.action_space


class Versus(gym.Wrapper):
    """A game for two as an env for the first player."""

    def __init__(self, env: gym.Env, rivals: Rivals) -> None:
        super().__init__(env)
        self._rivals, self._view = rivals, np.zeros(0)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._look(info)
        if not isinstance(self._rivals.opponent, Script):
            self._rivals.opponent.begin(ONLY)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        rivals = self._rivals
        mine = action if rivals.actions is None else rivals.actions[action]
        theirs = rivals.seat.nothing
        if not isinstance(rivals.opponent, Script):
            theirs = rivals.opponent.act(self._view[None], ONLY)[0]
        observation, reward, terminated, truncated, info = self.env.step(np.hstack([mine, theirs]))
        self._look(info)
        return observation, reward, terminated, truncated, info

    def _look(self, info: Mapping[str, Any]) -> None:
        self._view = np.asarray(info[VIEW])
