"""What tests of videos and pictures share."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What rookery has said to the user so far."""
    caplog.set_level(logging.INFO, "rookery")
    return lambda: [record.message for record in caplog.records if record.name == "rookery"]
