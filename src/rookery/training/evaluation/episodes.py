"""Numbered episodes, played side by side.

An episode's seed is a child of the evaluation's by the episode's number, and so is that of its random actions: how it
goes does not depend on the episodes beside it, on their number or on the backend. When one ends, its env begins the
next; envs without a further episode are not stepped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium.wrappers import TimeLimit

from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.learners.action_spaces import mask_of
from rookery.training.evaluation.win_record import final_numbers_of_row, outcomes_of_row
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.world_choice import World, episode_option

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


LONGEST = 20_000  # steps of an episode: a policy that walks against a wall may never end one by itself
WITHIN = "let its step() return `truncated` in time"


def cut_note(lengths: Sequence[int], seconds: float, remedy: str = WITHIN) -> str:
    """What to say of an evaluation whose episodes had these lengths; "" if none was cut.

    >>> cut_note([20_000, 17], 3.5)[:80]
    '1 of 2 episodes of an evaluation had not ended after 20,000 steps and was cut, a'
    """
    cut = sum(length >= LONGEST for length in lengths)
    if not cut:
        return ""
    return (
        f"{cut} of {len(lengths)} episodes of an evaluation had not ended after {LONGEST:,} steps and "
        f"{'was' if cut == 1 else 'were'} cut, and the evaluation took {seconds:.1f} s. If episodes of this world "
        f"should be shorter, {remedy}; `evaluation.episodes` and `evaluation.every` say how much is evaluated"
    )


def remedy_for(world: World) -> str:
    """What ends episodes of this world earlier."""
    try:
        episode_option(world)
    except OptionError:
        return f"{WITHIN}, or put a TimeLimit around it with `wrappers`"
    return "set `episode_length`"


KERNEL_ENVS = 64  # at most; their steps are cheap, so that the price of a call is most of it
PYTHON_ENVS = 32  # at most, and no more than the run trains on: so many are known to fit into memory


class EpisodeEnvs:
    """Envs of a world, kept between evaluations. With several agents in an env, each of them is a row of the batch."""

    def __init__(
        self, world: World, backend: str, episodes: int, num_envs: int, workers: int | None = None, **options: Any
    ) -> None:
        """`episodes` are played at a time. `backend`, `num_envs` and `workers` are those of the envs that train: envs
        that need processes there need them here. `options` are those of `make_vec`."""
        count = self._count(world, episodes, num_envs)
        backend = "kernel" if world.kernel else backend if backend in ("process", "thread") else "serial"
        parallel = min(count, workers or usable_cores()) if backend in ("process", "thread") else 1
        alone = count - 1 or None  # makes an engine whose envs can be stepped one by one
        with explain_option_errors(world):
            self.engine: Engine = make_vec(
                world.factory, count, backend, parallel, batch_size=alone, autoreset_mode="Disabled", copy=False,
                wrappers=None if world.kernel else partial(TimeLimit, max_episode_steps=LONGEST), **options,
            )  # fmt: skip
        self.count = count
        self.agents = self.engine.num_envs // count

    @staticmethod
    def _count(world: World, episodes: int, num_envs: int) -> int:
        kernel = kernel_of(world.factory, build=True) if world.kernel else None
        if kernel is not None and kernel.world.num_agents > 1:
            return 1  # they are stepped as a whole, and are a batch of rows already
        return min(episodes, KERNEL_ENVS if world.kernel else min(num_envs, PYTHON_ENVS))

    def rows(self, envs: np.ndarray) -> np.ndarray:
        """The rows of these envs."""
        return envs if self.agents == 1 else (envs[:, None] * self.agents + np.arange(self.agents)).ravel()

    def begin(self, envs: np.ndarray, seeds: list[int]) -> dict[str, Any]:
        """Reset these envs; returns the infos, of all rows."""
        mask = np.zeros(self.engine.num_envs, bool)
        mask[self.rows(envs)] = True
        all_seeds: list[int | None] = [None] * self.count
        for env, seed in zip(envs.tolist(), seeds, strict=True):
            all_seeds[env] = seed
        _, infos = self.engine.reset(seed=all_seeds, options={"reset_mask": mask})
        return infos

    def observations(self, rows: np.ndarray) -> Any:
        """The present observations of these rows, as a copy."""
        return self.engine.batch.observations.take(rows, True)

    def step(self, actions: Any, rows: np.ndarray) -> tuple[Any, np.ndarray, dict[str, Any]]:
        """Step the envs of these rows; returns observations, whether an episode ended, and infos, of these rows."""
        engine = self.engine
        if len(rows) == engine.num_envs:
            observations, _, terminated, truncated, infos = engine.step(actions)
        else:
            observations, _, terminated, truncated, infos = engine.step_rows(actions, rows)
        return observations, terminated | truncated, infos

    def close(self) -> None:
        self.engine.close()
