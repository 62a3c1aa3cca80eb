"""The same episodes in every run of the tests: with others, a rare draw turns a comparison of agents."""

from __future__ import annotations

import random

import pytest

from rookery.deploy import comparison


@pytest.fixture(autouse=True)
def drawn_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons draw their seeds from a fixed one."""
    monkeypatch.setattr(comparison.secrets, "randbits", random.Random(1).getrandbits)
