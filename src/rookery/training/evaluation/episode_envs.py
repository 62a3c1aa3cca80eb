"""The envs of evaluations: each one begins when it is told to, and only those that play are stepped."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from gymnasium.wrappers import TimeLimit

from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec
from rookery.training.evaluation.cut_episodes import LONGEST
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.world_choice import World

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
            engine.send(actions, rows)
            observations, _, terminated, truncated, infos = engine.recv()  # of all that were sent
        return observations, terminated | truncated, infos

    def close(self) -> None:
        """Close the envs."""
        self.engine.close()
