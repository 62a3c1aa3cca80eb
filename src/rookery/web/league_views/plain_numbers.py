"""Values from a file that anybody may have written."""

from __future__ import annotations

import math
from typing import Any

from rookery.console import printable

LARGEST = 2**53  # a number beyond it is not exact in a browser
LONGEST_NAME = 200


def number_in(value: Any) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < LARGEST:
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def count_in(value: Any) -> int | None:
    """A whole number from 0, else None."""
    found = number_in(value)
    return int(found) if found is not None and found >= 0 and found == int(found) else None


def text_in(value: Any) -> str | None:
    """A text that can be shown, else None."""
    return printable(value)[:LONGEST_NAME] if isinstance(value, str) and value else None
