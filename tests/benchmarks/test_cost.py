"""What benchmarks/cost.py makes of its measurements."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def cost() -> Iterator[ModuleType]:
    """The benchmark's module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import cost

        yield cost


@pytest.mark.parametrize(("pairs", "low", "high"), [(6, 1, 6), (10, 2, 9), (12, 3, 10), (100, 40, 61)])
def test_the_interval_is_that_of_the_tables(cost: ModuleType, pairs: int, low: int, high: int) -> None:
    """By rank, as books on order statistics give it for 95 %."""
    assert cost.median_interval(np.arange(1.0, pairs + 1)) == (low, high)


def test_only_an_interval_beyond_the_limit_is_a_miss(cost: ModuleType) -> None:
    """A figure that may well be within the limit passes, and shows how sure it is."""
    unsure = cost.Cost("row", "", "", 2.5, 2.0, " %", True, 1.9, 4.0)
    sure = cost.Cost("row", "", "", 2.5, 2.0, " %", True, 2.1, 4.0)
    assert (unsure.passed, sure.passed) == (True, False)
    assert unsure.figure == "+2.5 % (+1.9 to +4.0)"


def test_a_side_that_is_slower_costs_whatever_the_machine_does(
    cost: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns that are slow for both, as on a machine that gets busier, do not change the ratio."""

    class Steady:
        def __init__(self, tree: str, row: str) -> None:
            self.slowness = {"ours": 1.25, "theirs": 1.0}[tree]

        def seconds(self, calls: int) -> float:
            turns.append(self)
            return calls * self.slowness * (1 + (len(turns) - 1) // 2)

        def close(self) -> None:
            pass

    turns: list[Steady] = []
    random.seed(1)
    monkeypatch.setattr(cost, "Side", Steady)
    ratio, _, _ = cost.pair("row", ["ours", "theirs"], 10, 8)
    assert ratio == pytest.approx(0.8)
    assert len({side.slowness for side in turns[:2]}) == 2
