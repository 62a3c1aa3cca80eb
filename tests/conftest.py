"""What holds for the whole suite."""

from __future__ import annotations

import gc

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Tests that look for what is left behind collect garbage first. Imported modules and the list of tests are none,
    and looking through them would take longer than most tests."""
    gc.collect()
    gc.freeze()
