"""An env and its wrappers, from the outside in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym


def wrapper_chain(env: Any) -> Iterator[Any]:
    """Every wrapper of `env`, outermost first, then the bare env."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env
    yield env
