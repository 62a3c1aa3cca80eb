"""What holds for all tests of reports."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def fewer_samples(monkeypatch):
    """Intervals of fewer samples, which are as good for a test."""
    monkeypatch.setattr("rookery.training.backtest.report_summary.FEWEST_SAMPLES", 100)
    monkeypatch.setattr("rookery.training.backtest.report_summary.SAMPLES", 100)
    monkeypatch.setattr("rookery.training.backtest.report_summary.TEST_SAMPLES", 499)
