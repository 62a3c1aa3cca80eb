"""Evaluations during a run: complete episodes in envs with seeds of their own, so that results of runs compare.

In two-player worlds these can be games against opponents by name.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rookery.learners.agent import Agent
from rookery.training.evaluation.device_episodes import DeviceEpisodes
from rookery.training.evaluation.episodes import (
    KERNEL_ENVS,
    PYTHON_ENVS,
    EpisodeEnvs,
    Episodes,
    PlayedEpisode,
    cut_note,
    remedy_for,
)
from rookery.training.evaluation.match import GameEnvs, Match
from rookery.training.evaluation.win_record import WIDE, GameResults, interval_of, is_wide
from rookery.training.players.agents import AgentPlayer, Player, Script, find_player, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, is_two_player, not_for_two_players, two_player_form

DEFAULT_ENVS = 8  # side by side, where the number of a run is not known
DEVICE_OPTIONS = ("bad_values", "on_failure")  # of those of `make_vec`, what envs on a GPU have


@dataclass(frozen=True)
class Evaluation:
    """Returns, lengths and outcomes of some episodes, by their number."""

    returns: list[float]
    lengths: list[int]
    outcomes: dict[str, float]  # such as win_rate
    is_wide: bool  # more episodes would tell more
    seconds: float = 0.0
    restarts: int = 0  # of envs that failed; their episodes were played again
    note: str = ""  # what may be wrong with it

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    def metrics(self) -> dict[str, float]:
        """As events hold them."""
        low, high = interval_of(self.returns)
        return {
            "eval/return": self.mean,
            "eval/return_std": float(np.std(self.returns)),
            "eval/return_low": low,
            "eval/return_high": high,
            "eval/length": float(np.mean(self.lengths)),
            "eval/episodes": len(self.lengths),
            "eval/seconds": self.seconds,
            **({"eval/restarts": self.restarts} if self.restarts else {}),
            **{f"eval/{name}": value for name, value in self.outcomes.items()},
        }


class Evaluator:
    """Keeps its envs between evaluations; each begins from the same seeds."""

    shared = False  # whether it plays in the envs that train, which begin new episodes afterwards
    apart = False  # whether it evaluates elsewhere, while the run continues

    def __init__(
        self,
        world: World,
        backend: str,
        episodes: int,
        seed: int,
        deterministic: bool = True,
        opponents: Sequence[str] = (),
        runs_dir: str | Path = "runs",
        *,
        max_episodes: int | None = None,
        num_envs: int = DEFAULT_ENVS,
        workers: int | None = None,
        device: str | None = None,
        **options: Any,
    ) -> None:
        """With `opponents`, by names that `find_player` knows, `episodes` games are played against each of them, in the
        world's two-player form. Up to `max_episodes` are played while the result is uncertain. `backend`, `num_envs`
        and `workers` are those of the envs that train; `options` are further ones of `make_vec`. With a `device`, which
        is the agent's, episodes without opponents are played there."""
        self.episodes, self.seed, self.deterministic = episodes, seed, deterministic
        self.max_episodes = max(episodes, max_episodes or episodes)
        self._world = world
        self._each = max(1, len(opponents))  # games of a number
        self._envs: EpisodeEnvs | DeviceEpisodes | None = None
        self._make: Callable[[], EpisodeEnvs | DeviceEpisodes] = lambda: EpisodeEnvs(
            world, backend, episodes, num_envs, workers, **options
        )
        if device is not None:
            on_device = {name: value for name, value in options.items() if name in DEVICE_OPTIONS}
            self._make = lambda: DeviceEpisodes(world, episodes, device, deterministic, **on_device)
        self._opponent_games: OpponentGames | None = None
        if opponents:
            options |= {"games": episodes, "num_envs": num_envs}
            self._opponent_games = OpponentGames(world, backend, opponents, runs_dir, deterministic, **options)

    def prepare(self) -> None:
        """Make the envs now, rather than in the first evaluation."""
        if self._opponent_games is None:
            self._envs = self._envs or self._make()

    def run(
        self,
        agent: Agent,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
        most_steps: float = math.inf,
    ) -> Evaluation | None:
        """Play; None if `stop()` was true before the end. While the confidence interval is wide, more episodes are
        played, up to `max_episodes` and in the time of about `most_steps` steps in all. `progress` is called with the
        number of finished episodes, where there are no opponents."""
        started, restarts = time.perf_counter(), self._restarts
        rounds = self._games(agent, stop) if self._opponent_games else self._episodes(agent, stop, progress)
        evaluation = next(rounds)
        while evaluation is not None and evaluation.is_wide and self._may_go_on(evaluation, most_steps):
            evaluation = next(rounds)
        if evaluation is None:
            return None
        seconds, note = time.perf_counter() - started, ""
        if self._envs is not None and not self._world.kernel:  # kernel worlds have a limit of their own
            note = cut_note(evaluation.lengths, seconds, remedy_for(self._world))
        return replace(evaluation, seconds=seconds, restarts=self._restarts - restarts, note=note)

    @property
    def _restarts(self) -> int:
        """Of its envs, in all evaluations."""
        if self._opponent_games is not None:
            return self._opponent_games.restarts
        return 0 if self._envs is None else self._envs.engine.restarts

    def _may_go_on(self, evaluation: Evaluation, most_steps: float) -> bool:
        played = len(evaluation.lengths) // self._each
        more = min(self.episodes, self.max_episodes - played)
        steps = steps_in_that_time(evaluation.lengths, self.episodes * self._each)
        return more > 0 and steps * (played + more) / played <= most_steps

    def _episodes(
        self, agent: Agent, stop: Callable[[], bool], progress: Callable[[int], None]
    ) -> Iterator[Evaluation | None]:
        """The evaluation after each round of episodes."""
        play = self._player_of_episodes(agent)
        played: list[PlayedEpisode] = []
        while True:
            before = len(played)
            numbers = range(before, min(before + self.episodes, self.max_episodes))
            more = play(numbers, stop, partial(_add, progress, before))
            if more is None:
                yield None
                return
            played += more
            yield evaluation_from(played)

    def _player_of_episodes(self, agent: Agent) -> Callable[..., list[PlayedEpisode] | None]:
        """A function that plays the episodes with some numbers."""
        envs = self._envs = self._envs or self._make()
        if isinstance(envs, DeviceEpisodes):
            return partial(envs.play, agent, self.seed)
        player = AgentPlayer(agent, "agent", deterministic=self.deterministic, copy=False)
        kind = Episodes
        if self._world.kernel:
            from rookery.training.evaluation.compiled_episodes import episodes_for  # imports Numba

            kind = episodes_for(envs, player)
        return lambda numbers, *calls: kind(envs, player, self.seed, numbers).play(*calls)

    def _games(self, agent: Agent, stop: Callable[[], bool]) -> Iterator[Evaluation | None]:
        """The evaluation after each round of games against all opponents."""
        assert self._opponent_games is not None
        played: dict[str, GameResults] = {}
        count = 0
        while True:
            games = min(self.episodes, self.max_episodes - count)
            more = self._opponent_games.play(agent, games, self.seed, stop, first=count)
            if more is None:
                yield None
                return
            played = {name: played[name].joined(results) if played else results for name, results in more.items()}
            count += games
            yield _evaluation_of(played)

    def close(self) -> None:
        """Close its envs."""
        if self._opponent_games is not None:
            self._opponent_games.close()
        if self._envs is not None:
            self._envs.close()
            self._envs = None


