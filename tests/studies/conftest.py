"""Databases for the tests of studies."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from studies.postgres import Server, programs

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests; it takes two seconds to start."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with Server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """A new database."""
    return postgres.new_database(f"test{next(_numbers)}")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def storage(request: pytest.FixtureRequest) -> str | None:
    """Where a study is stored: in its folder, or in PostgreSQL."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")
