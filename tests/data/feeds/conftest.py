"""A server that answers as the feeds do, a cache of its own, and no waiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from data.feeds.feed_server import FeedServer

KEY, SECRET = "PKPLANTEDKEY1234567", "s3cretPlanted/+key=987654321"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedServer]:
    served = FeedServer()
    monkeypatch.setenv("APCA_API_DATA_URL", served.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield served
    served.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ROOKERY_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited."""
    waited: list[float] = []
    monkeypatch.setattr("rookery.data.feeds.feed.sleep", waited.append)
    return waited


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setenv("APCA_API_KEY_ID", KEY)
    monkeypatch.setenv("APCA_API_SECRET_KEY", SECRET)
    return KEY, SECRET


@pytest.fixture(autouse=True)
def no_keys_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY", "ALPACA_API_KEY", "ALPACA_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
