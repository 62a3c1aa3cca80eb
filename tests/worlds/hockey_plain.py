"""A hockey table in plain Python, to be set up by hand in tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from rookery.worlds.hockey.field import PARAMETERS
from rookery.worlds.hockey.rules import reset
from rookery.worlds.hockey.world import Hockey

IDLE = (0.0,) * 8


def plain_record(dtype: np.dtype) -> Any:
    """A record whose fields are Python numbers and lists of them."""
    blank = np.zeros(1, dtype)[0]
    return SimpleNamespace(**{name: blank[name].tolist() for name in dtype.names})


class Table:
    """One game; `state` may be changed before a step."""

    def __init__(self, seed: int = 0, episode: int = 1, **params: int) -> None:
        world = Hockey()
        self.state = plain_record(world.state_dtype)
        self.state.seed, self.state.episode = seed, episode
        self.params = SimpleNamespace(**{**PARAMETERS, **params})
        self.scratch, self.info = plain_record(world.scratch_dtype), plain_record(world.info_dtype)
        reset(self.state, self.params)

    def place(self, body: int, x: float, y: float, vx: float = 0.0, vy: float = 0.0, angle: float = 0.0) -> Table:
        """Puts a body (rackets 0 and 1, puck 2) somewhere, moving."""
        self.state.x[body], self.state.y[body], self.state.angle[body] = x, y, angle
        self.state.vx[body], self.state.vy[body] = vx, vy
        return self

    def step(self, action: Any = IDLE, times: int = 1) -> tuple[float, bool]:
        """Makes steps with the same action; returns the last reward and whether the game ended."""
        for _ in range(times):
            result = Hockey.step(self.state, action, self.params, self.scratch, self.info)
        return result

    def body(self, body: int) -> np.ndarray:
        """x, y, angle, vx, vy, spin of a body."""
        return np.array([getattr(self.state, name)[body] for name in ("x", "y", "angle", "vx", "vy", "spin")])
