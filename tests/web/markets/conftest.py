"""A market to look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from web.markets.recorded_market import client, copied


@pytest.fixture
def market(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.fixture
def dashboard(market: Path) -> TestClient:
    return client(market)
