"""Forex as one account against an accountant that was written apart from it."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.worlds.market.forex_account import forex_account
from worlds.market.forex_accountant import INITIAL, Accountant, Bank, difference, rollovers, wild_pairs
from worlds.market.perpetual_accountant import exact

PAIRS = ("EURUSD", "USDJPY", "EURGBP")  # in dollars, yen and pounds; EURGBP and EURUSD make pounds dollars
BARS, WINDOWS = 2000, 20
RATES = {
    "fee": 0.00003, "half_spread": 0.00004, "slippage": 0.00001, "impact": 0.0002, "swap_long": 0.03,
    "swap_short": -0.01, "margin_call": 1 / 60,
}  # fmt: skip
ACCOUNT = {"leverage": 25.0, "min_change": 0.05, "min_order": 50.0}
TABLE = {
    "EURUSD": {"swap_long": -7.2, "swap_short": 2.1, "swap_unit": "points"},
    "USDJPY": {"swap_long": 1.25, "swap_short": -2.5, "swap_unit": "pips", "triple": "thursday"},
    "EURGBP": {"swap_long": -4.0, "swap_short": 1.5, "swap_unit": "percent"},
}
SPREADS = {"EURUSD": 8.0, "USDJPY": 9.0, "EURGBP": 15.0}
# The same table in the right currency of each pair; percent stay percent.
AMOUNTS = {
    "long": [Decimal("-0.000072"), Decimal("0.0125"), Decimal(-4)],
    "short": [Decimal("0.000021"), Decimal("-0.025"), Decimal("1.5")],
    "kind": ["amount", "amount", "percent"], "triple": ["wednesday", "thursday", "wednesday"],
}  # fmt: skip
WIDTHS = [Decimal("0.00008"), Decimal("0.009"), Decimal("0.00015")]
CASES: dict[str, dict[str, Any]] = {
    "flat rates": {},
    "a broker's swaps": {"table": True},
    "a broker's swaps and spreads": {"table": True, "spreads": True, "leverage": 10.0},
    "spreads of the data, in euros": {"table": True, "spread_of_data": True, "account": "EUR"},
    "pounds by a pair that is not traded": {"more": ("GBPUSD",), "hours": 1, "table": True},
}


def world_of(case: str, seed: int) -> tuple[Any, dict[str, Any], Any, Any]:
    """The world; the same options, table and bars as its accountant wants them."""
    given = {"account": "USD", "spread_of_data": False, **ACCOUNT, **CASES[case]}
    more, hours = given.pop("more", ()), given.pop("hours", 4)
    has_table, has_spreads = given.pop("table", False), given.pop("spreads", False)
    data = wild_pairs((*PAIRS, *more), BARS, seed, hours=hours)
    rules, costs = {**RATES, **given}, {"preset": "none", **RATES}
    options = {name: value for name, value in given.items() if name != "spread_of_data"}
    amounts: dict[str, Any] = {}
    if has_table:
        rules |= {"swap_long": 0.0, "swap_short": 0.0}
        table, amounts = TABLE, dict(AMOUNTS)
        if has_spreads:
            table = {name: {**row, "spread": SPREADS[name], "spread_unit": "points"} for name, row in TABLE.items()}
            amounts["spread"] = WIDTHS
            rules["half_spread"] = 0.0
        options["broker"] = table
    if rules["spread_of_data"]:
        costs["half_spread"], rules["half_spread"] = "data", 0.0
    windows = [[k * BARS // WINDOWS, (k + 1) * BARS // WINDOWS] for k in range(WINDOWS)]
    world = forex_account(
        data=data, symbols=list(PAIRS), columns="noise", lookback=2, split=windows, time_limit=0, costs=costs,
        initial_balance=INITIAL, **options,
    )  # fmt: skip
    return world, rules, amounts, data


def worst_difference(case: str, steps: int, seed: int = 1) -> tuple[float, Counter[str], int]:
    """Over so many steps of all envs together; how often things happened; and how many steps were compared."""
    world, rules, amounts, data = world_of(case, seed)
    bank, traded = Bank(data), data.select(PAIRS)
    names = ("open", "high", "low", "close", "spread")
    prices = [{name: exact(bars[name]) for name in names} for bars in traded.bars]
    envs = rookery.make_vec(world, WINDOWS, backend="kernel")
    envs.set_parameters(window=np.arange(WINDOWS))
    envs.reset(seed=seed)
    rng, shape = np.random.default_rng(seed), (WINDOWS, *world.action_space.shape)
    accountants: dict[int, Accountant] = {}
    worst, compared, happened, actions = 0.0, 0, Counter[str](), rng.uniform(-1, 1, shape)
    while compared < steps:
        actions = np.where(rng.random(shape) < 0.15, rng.uniform(-1, 1, shape), actions).astype(np.float32)
        infos = envs.step(actions)[4]
        for env in range(WINDOWS):
            if not infos or not infos["_equity"][env]:  # it was reset
                accountants.pop(env, None)
                continue
            if env not in accountants:
                accountants[env] = Accountant(traded, prices, bank, rules, amounts, int(world.windows[env, 0]))
            theirs = accountants[env]
            told = theirs.bar(actions[env])
            assert theirs.row == infos["row"][env]
            worst = max(worst, difference(infos, env, told, theirs.book))
            compared += 1
            happened.update({name: int(told[name]) for name in ("trades", "stop_outs")})
            happened["swaps"] += bool(told["funding_cost"])
    envs.close()
    return worst, happened, compared


@pytest.mark.parametrize("case", ["a broker's swaps", "pounds by a pair that is not traded"])
def test_accounts_are_what_another_accountant_says(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)  # in plain Python
    worst, happened, _ = worst_difference(case, 600)
    assert worst < 1e-9
    assert happened["trades"] > 500 and happened["swaps"] > 20


def test_the_accountant_has_both_changes_of_the_clocks_and_weekends() -> None:
    """Five in New York is 22:00 in winter and 21:00 in summer."""
    times = wild_pairs(("EURUSD",), BARS).bars[0].times
    assert np.diff(times).max() > 2 * 86_400 and times[-1] - times[0] > 365 * 86_400
    hour = 3600
    for day, opens in (("2024-03-08", 22), ("2024-03-11", 21), ("2024-11-01", 21), ("2024-11-04", 22)):
        start = int(np.datetime64(day, "s").astype(int))
        assert [len(rollovers(start + h * hour, start + (h + 1) * hour)) for h in (20, 21, 22)] == [
            int(h == opens) for h in (20, 21, 22)
        ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_a_hundred_thousand_steps_agree_with_another_accountant(case: str) -> None:
    """Of all cases together."""
    worst, happened, compared = worst_difference(case, 100_000 // len(CASES))
    assert compared >= 100_000 // len(CASES)
    assert worst < 1e-9
    assert happened["trades"] > 10_000 and happened["swaps"] > 500
    if CASES[case].get("leverage", 25.0) > 20 and CASES[case].get("hours", 4) == 4:
        assert happened["stop_outs"] > 20
