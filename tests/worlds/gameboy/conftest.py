"""A game of our own for every test here, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rookery.worlds.gameboy.env import GameBoyEnv
from worlds.gameboy.cartridges import folder

Make = Callable[..., GameBoyEnv]


@pytest.fixture
def pacer(tmp_path: Path) -> dict[str, str]:
    """Keywords for an env of the small test game."""
    return folder(tmp_path)


@pytest.fixture
def make(pacer: dict[str, str]) -> Iterator[Make]:
    """Builds envs of the test game, and closes them."""
    built: list[GameBoyEnv] = []

    def build(**options: Any) -> GameBoyEnv:
        built.append(GameBoyEnv(**{**pacer, **options}))
        return built[-1]

    yield build
    for env in built:
        env.close()
