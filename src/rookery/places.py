"""Where rookery keeps what it may find again but can do without."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """`$ROOKERY_CACHE`, or rookery/KIND in the user's cache folder."""
    named, base = os.environ.get("ROOKERY_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if named:
        return Path(named)
    try:
        return Path(base or Path.home() / ".cache") / "rookery" / kind
    except RuntimeError:  # nobody's home, as in some containers
        return Path(tempfile.gettempdir()) / f"rookery-{os.getuid()}" / kind
