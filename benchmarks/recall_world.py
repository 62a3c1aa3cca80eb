"""A kernel world for a policy with memory: a symbol is shown once, and is to be named some steps later, while only some
actions are allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rookery import KernelWorld
from rookery.kernel import integer

SYMBOLS = 4
WAIT = 8  # steps from the symbol to the answer


class Recall(KernelWorld):
    """A reward of 1 for naming the symbol. Before, the only action that is allowed is to wait."""

    observation_space = spaces.Dict(symbol=spaces.Box(0, 1, (SYMBOLS,), np.float32), time=spaces.Box(0, 1, (1,)))
    action_space = spaces.Discrete(SYMBOLS + 1)
    state = {"symbol": np.int32, "time": np.int32}

    @staticmethod
    def reset(state: Any) -> None:
        state.symbol, state.time = integer(state, 0, SYMBOLS), 0

    @staticmethod
    def step(state: Any, action: Any) -> tuple[float, bool]:
        if state.time < WAIT:
            state.time += 1
            return 0.0, False
        return (1.0 if action == state.symbol + 1 else 0.0), True

    @staticmethod
    def observe(state: Any, out: Any) -> None:
        for k in range(SYMBOLS):
            out.symbol[k] = 1.0 if state.time == 0 and k == state.symbol else 0.0
        out.time[0] = state.time / WAIT

    @staticmethod
    def action_mask(state: Any, out: Any) -> None:
        out[0] = state.time < WAIT
        for k in range(SYMBOLS):
            out[k + 1] = state.time >= WAIT
