"""Torch's threads sleep soon while they wait, unless the user has said how they wait."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
CODE = """
import os, sys
class AtTorch:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"))
            os._exit(0)
sys.meta_path.insert(0, AtTorch)
"""


@pytest.mark.parametrize("use", ["rookery.train", "rookery.load", "rookery.PPO", "rookery.learners.PPO"])
def test_it_is_said_before_torch_is_imported(use: str) -> None:
    """libgomp reads it when it is loaded, with torch."""
    assert spins_at_torch(use) == "5000"


def test_what_the_user_has_said_stays() -> None:
    """Either of the two ways to say it."""
    assert spins_at_torch("rookery.train", GOMP_SPINCOUNT="7") == "7"
    assert spins_at_torch("rookery.train", OMP_WAIT_POLICY="active") == "None"


def spins_at_torch(use: str, **said: str) -> str:
    """The variable at the moment at which an expression first imports torch."""
    code = f"{CODE}\nimport {use.rpartition('.')[0]}\n{use}"
    known = {name: value for name, value in os.environ.items() if name not in NAMES}
    answer = subprocess.run([sys.executable, "-c", code], env=known | said, capture_output=True, text=True, timeout=60)
    return answer.stdout.strip()
