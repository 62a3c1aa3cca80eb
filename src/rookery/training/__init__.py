"""Runs: an environment, a learner and a folder that remembers."""

from __future__ import annotations

from importlib.util import find_spec

import rookery.learners  # noqa: F401 - says how torch's threads wait, which has to be said before torch is imported
from rookery.errors import MissingExtra


def check_installed() -> None:
    """Say which extra brings what is missing, instead of failing somewhere inside."""
    missing = [name for name in ("torch", "numba", "openskill") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"training needs {' and '.join(missing)}: pip install 'rookery[train]'")
