"""Initial balance + gains - costs = equity = cash + holdings, after every step of a million; all worlds, compiled."""

from __future__ import annotations

from typing import Any

import pytest

from worlds.market.conservation import OPTIONS, balanced

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # the worlds are compiled


@pytest.mark.parametrize("world", OPTIONS)
def test_money_neither_appears_nor_vanishes(world: str) -> None:
    ledger = balanced(world, 1_000_000)
    assert ledger.steps >= 1_000_000
    assert ledger.worst < 1e-9
    assert ledger.excess < 1e-6  # of a currency unit


def without_fees(infos: dict[str, Any]) -> dict[str, Any]:
    return {**infos, "fees": 0.0 * infos["fees"]}


def with_more_cash(infos: dict[str, Any]) -> dict[str, Any]:
    return {**infos, "cash": infos["cash"] + 0.01}


@pytest.mark.parametrize("broken", [without_fees, with_more_cash])
def test_the_guard_notices_a_missing_cent(broken: Any) -> None:
    assert balanced("forex", 10_000, broken=broken).worst > 1e-9


def test_the_guard_notices_costs_beyond_the_rates() -> None:
    dearer = lambda infos: {**infos, "fees": 3 * infos["fees"]}  # noqa: E731
    assert balanced("forex", 10_000, broken=dearer).excess > 1
