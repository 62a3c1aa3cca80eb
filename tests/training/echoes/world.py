"""A game for two in which each sees what the other did last; as a kernel world, so that it runs on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.kernel.random import uniform
from rookery.kernel.world import KernelWorld


class Echo(KernelWorld):
    """Three numbers each: steps so far, what the other did last, and a number drawn for the episode. Who did more in
    total wins; games last 5 to 9 steps."""

    observation_space = spaces.Box(-100, 100, (3,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    state = {"last": "(2,)f8", "total": "(2,)f8", "length": "i8", "mark": "f8"}
    parameters = {"level": 0.0}
    info = {"winner": "i1", "done_by_other": "f4", "obs_agent_two": "(3,)f4"}
    time_limit = 50

    @staticmethod
    def reset(state: Any, params: Any, info: Any) -> None:
        state.length = 5 + int(uniform(state, 0.0, 5.0))
        state.mark = uniform(state, 0.0, 1.0) + params.level
        info.obs_agent_two[0] = 0.0
        info.obs_agent_two[1] = 0.0
        info.obs_agent_two[2] = -state.mark

    @staticmethod
    def step(state: Any, action: Any, params: Any, info: Any) -> Any:
        for player in range(2):
            state.last[player] = action[player]
            state.total[player] += action[player]
        over = state.steps + 1 >= state.length
        info.winner = 0
        if over and state.total[0] != state.total[1]:
            info.winner = 1 if state.total[0] > state.total[1] else -1
        info.done_by_other = action[1]
        info.obs_agent_two[0] = state.steps + 1
        info.obs_agent_two[1] = action[0]
        info.obs_agent_two[2] = -state.mark
        return 0.0, over

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        out[0] = state.steps
        out[1] = state.last[1]
        out[2] = state.mark
