"""How often the gate of market worlds promotes simulated studies: a small version of `benchmarks/gate.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate_benchmark", BENCHMARKS / "gate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_noise_is_not_promoted_skill_is_and_equals_do_not_replace(gate: ModuleType) -> None:
    """The bounds leave room for the chance of 40 studies."""
    for what, market, share, _, _ in gate.rates(40, seed=3, trials=(1, 5, 40)):
        if what.startswith("skill"):
            assert share >= 0.6, market
        else:
            assert share <= 0.1, (what, market)
