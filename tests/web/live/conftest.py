"""Servers of these tests look at files often, so that the tests are short."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.web.live.run_watcher.LOOK_SECONDS", 0.03)
    monkeypatch.setattr("rookery.web.live.table_watcher.LOOK_SECONDS", 0.03)
    monkeypatch.setattr("rookery.web.live.table_watcher.ALL_SECONDS", 0.3)
    monkeypatch.setattr("rookery.web.live.table_watcher.REST", 1)