def steps_in_that_time(lengths: Sequence[int], at_a_time: int) -> int:
    """How many steps could be made in the time of some episodes, so many of which are played side by side: until the
    longest of them is over, the envs of the others have nothing to do.

    >>> steps_in_that_time([10, 90, 20, 20], at_a_time=2)
    220
    """
    parts = (lengths[k : k + at_a_time] for k in range(0, len(lengths), at_a_time))
    return sum(len(part) * max(part) for part in parts)


def _add(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def evaluation_from(played: Sequence[PlayedEpisode]) -> Evaluation:
    """The results of episodes without an opponent."""
    names = dict.fromkeys(name for episode in played for name in episode.outcomes)
    outcomes = {name: float(np.mean([x.outcomes[name] for x in played if name in x.outcomes])) for name in names}
    returns = [x.total for x in played]
    return Evaluation(returns, [x.length for x in played], outcomes, is_wide(returns))


def _evaluation_of(results: dict[str, GameResults]) -> Evaluation:
    """Shares of games won, drawn and lost by opponent, and results over all games, by their number."""
    outcomes: dict[str, float] = {"win_rate": float(np.mean([(x.winners == 1).mean() for x in results.values()]))}
    wide = False
    for name, result in results.items():
        record = result.record()
        low, high = record.interval(record.won)
        wide |= (high - low) / 2 > WIDE
        shares = {"won": record.win_rate, "drawn": record.draw_rate, "lost": record.loss_rate}
        outcomes |= {f"{name}/{what}": x for what, x in {**shares, "won_low": low, "won_high": high}.items()}
    returns = np.stack([result.returns for result in results.values()], 1).ravel()
    lengths = np.stack([result.lengths for result in results.values()], 1).ravel()
    return Evaluation(returns[np.isfinite(returns)].tolist(), lengths.tolist(), outcomes, wide)


class OpponentGames:
    """The opponents of evaluations, and the envs they play in, which are kept between evaluations."""

    def __init__(
        self,
        world: World,
        backend: str,
        opponents: Sequence[str],
        runs_dir: str | Path = "runs",
        deterministic: bool = True,
        *,
        games: int = 1,
        num_envs: int = 1,
        **options: Any,
    ) -> None:
        """`games` are played at a time, in as many envs as the world has room for; `num_envs` train. `options` are
        those of `make_vec`."""
        self.world, self.deterministic = two_player_form(world), deterministic
        batch = min(games, KERNEL_ENVS if self.world.kernel else min(num_envs, PYTHON_ENVS))
        self._make = lambda: GameEnvs(self.world, batch, backend, **options)
        self._games: GameEnvs | None = None if self.world.kernel else self._make()  # whose first env has the spaces
        try:
            self.seat = self._find_seat()
            found = [find_player(who, self.seat, runs_dir, deterministic=deterministic) for who in opponents]
            self.opponents = _by_name(found)
            self._check_scripts()
        except BaseException:
            self.close()
            raise

    def _find_seat(self) -> Seat:
        seat = seat_of(*self.world.spaces) if self._games is None else self._games.seat
        if seat is None:
            raise not_for_two_players(self.world)
        return seat

    def _check_scripts(self) -> None:
        """Refuse scripts that the world does not have now, not after hours."""
        if not is_two_player(self.world) and any(isinstance(x, Script) for x in self.opponents.values()):
            self._games = self._games or self._make()
            self._games.check(*self.opponents.values())

    def play(
        self,
        agent: Agent | Player | Script,
        games: int,
        seed: int,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[str, int], None] = lambda name, done: None,
        first: int = 0,
    ) -> dict[str, GameResults] | None:
        """Play so many games against each opponent, numbered from `first`; None if `stop()` was true before the end."""
        if isinstance(agent, Agent):
            agent = seated(agent, "agent", self.seat, deterministic=self.deterministic)
        envs = self._games = self._games or self._make()
        results: dict[str, GameResults] = {}
        for name, opponent in self.opponents.items():
            played = Match(envs, (agent, opponent), games, seed, first).play(stop, partial(progress, name))
            if played is None:
                return None
            results[name] = played
        return results

    @property
    def restarts(self) -> int:
        """How many times an env failed and was restarted; its games were played again."""
        return 0 if self._games is None else self._games.envs.restarts

    def close(self) -> None:
        """Close the env."""
        if self._games is not None:
            self._games.close()
            self._games = None


def _by_name(players: Sequence[Player | Script]) -> dict[str, Player | Script]:
    """Players by unique names."""
    named: dict[str, Player | Script] = {}
    for player in players:
        name, number = player.name, 1
        while name in named:
            number += 1
            name = f"{player.name}-{number}"
        named[name] = player
    return named
