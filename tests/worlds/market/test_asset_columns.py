"""How the worlds of several assets lay their observations out, and runs whose nets the assets share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.learners.shared_nets import columns_by_asset
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex_account import forex_account
from rookery.worlds.market.perpetuals import perpetuals
from rookery.worlds.market.portfolio import Portfolio
from worlds.market.market_bars import random_bars

SYMBOLS = ("AUDUSD", "EURUSD", "GBPUSD")
BARS = random_bars(SYMBOLS)
WORLDS = {
    "crypto": lambda data: crypto("weights", data=data, lookback=3),
    "orders in FinRL's layout": lambda data: crypto("orders", "finrl", data=data, lookback=2),
    "brackets": lambda data: crypto("brackets", data=data, lookback=1),
    "perpetuals": lambda data: perpetuals(data=data, lookback=2),
    "forex account": lambda data: forex_account(data=data, lookback=4),
}


def first_observation(world: Portfolio) -> np.ndarray:
    observation, _ = KernelEnv(world, plain=True).reset(seed=1)
    return observation


@pytest.mark.parametrize("name", WORLDS)
def test_an_assets_columns_are_those_of_a_world_that_has_it_alone(name: str) -> None:
    """Episodes of a seed start at the same row."""
    together = WORLDS[name](BARS)
    seen = first_observation(together)
    for symbol, columns in zip(SYMBOLS, columns_by_asset(together.asset_columns, len(seen)), strict=True):
        alone = first_observation(WORLDS[name](BARS.select([symbol])))
        np.testing.assert_array_equal(seen[columns], alone)


def train(folder: Path, world: str = "crypto", **changes: Any) -> Any:
    keys: dict[str, Any] = {
        "learner": "ppo", "num_envs": 2, "steps": 64, "runs_dir": folder, "seed": 3,
        "ppo": {"rollout_length": 16, "hidden": [4], "share_weights": True, "learning_rate_schedule": "constant"},
        "evaluation": {"episodes": 1}, "monitor": {"panel": False, "plot": False, "tensorboard": False},
    }  # fmt: skip
    return rookery.train(world, **{**keys, **changes})


@pytest.mark.slow
def test_a_run_asks_its_world_and_continues_exactly(tmp_path: Path) -> None:
    more = {"world_options": {"action_type": "weights", "lookback": 2, "columns": ["rsi_14", "mom_3"]}}
    half = train(tmp_path / "half", **more)
    recorded = json.loads((half.path / "config.json").read_text())["ppo"]
    assert recorded["share_weights"] is True and recorded["asset_columns"] == [1, 1, 2, 2]
    runs = rookery.resume(half.path, steps=128), train(tmp_path / "whole", steps=128, **more)
    ours, theirs = (rookery.load(run.path, best=False).policy.state_dict() for run in runs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)


def test_a_world_without_assets_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"CartPole.*does not say which numbers of its observations are an asset's"):
        train(tmp_path, "CartPole-v1")
    assert not list(tmp_path.iterdir())
