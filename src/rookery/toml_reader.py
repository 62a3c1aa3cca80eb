"""Reads untrusted TOML: `tomllib` takes minutes for a key with 100,000 dots, each of which is a nested table."""

from __future__ import annotations

import tomllib
from typing import Any

MOST_DOTS = 300  # in a line


def loads(text: str) -> dict[str, Any]:
    """Like `tomllib.loads`, but a line with too many dots, or too deep nesting, is a TOMLDecodeError as well."""
    crowded = next((line for line in text.splitlines() if line.count(".") > MOST_DOTS), None)
    if crowded is not None:
        raise tomllib.TOMLDecodeError(f"a line has more than {MOST_DOTS} dots: {crowded[:40]!r}...")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
