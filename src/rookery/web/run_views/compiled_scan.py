"""The compiled `_scan.c`; None if rookery was installed without a C compiler, or an older version has built it."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

compiled: Any = None
with suppress(ImportError):
    compiled = import_module("rookery.web.run_views._scan")
    compiled = compiled if hasattr(compiled, "columns") else None
