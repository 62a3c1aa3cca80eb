"""Playing episodes to show them: for how long, the agent's actions, and how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from rookery.kernel.two_players import TwoPlayerWorld
from rookery.learners.action_spaces import mask_of, row_of
from rookery.learners.agent import Agent
from rookery.learners.observations import MASK_KEY
from rookery.training.evaluation.episodes import action_seed, episode_seed
from rookery.training.evaluation.match import WINNER, player_seed, start_seed
from rookery.training.players.agents import AgentPlayer, Player, Script, find_player, seated
from rookery.training.resolve.seats import VIEW, Seat, masks_of_both, seat_of, views_in
from rookery.training.resolve.world_choice import World, duel_of, is_two_player, num_agents
from rookery.worlds import registry

HOLD_SECONDS = 0.7  # for which the last frame of an episode is shown
WINNERS = {1: "won", -1: "lost", 0: "drawn"}


@dataclass(frozen=True)
class PlayLimits:
    """How much is shown. New episodes start until there are `episodes` of them or `enough_seconds` have been shown;
    after `max_seconds` the current episode is cut."""

    episodes: int
    enough_seconds: float
    max_seconds: float

    @classmethod
    def for_episodes(cls, episodes: int | None) -> PlayLimits:
        """A number of episodes; None for up to five, in about 10 seconds."""
        if episodes is None:
            return cls(5, enough_seconds=10.0, max_seconds=30.0)
        return cls(episodes, enough_seconds=600.0, max_seconds=600.0)


class ShownAgent:
    """An agent in some envs, by their numbers. The episodes are those of an evaluation with the same seed."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self._seed, self._dtype = seed, agent.action_space.dtype
        self._player = AgentPlayer(agent, "agent", deterministic=agent.deterministic, copy=False)

    @property
    def player(self) -> AgentPlayer:
        """Who acts; whether its actions are deterministic can be changed at any time."""
        return self._player

    def begin(self, env: int, episode: int) -> int:
        """Begin an episode, by its number; returns the seed to reset the env with."""
        self._player.begin(np.array([env]), [action_seed(self._seed, episode)])
        return episode_seed(self._seed, episode)

    def act(self, envs: Sequence[int], observations: Sequence[Any], infos: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The action for each of several envs, as `env.step` takes it."""
        batch, mask = self.batch(observations, infos)
        actions = self._player.act(batch, np.asarray(envs), mask)
        if isinstance(actions, (dict, tuple)):
            return [row_of(actions, k) for k in range(len(envs))]
        return [np.asarray(a, self._dtype) if np.ndim(a) else a for a in actions]

    def batch(self, observations: Sequence[Any], infos: Sequence[Mapping[str, Any]]) -> tuple[Any, np.ndarray | None]:
        """Observations of several envs as the agent takes them, and their action masks if there are any."""
        batch = _stacked(observations)
        masks = {MASK_KEY: _mask_column([info[MASK_KEY] for info in infos])} if MASK_KEY in infos[0] else None
        return batch, mask_of(batch, masks, self._player.action_space)


def _mask_column(masks: Sequence[Any]) -> np.ndarray:
    """One mask for each env, as a vector env's infos have them: dicts and tuples stay objects."""
    if not isinstance(masks[0], (dict, tuple)):
        return np.stack(masks)
    column = np.empty(len(masks), object)
    column[:] = masks
    return column


def _stacked(observations: Sequence[Any]) -> Any:
    first = observations[0]
    if isinstance(first, dict):
        return {name: _stacked([observation[name] for observation in observations]) for name in first}
    if isinstance(first, tuple):
        return tuple(_stacked(parts) for parts in zip(*observations, strict=True))
    return np.stack([np.asarray(observation) for observation in observations])


def outcome(info: Mapping[str, Any]) -> str:
    """How an episode ended, if its last info says so.

    >>> outcome({"winner": -1}), outcome({"is_success": True}), outcome({})
    ('lost', 'succeeded', '')
    """
    if "winner" in info:
        return WINNERS.get(int(info["winner"]), "drawn")
    for name in ("is_success", "success"):
        if name in info:
            return "succeeded" if info[name] else "failed"
    return ""


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


SCRIPT_OPTIONS = ("player_one", "player_two")


class ReplayedGame:
    """Game `number` of two players in a match with this seed: the same env seed, sides and players' seeds, and so the
    same game (see `training/evaluation/match.py`).

    Attributes:
        players: On the first and on the second side.
        winner: 1 if the one on the first side has won, 0 for a draw, -1 if it has lost; None during the game.
        views: What both see.
    """

    def __init__(self, env: gym.Env, seat: Seat, pair: tuple[Player | Script, Player | Script], seed: int, number: int):
        self.env, self.seat = env, seat
        self.players = pair[::-1] if number % 2 else pair
        self.number = number
        self._seed = seed
        self.begin()

    def begin(self) -> None:
        """Start over."""
        scripts = [player.parameter if isinstance(player, Script) else "free" for player in self.players]
        options = dict(zip(SCRIPT_OPTIONS, scripts, strict=True)) if _takes_scripts(self.env) else None
        observation, info = self.env.reset(seed=start_seed(self._seed, self.number), options=options)
        for side, player in enumerate(self.players):
            if not isinstance(player, Script):
                player.begin(ONLY_ENV, [player_seed(self._seed, self.number, side)])
        self.winner: int | None = None
        self.steps, self.returned, self.actions = 0, 0.0, [self.seat.nothing, self.seat.nothing]
        self._see(observation, info)

    def step(self) -> None:
        """One step, unless the game has ended."""
        if self.winner is not None:
            return
        space: Any = self.env.action_space
        both = np.zeros(space.shape, space.dtype).reshape(2, *(self.seat.action_space.shape or ()))
        for side, player in enumerate(self.players):
            both[side] = self.seat.nothing
            if not isinstance(player, Script):
                allowed = () if self.masks is None else (self.masks[side],)
                both[side] = player.act(self.views[side], ONLY_ENV, *allowed)[0]
        observation, reward, terminated, truncated, info = self.env.step(both.reshape(space.shape))
        self.steps, self.returned, self.actions = self.steps + 1, self.returned + float(reward), list(both)
        self._see(observation, info)
        if terminated or truncated:
            self.winner = int(np.sign(info[WINNER]))

    def _see(self, observation: Any, info: dict[str, Any]) -> None:
        """Keep what both players see, and what they may do."""
        space = self.seat.observation_space
        self.views = [np.asarray(observation, space.dtype)[None], views_in(np.asarray(info[VIEW])[None], space)]
        self.masks: tuple[np.ndarray, np.ndarray] | None = None
        if MASK_KEY in info:
            self.masks = masks_of_both(np.asarray(info[MASK_KEY], np.bool_)[None], self.seat.action_space)


def _takes_scripts(env: gym.Env) -> bool:
    """Whether the world has scripts; if so, every game must say that no player is scripted."""
    try:
        return all(env.get_wrapper_attr(name) is not None for name in SCRIPT_OPTIONS)
    except AttributeError:
        return False
