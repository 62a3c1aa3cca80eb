"""Evaluations in vector envs of other libraries that return tensors: one episode of each env, all at once.

If the user gave what makes the envs, evaluations have envs of their own. If there is only one vector env, it is used: a
simulator cannot always be opened twice. Its envs begin new episodes afterwards.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from rookery.engine.seeding import ChildSeeds
from rookery.learners.agent import Agent
from rookery.training.evaluation.episodes import LONGEST, PlayedEpisode, cut_note
from rookery.training.evaluation.evaluator import Evaluation, evaluation_from

CHECK_EVERY = 32  # steps between two questions to the device whether all episodes have ended


class TensorEvaluator:
    """Plays the first episodes of a vector env's rows after a reset, with the same seed in each evaluation."""

    apart = False  # see `Evaluator`

    def __init__(
        self, open_envs: Callable[[], Any], episodes: int, seed: int, deterministic: bool, *, shared: bool
    ) -> None:
        """`open_envs` returns a `TensorVectorEnv`; one that is `shared` with training is not closed."""
        self._open, self._envs = open_envs, None
        self.episodes, self.seed, self.deterministic, self.shared = episodes, seed, deterministic, shared

    def prepare(self) -> None:
        """Make the envs now, rather than in the first evaluation."""
        self._envs = self._envs or self._open()

    def run(
        self,
        agent: Agent,
        stop: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda done: None,
        most_steps: float = math.inf,
    ) -> Evaluation | None:
        """Play; None if `stop()` was true before the end. Rows that have ended their episode play on, uncounted."""
        self.prepare()
        started, played = time.perf_counter(), list[PlayedEpisode]()
        agent.seed(self.seed)
        while len(played) < self.episodes:
            more = self._play(agent, len(played), stop)
            if more is None:
                return None
            played += more
            progress(len(played))
        evaluation, seconds = evaluation_from(played), time.perf_counter() - started
        return replace(evaluation, seconds=seconds, note=cut_note(evaluation.lengths, seconds))

    @torch.no_grad()
    def _play(self, agent: Agent, number: int, stop: Callable[[], bool]) -> list[PlayedEpisode] | None:
        """One episode of each row that is wanted."""
        envs: Any = self._envs
        rows = min(envs.num_envs, self.episodes - number)
        envs.reset(seed=ChildSeeds(self.seed + number, 1))
        agent.reset_memory()
        first, starts = envs.episodes_begun(), None
        results = torch.zeros(2, envs.num_envs, dtype=torch.float64, device=envs.device)
        playing = torch.ones(envs.num_envs, dtype=torch.bool, device=envs.device)
        for step in range(LONGEST):
            if step % CHECK_EVERY == 0 and (stop() or not bool(playing[:rows].any())):
                break
            observations, mask = envs.present()
            envs.step(agent.act(observations, self.deterministic, mask=mask, starts=starts))
            starts = playing & (envs.episodes_begun() > first)
            found = torch.stack([envs.last_returns.double(), envs.last_lengths.double()])
            results = torch.where(starts, found, results)
            playing = playing & ~starts
        if stop():
            return None
        returns, lengths = torch.where(playing, envs.running(), results)[:, :rows].cpu().tolist()
        return [PlayedEpisode(total, int(length), {}) for total, length in zip(returns, lengths, strict=True)]

    def close(self) -> None:
        """Close its envs, if they are its own."""
        if self._envs is not None and not self.shared:
            self._envs.close()
        self._envs = None
