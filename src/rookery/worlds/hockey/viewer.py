"""Hockey as it is watched: the game with the players' names and how many games each has won."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.hockey.render import PLAYERS, Picture


class HockeyViewer:
    """A `rookery.worlds.world_spec.Viewer` of one env."""

    def __init__(self, env: KernelEnv, fps: float, names: tuple[str, str] | None = None) -> None:
        self._env, self._picture = env, Picture()
        self._picture.frames_per_second = round(fps)
        self._picture.score = (0, 0)
        if names is not None:
            self._picture.names = names
        elif env.parameters["player_one"] == 0:
            self._picture.names = ("agent", PLAYERS[env.parameters["player_two"]].format(2))

    @property
    def names(self) -> tuple[str, str] | None:
        return self._picture.names

    @property
    def closed(self) -> bool:
        return self._picture.closed

    def draw(self, mode: str) -> np.ndarray | None:
        if not self._env.state.steps:
            self._picture.banner = ""
        return self._picture.draw(self._env.state, SimpleNamespace(**self._env.parameters), mode)

    def end_episode(self, info: Mapping[str, Any]) -> None:
        assert self._picture.score is not None
        winner, (won, lost) = int(info.get("winner", 0)), self._picture.score
        self._picture.score = won + (winner == 1), lost + (winner == -1)
        self._picture.banner = "" if winner else "DRAW"

    def close(self) -> None:
        self._picture.close()
