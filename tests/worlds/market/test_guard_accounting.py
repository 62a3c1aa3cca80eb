"""The same orders on the same bars are worth the same in vectorbt; and a world that fills too early is found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from worlds.market.accounts import CASES, worst_difference

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),  # vectorbt compiles at first
    pytest.mark.filterwarnings("ignore"),  # of vectorbt and its libraries
]


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vectorbt", reason="pip install rookery[bench]", exc_type=ImportError)
    monkeypatch.setattr("rookery.data.shared_tables.cache_folder", lambda name: None)


@pytest.mark.parametrize("name", CASES)
def test_random_sequences_give_the_equity_of_vectorbt(name: str) -> None:
    """50 of each kind, 200 in all, with fees; in forex with shorts."""
    assert worst_difference(name, 50) < 1e-6


def fill_at_the_close_just_seen(world: Any) -> None:
    """Orders fill at the close that decided them: the error that makes back tests look best."""
    bars = np.array(world.tables["bars"])
    bars[1:, ..., 0] = bars[:-1, ..., 1]
    world.tables["bars"] = bars


def fill_at_the_close_to_come(world: Any) -> None:
    bars = np.array(world.tables["bars"])
    bars[..., 0] = bars[..., 1]
    world.tables["bars"] = bars


@pytest.mark.parametrize("change", [fill_at_the_close_just_seen, fill_at_the_close_to_come])
@pytest.mark.parametrize("name", CASES)
def test_the_guard_notices_fills_at_another_price(name: str, change: Any) -> None:
    assert worst_difference(name, 3, change) > 1e-3
