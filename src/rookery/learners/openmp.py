"""How the threads of a product wait for one another."""

from __future__ import annotations

import os

SPINS = "1000"  # what libgomp itself takes where it knows of more threads than cores


def wait_briefly() -> None:
    """Have torch's threads sleep soon while they wait. By default libgomp spins 300,000 times, which keeps a core from
    the thread that is awaited if another program runs there: two runs of TD3 side by side took 187 s, and take 7 s.

    It must be called before torch is imported. What the user has set stays."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
