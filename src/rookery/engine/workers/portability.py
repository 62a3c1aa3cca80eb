"""Which of two ways worker processes use: what Linux offers, or only what CPython offers on every system."""

from __future__ import annotations

import os

LINUX_NAMES = (
    "memfd_create",
    "eventfd",
    "pidfd_open",
)  # memory, wake-ups, deaths
_forced = os.environ.get("ROOKERY_PORTABLE", "") not in ("", "0")
PORTABLE = _forced or not all(hasattr(os, name) for name in LINUX_NAMES)
