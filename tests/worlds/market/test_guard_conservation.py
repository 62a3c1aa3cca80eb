"""Initial balance + gains - costs = equity = cash + holdings, after every step of a million; both worlds, compiled."""

from __future__ import annotations

from typing import Any

import pytest

from worlds.market.conservation import OPTIONS, worst_imbalance

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the worlds are compiled


@pytest.mark.parametrize("world", OPTIONS)
def test_money_neither_appears_nor_vanishes(world: str) -> None:
    worst, steps = worst_imbalance(world, 1_000_000)
    assert steps >= 1_000_000
    assert worst < 1e-9


def without_fees(infos: dict[str, Any]) -> dict[str, Any]:
    return {**infos, "fees": 0.0 * infos["fees"]}


def with_more_cash(infos: dict[str, Any]) -> dict[str, Any]:
    return {**infos, "cash": infos["cash"] + 0.01}


@pytest.mark.parametrize("broken", [without_fees, with_more_cash])
def test_the_guard_notices_a_missing_cent(broken: Any) -> None:
    assert worst_imbalance("forex", 10_000, broken=broken)[0] > 1e-9
