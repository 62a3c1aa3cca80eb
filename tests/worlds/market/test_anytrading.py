"""The layout of gym-anytrading's forex env, against its rules written out, and against the env itself if installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rookery.errors import MissingExtra, OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.forex import forex
from worlds.market.market_bars import random_bars


def test_a_position_turns_at_the_close_of_the_next_bar_and_pays_pips() -> None:
    data = random_bars(count=60)
    close = data["EURUSD"]["close"].astype(np.float32).astype(float)
    env = KernelEnv(forex(data=data, layout="gym-anytrading", lookback=4, frame_bound=(4, 50)), plain=True)
    observation, _ = env.reset(seed=1)
    assert observation.shape == (4, 2)
    assert observation[:, 0].tolist() == close[1:5].tolist()
    assert observation[:, 1] == pytest.approx(np.diff(data["EURUSD"]["close"][:5]), rel=1e-4)
    total, long, last = 0.0, 0, 3
    for row in range(5, 50):
        action = row % 3 == 0
        _, reward, _, truncated, info = env.step(int(action))
        wanted = 0.0
        if action != long:
            wanted = (close[row] - close[last]) * 1e4 * (1 if long else -1)
            long, last = int(action), row
        total += wanted
        assert reward == pytest.approx(wanted, abs=1e-9)
        assert info["total_reward"] == pytest.approx(total)
        assert truncated == (row == 49)


def test_a_frame_that_begins_too_early_is_refused() -> None:
    with pytest.raises(OptionError, match=r"frame_bound should be \(first, end\) with first >= 10"):
        forex(data=random_bars(), layout="gym-anytrading", lookback=10, frame_bound=(5, 50))


def test_its_bars_need_the_package(monkeypatch: Any) -> None:
    import rookery.data.opened_data as module

    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="pip install gym-anytrading"):
        forex(data="gym-anytrading")


def test_it_plays_as_the_original() -> None:
    pytest.importorskip("gym_anytrading", reason="make bench-markets installs it")
    from gym_anytrading.datasets import FOREX_EURUSD_1H_ASK
    from gym_anytrading.envs import ForexEnv

    ours = KernelEnv(forex(data="gym-anytrading", layout="gym-anytrading", frame_bound=(10, 1000)), plain=True)
    theirs = ForexEnv(df=FOREX_EURUSD_1H_ASK, window_size=10, frame_bound=(10, 1000))
    assert np.array_equal(ours.reset(seed=0)[0], theirs.reset(seed=0)[0])
    actions = np.random.default_rng(0).integers(0, 2, 1000).tolist()
    for action in actions:
        observation, reward, _, truncated, info = ours.step(action)
        wanted, pips, _, ended, facts = theirs.step(action)
        assert np.array_equal(observation, wanted)
        assert reward == pytest.approx(pips, abs=1e-3)
        assert info["total_profit"] == pytest.approx(facts["total_profit"], rel=1e-4)
        assert truncated == ended
        if ended:
            return
