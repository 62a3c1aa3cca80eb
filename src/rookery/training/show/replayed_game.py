"""A game of a match, played again step by step, so that it can be shown."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from rookery.learners.observations import MASK_KEY
from rookery.training.evaluation.match import WINNER, player_seed, start_seed
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.seats import VIEW, Seat, masks_of_both, views_in

ONLY_ENV = np.zeros(1, np.int64)
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
        """Begin anew."""
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
    """Whether the world has scripts; one that has must be told in every game that nobody is played by it."""
    try:
        return all(env.get_wrapper_attr(name) is not None for name in SCRIPT_OPTIONS)
    except AttributeError:
        return False
