"""Perpetuals and orders inside the bar against an accountant that was written apart from them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.perpetuals import perpetuals
from worlds.market.perpetual_accountant import INITIAL, Accountant, difference, exact_prices, wild_bars

COINS = ("BTC/USDT", "ETH/USDT", "SOL/USDT")
BARS, WINDOWS = 2000, 20
PERPETUAL = {
    "fee": 0.0005, "maker_fee": 0.0002, "half_spread": 0.0001, "slippage": 0.0001, "impact": 0.002,
    "funding": 0.0001, "margin_call": 0.005, "liquidation_fee": 0.0125,
}  # fmt: skip
SPOT = {**PERPETUAL, "funding": 0.0, "margin_call": 0.0, "liquidation_fee": 0.0}
ACCOUNT = {"leverage": 8.0, "min_change": 0.05, "min_order": 25.0, "hold_limit": 40, "forced_sale": 1.0}
INSIDE = {**ACCOUNT, "widest_order": 0.03, "action_type": "brackets"}
CASES: dict[str, tuple[bool, dict[str, Any]]] = {
    "perpetuals": (False, ACCOUNT),
    "perpetuals, part of the volume": (False, {**ACCOUNT, "volume_share": 0.1}),
    "perpetuals, rates of the data": (False, {**ACCOUNT, "from_data": True}),
    "perpetuals, inside the bar, worst": (False, {**INSIDE, "inside_bar": "worst"}),
    "perpetuals, inside the bar, low first": (False, {**INSIDE, "inside_bar": "low-first", "from_data": True}),
    "perpetuals, inside the bar, volume": (False, {**INSIDE, "inside_bar": "high-first", "volume_share": 0.05}),
    "crypto, inside the bar": (True, {**INSIDE, "inside_bar": "worst", "leverage": 1.0, "volume_share": 0.2}),
}


def world_of(case: str, data: Any) -> tuple[Any, dict[str, Any]]:
    """The world, and the same options as its accountant wants them."""
    spot, options = CASES[case]
    options = {"volume_share": 0.0, "inside_bar": "worst", "widest_order": 0.0, **options}
    from_data = options.pop("from_data", False)
    rates = SPOT if spot else PERPETUAL
    rules = {**rates, **options, "spread_of_data": from_data, "funding_of_data": from_data}
    costs = {"preset": "none", **{name: rates[name] for name in rates if name != "margin_call"}}
    if from_data:
        costs |= {"half_spread": "data", "funding": "data"}
        rules |= {"half_spread": 0.0, "funding": 0.0}
    if "action_type" not in options:
        options = {name: value for name, value in options.items() if name not in ("inside_bar", "widest_order")}
    if spot:
        costs["funding"] = 0.0
        del options["leverage"]
    else:
        costs["margin_call"] = rates["margin_call"]
    windows = [[k * BARS // WINDOWS, (k + 1) * BARS // WINDOWS] for k in range(WINDOWS)]
    common = {"data": data, "columns": "noise", "lookback": 2, "split": windows, "time_limit": 0, "costs": costs}
    made = (crypto if spot else perpetuals)(**common, **{"initial_balance": INITIAL, **options})
    return made, {**rules, "funding_hours": 0 if spot else 8}


def worst_difference(case: str, steps: int, seed: int = 1) -> tuple[float, Counter[str], int]:
    """Over so many steps of all envs together; how often things happened; and how many steps were compared."""
    data = wild_bars(COINS, BARS, seed)
    world, rules = world_of(case, data)
    spot, prices = CASES[case][0], exact_prices(data)
    envs = rookery.make_vec(world, WINDOWS, backend="kernel")
    envs.set_parameters(window=np.arange(WINDOWS))
    envs.reset(seed=seed)
    rng, shape = np.random.default_rng(seed), (WINDOWS, *world.action_space.shape)
    accountants: dict[int, Accountant] = {}
    worst, compared, happened, actions = 0.0, 0, Counter[str](), rng.uniform(-1, 1, shape)
    while compared < steps:
        fresh = rng.uniform(-1, 1, shape)
        actions = np.where(rng.random(shape) < 0.15, fresh, actions).astype(np.float32)
        infos = envs.step(actions)[4]
        for env in range(WINDOWS):
            if not infos or not infos["_equity"][env]:  # it was reset
                accountants.pop(env, None)
                continue
            if env not in accountants:
                accountants[env] = Accountant(data, prices, rules, int(world.windows[env, 0]), spot)
            theirs = accountants[env]
            told = theirs.bar(actions[env])
            assert theirs.row == infos["row"][env]
            worst = max(worst, difference(infos, env, told, theirs.book))
            compared += 1
            happened.update({name: int(told[name]) for name in ("trades", "liquidations")})
            happened["short"] += any(position.units < 0 for position in theirs.book)
    envs.close()
    return worst, happened, compared


@pytest.mark.parametrize("case", ["perpetuals, rates of the data", "perpetuals, inside the bar, volume"])
def test_accounts_are_what_another_accountant_says(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)  # in plain Python
    worst, happened, _ = worst_difference(case, 500)
    assert worst < 1e-9
    assert happened["trades"] > 500


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_steps_agree_with_another_accountant(case: str) -> None:
    worst, happened, compared = worst_difference(case, 100_000)
    assert compared >= 100_000
    assert worst < 1e-9
    assert happened["trades"] > 10_000
    if not CASES[case][0]:
        assert happened["liquidations"] > 20 and happened["short"] > 10_000
