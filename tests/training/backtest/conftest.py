"""What holds for all tests of reports."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fewer_samples(monkeypatch):
    """Intervals of fewer samples, which are as good for a test."""
    monkeypatch.setattr("rookery.training.backtest.summary.FEWEST_SAMPLES", 100)
    monkeypatch.setattr("rookery.training.backtest.summary.SAMPLES", 100)
    monkeypatch.setattr("rookery.training.backtest.summary.TEST_SAMPLES", 499)
