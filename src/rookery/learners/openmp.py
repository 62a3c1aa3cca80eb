"""How long torch's threads spin before they sleep."""

from __future__ import annotations

import os

SPINS = "5000"  # with 1,000, TD3 on two free cores made a quarter fewer steps; with 5,000 as many


def wait_briefly() -> None:
    """Have torch's threads sleep soon while they wait. By default libgomp spins 300,000 times, which keeps a core from
    the thread that is awaited if another program runs there (docs/resources.md has figures).

    It must be called before torch is imported. What the user has set stays."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
