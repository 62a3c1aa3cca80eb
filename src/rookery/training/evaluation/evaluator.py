"""Evaluations during a run: complete episodes in envs with seeds of their own, so that results of runs compare.

In two-player worlds these can be games against opponents by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.learners.agent import Agent
from rookery.training.evaluation.episode_envs import EpisodeEnvs
from rookery.training.evaluation.episodes import Episodes, PlayedEpisode
from rookery.training.evaluation.opponent_games import OpponentGames
from rookery.training.evaluation.win_record import GameResults
from rookery.training.players.agents import AgentPlayer
from rookery.training.resolve.world_choice import World

DEFAULT_ENVS = 8  # side by side, where the number of a run is not known


@dataclass(frozen=True)
class Evaluation:
    """Returns, lengths and outcomes of some episodes."""

    returns: list[float]
    lengths: list[int]
    seconds: float
    outcomes: dict[str, float]  # such as win_rate

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    def metrics(self) -> dict[str, float]:
        """As events hold them."""
        return {
            "eval/return": self.mean,
            "eval/return_std": float(np.std(self.returns)),
            "eval/length": float(np.mean(self.lengths)),
            "eval/episodes": len(self.lengths),
            "eval/seconds": self.seconds,
            **{f"eval/{name}": value for name, value in self.outcomes.items()},
        }


class Evaluator:
    """Keeps its envs between evaluations; each begins from the same seeds."""

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
        num_envs: int = DEFAULT_ENVS,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        """With `opponents`, by names that `find_player` knows, `episodes` games are played against each of them, in the
        world's two-player form. `backend`, `num_envs` and `workers` are those of the envs that train; `options` are
        further ones of `make_vec`."""
        self.episodes, self.seed, self.deterministic = episodes, seed, deterministic
        self._envs: EpisodeEnvs | None = None
        self._make = lambda: EpisodeEnvs(world, backend, episodes, num_envs, workers, **options)
        self._opponent_games: OpponentGames | None = None
        if opponents:
            options |= {"games": episodes, "num_envs": num_envs}
            self._opponent_games = OpponentGames(world, backend, opponents, runs_dir, deterministic, **options)

    def run(
        self,
        agent: Agent,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> Evaluation | None:
        """Play; None if `stop()` was true before the end. `progress` is called with the number of finished episodes,
        where there are no opponents."""
        started = time.perf_counter()
        if self._opponent_games is not None:
            results = self._opponent_games.play(agent, self.episodes, self.seed, stop)
            return None if results is None else _evaluation_of(results, time.perf_counter() - started)
        self._envs = self._envs or self._make()
        player = AgentPlayer(agent, "agent", deterministic=self.deterministic, copy=False)
        played = Episodes(self._envs, player, self.seed, range(self.episodes)).play(stop, progress)
        return None if played is None else _evaluation_from(played, time.perf_counter() - started)

    def close(self) -> None:
        """Close its envs."""
        if self._opponent_games is not None:
            self._opponent_games.close()
        if self._envs is not None:
            self._envs.close()
            self._envs = None


def _evaluation_from(played: Sequence[PlayedEpisode], seconds: float) -> Evaluation:
    """The results of episodes without an opponent."""
    names = dict.fromkeys(name for episode in played for name in episode.outcomes)
    outcomes = {name: float(np.mean([x.outcomes[name] for x in played if name in x.outcomes])) for name in names}
    return Evaluation([x.total for x in played], [x.length for x in played], seconds, outcomes)


def _evaluation_of(results: dict[str, GameResults], seconds: float) -> Evaluation:
    """Shares of games won, drawn and lost by opponent, and results over all games."""
    outcomes: dict[str, float] = {"win_rate": float(np.mean([(x.winners == 1).mean() for x in results.values()]))}
    for name, result in results.items():
        record = result.record()
        low, high = record.interval(record.won)
        shares = {"won": record.win_rate, "drawn": record.draw_rate, "lost": record.loss_rate}
        outcomes |= {f"{name}/{what}": x for what, x in {**shares, "won_low": low, "won_high": high}.items()}
    returns = np.concatenate([result.returns for result in results.values()])
    lengths = np.concatenate([result.lengths for result in results.values()])
    return Evaluation(returns[np.isfinite(returns)].tolist(), lengths.tolist(), seconds, outcomes)
