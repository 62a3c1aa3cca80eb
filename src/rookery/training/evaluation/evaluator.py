"""Evaluations during a run: complete episodes in a single env with a seed of its own, so that results of runs compare.

In two-player worlds these can be games against opponents by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.make_vec import make_vec
from rookery.engine.seeding import ChildSeeds
from rookery.learners.agent import Agent
from rookery.learners.observations import mask_of
from rookery.training.evaluation.opponent_games import OpponentGames
from rookery.training.evaluation.win_record import GameResults, outcomes_of
from rookery.training.resolve.world_choice import World, explain_option_errors


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
    """Keeps its env between evaluations; each begins from the same seed."""

    def __init__(
        self,
        world: World,
        backend: str,
        episodes: int,
        seed: int,
        deterministic: bool = True,
        opponents: Sequence[str] = (),
        runs_dir: str | Path = "runs",
        **failure_options: Any,
    ) -> None:
        """With `opponents`, by names that `find_player` knows, `episodes` games are played against each of them, in the
        world's two-player form. `failure_options` are those of `make_vec`."""
        self.episodes, self.seed, self.deterministic = episodes, seed, deterministic
        self._envs: Engine | None = None
        self._make = lambda: single_env(world, backend, **failure_options)
        self._opponent_games = (
            OpponentGames(world, backend, opponents, runs_dir, deterministic, **failure_options) if opponents else None
        )

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
        envs = self._envs = self._envs or self._make()
        agent.reset_memory()
        agent.seed(self.seed)
        envs.finished_episodes()
        observations, infos = envs.reset(seed=ChildSeeds(self.seed, 1))
        returns: list[float] = []
        lengths: list[int] = []
        outcomes: dict[str, list[float]] = {}
        starts = np.ones(1, bool)
        while len(returns) < self.episodes:
            if stop():
                return None
            progress(len(returns))
            actions = agent.act(observations, self.deterministic, mask=mask_of(observations, infos), starts=starts)
            observations, _, terminated, truncated, infos = envs.step(actions)
            starts = terminated | truncated
            if starts[0]:
                for name, values in outcomes_of(infos, envs.metadata).items():
                    outcomes.setdefault(name, []).extend(values)
                finished = envs.finished_episodes()
                returns += finished["return"].tolist()
                lengths += finished["length"].tolist()
        seconds = time.perf_counter() - started
        return Evaluation(returns, lengths, seconds, {name: float(np.mean(x)) for name, x in outcomes.items()})

    def close(self) -> None:
        """Close its env."""
        if self._opponent_games is not None:
            self._opponent_games.close()
        if self._envs is not None:
            self._envs.close()
            self._envs = None


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


def single_env(world: World, backend: str, **failure_options: Any) -> Engine:
    """One env of a world: in a process of its own if those that train are, since it may fail in the same ways."""
    backend = "kernel" if world.kernel else "process" if backend == "process" else "serial"
    with explain_option_errors(world):
        return make_vec(world.factory, 1, backend, workers=1, autoreset_mode="SameStep", **failure_options)
