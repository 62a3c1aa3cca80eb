"""Numbered episodes, played side by side.

An episode's seed is a child of the evaluation's by the episode's number, and so is that of its random actions: how it
goes does not depend on the episodes beside it, on their number or on the backend. When one ends, its env begins the
next; envs without a further episode are not stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.engine.seeding import child_seed
from rookery.learners.action_spaces import mask_of
from rookery.training.evaluation.episode_envs import EpisodeEnvs
from rookery.training.evaluation.final_numbers import final_numbers_of_row
from rookery.training.evaluation.win_record import outcomes_of_row
from rookery.training.players.agents import AgentPlayer

IDLE = -1  # the episode of an env that has none
ACTIONS = 1  # the key of the seeds of random actions
SAME_SEED = 2  # times that an episode is begun with its seed, should its env fail; an env may always fail with it


@dataclass(frozen=True)
class PlayedEpisode:
    """How an episode went. With several agents, its return is their mean."""

    total: float
    length: int
    outcomes: dict[str, float]  # such as win_rate and info/equity


def episode_seed(seed: int, number: int, tries: int = 0) -> int:
    """The seed of an episode's env. After failures of the env it is another one."""
    return child_seed(seed, number) if tries < SAME_SEED else child_seed(seed, number, tries)


def action_seed(seed: int, number: int, agent: int = 0) -> int:
    """The seed of an episode's random actions."""
    return child_seed(seed, number, ACTIONS, agent)


class Episodes:
    """Plays the episodes with these numbers, each once."""

    def __init__(self, envs: EpisodeEnvs, player: AgentPlayer, seed: int, numbers: Iterable[int]) -> None:
        self._envs, self._player, self._seed = envs, player, seed
        self._numbers = list(numbers)
        self._waiting: Iterator[int] = iter(self._numbers)
        self._results: dict[int, PlayedEpisode] = {}
        self._tries: dict[int, int] = {}  # episodes that were lost with their env, and how often
        self._episode = np.full(envs.count, IDLE)
        self._masks: np.ndarray | None = None  # of all rows, if there are any
        self._rows, self._observations = np.zeros(0, np.int64), None  # that play, and what they see

    def play(
        self, stop: Callable[[], bool] = lambda: False, progress: Callable[[int], None] = lambda done: None
    ) -> list[PlayedEpisode] | None:
        """The results, by number; None if `stop()` was true before the end. `progress` is called with the number of
        finished episodes."""
        self._envs.engine.finished_episodes()
        self._begin(np.arange(self._envs.count))
        progress(0)
        while len(self._results) < len(self._numbers):
            if stop():
                return None
            ended, infos = self._advance()
            if b"\1" in ended.tobytes():  # a third of the price of ended.any(), at every step
                self._end(ended, infos)
                progress(len(self._results))
        return [self._results[number] for number in self._numbers]

    def _advance(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Step the envs that play; returns which of their episodes have ended, and infos."""
        mask = None if self._masks is None else self._masks[self._rows]
        actions = self._player.act(self._observations, self._rows, mask)
        self._observations, ended, infos = self._envs.step(actions, self._rows)
        self._keep_masks(self._rows, mask_of(self._observations, infos, self._player.action_space))
        return ended, infos

    def _begin(self, envs: np.ndarray) -> None:
        """Begin the next episodes in these envs, as far as there are any."""
        for env in envs[self._episode[envs] == IDLE].tolist():
            self._episode[env] = next(self._waiting, IDLE)
        begun = envs[self._episode[envs] != IDLE]
        rows = self._envs.rows(begun)
        if len(begun):
            numbers = self._episode[begun].tolist()
            seeds = [episode_seed(self._seed, number, self._tries.get(number, 0)) for number in numbers]
            infos = self._envs.begin(begun, seeds)
            agents = range(self._envs.agents)
            self._player.begin(rows, [action_seed(self._seed, number, k) for number in numbers for k in agents])
            everyone = self._envs.observations(np.arange(self._envs.engine.num_envs))
            masks = mask_of(everyone, infos, self._player.action_space)
            self._keep_masks(rows, None if masks is None else masks[rows])
        self._rows = self._envs.rows(np.flatnonzero(self._episode != IDLE))
        self._observations = self._envs.observations(self._rows)

    def _keep_masks(self, rows: np.ndarray, masks: np.ndarray | None) -> None:
        if masks is not None:
            if self._masks is None:
                self._masks = np.ones((self._envs.engine.num_envs, *masks.shape[1:]), bool)
            self._masks[rows] = masks
        elif self._masks is not None:
            self._masks[rows] = True  # an env that gives no mask allows all actions

    def _end(self, ended: np.ndarray, infos: dict[str, Any]) -> None:
        """Record the episodes that have ended; one whose env failed is played again."""
        agents, engine = self._envs.agents, self._envs.engine
        finished = engine.finished_episodes()
        lost = np.asarray(infos.get("restarted", np.zeros(len(ended), bool)), bool)
        places = np.flatnonzero(ended)[::agents]  # of the envs' first rows, among those that play
        envs = self._rows[places] // agents
        for place, env in zip(places.tolist(), envs.tolist(), strict=True):
            number = int(self._episode[env])
            records = finished[finished["env"] // agents == env]
            if lost[place] or not len(records):
                self._tries[number] = self._tries.get(number, 0) + 1
                continue
            outcomes = outcomes_of_row(infos, place, engine.metadata)
            outcomes |= final_numbers_of_row(infos, place, engine.metadata)
            outcomes |= result_of_two(records["return"]) if agents == 2 else {}
            self._results[number] = PlayedEpisode(float(records["return"].mean()), int(records["length"][-1]), outcomes)
            self._episode[env] = IDLE
        self._begin(envs)


def result_of_two(returns: np.ndarray) -> dict[str, float]:
    """Which of an episode's two agents had the higher return: if rewards sum to 0, their mean says nothing."""
    lead = float(returns[0] - returns[-1])
    return {"agent_0_win_rate": float(lead > 0.0), "draw_rate": float(lead == 0.0)}
