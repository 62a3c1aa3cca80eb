"""A two-player game to show: an agent against an opponent by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.kernel.two_players import TwoPlayerWorld
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.resolve.seats import VIEW, Seat, masks_of_both, seat_of, views_in
from rookery.training.resolve.world_choice import World, duel_of, is_two_player, num_agents
from rookery.worlds import registry

SCRIPT_TITLES = {"weak": "weak script", "strong": "strong script", "none": "nobody"}
SELF = "self"  # the opponent that is the agent itself
ONLY_ENV = np.zeros(1, np.int64)  # a player numbers its envs, and here there is one


@dataclass(frozen=True)
class Matchup:
    """Both players of a game that is shown."""

    names: tuple[str, str]
    opponent: Player | Script
    seat: Seat
    action_table: np.ndarray | None  # the continuous action for each of the agent's discrete ones, if it has such


def make_matchup(world: World, agent: Agent, name: str, who: str, runs_dir: str | Path) -> tuple[World, Matchup]:
    """The two-player form of a world, and who plays there: the agent, called `name`, and the opponent `who`, which may
    be "self"."""
    game = duel_of(world)
    seat = seat_of(*game.spaces)
    assert seat is not None  # or `duel_of` would have raised
    itself = seated(agent, name, seat)  # raises if the agent does not fit
    opponent = itself if who == SELF else find_player(who, seat, runs_dir)
    table = None if agent.action_space == seat.action_space else seat.in_numbers(agent.action_space)
    script = opponent.parameter if isinstance(opponent, Script) else "free"
    if isinstance(game.source, TwoPlayerWorld) and script != "free":
        game = replace(game, source=game.source.changed(player_two=script))
    elif script != "free" or is_two_player(game):  # other worlds may have no such parameter
        game = replace(game, env_kwargs={**game.env_kwargs, "player_two": script})
    return game, Matchup((_title(name), _title(opponent.name)), opponent, seat, table)


def _title(name: str) -> str:
    """A player's name for people who watch."""
    shipped = registry.agents().get(name)
    return shipped.agent.title if shipped and shipped.agent else SCRIPT_TITLES.get(name, name)


def usual_opponent(world: World) -> str:
    """The opponent to show an agent against if none is named."""
    spec = registry.by_source(world.source)
    if spec is not None and spec.two_player is not None:
        return spec.two_player.usual_opponent
    return SELF if num_agents(world) == 2 else "none"


def needs_opponent(world: World, agent: Agent) -> bool:
    """Whether the agent plays one side of an env that takes both players' actions."""
    return num_agents(world) == 2 or (is_two_player(world) and world.spaces[1] != agent.action_space)


class OpponentWrapper(gym.Wrapper):
    """A two-player game as an env for the first player: the opponent acts inside."""

    def __init__(self, env: gym.Env, matchup: Matchup) -> None:
        super().__init__(env)
        self._matchup, self._opponent_obs = matchup, np.zeros(0)
        self._opponent_mask: np.ndarray | None = None

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        info = self._own_info(info)
        if not isinstance(self._matchup.opponent, Script):
            self._matchup.opponent.begin(ONLY_ENV)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        matchup = self._matchup
        own = action if matchup.action_table is None else matchup.action_table[action]
        other = matchup.seat.nothing
        if not isinstance(matchup.opponent, Script):
            allowed = () if self._opponent_mask is None else (self._opponent_mask[None],)
            other = matchup.opponent.act(self._opponent_obs[None], ONLY_ENV, *allowed)[0]
        observation, reward, terminated, truncated, info = self.env.step(np.hstack([own, other]))
        return observation, reward, terminated, truncated, self._own_info(info)

    def _own_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """The first player's infos; what the opponent observes, and its action mask, are kept."""
        self._opponent_obs = views_in(np.asarray(info[VIEW])[None], self._matchup.seat.observation_space)[0]
        if MASK_KEY not in info:
            return info
        both = np.asarray(info[MASK_KEY], np.bool_)
        own, self._opponent_mask = masks_of_both(both, self._matchup.seat.action_space)
        return {**info, MASK_KEY: own}
