"""Reads untrusted TOML: `tomllib` takes minutes for a key with 100,000 dots, each of which is a nested table, and for
thousands of keys with hundreds of them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_DOTS = 300  # in a line, with those of its numbers and texts
DEEPEST = 40  # tables that one key may name
PART = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
DEEP_KEY = re.compile(rf"(?:^|[{{,])[ \t]*\[{{0,2}}[ \t]*(?:{PART}[ \t]*\.[ \t]*){{{DEEPEST}}}", re.MULTILINE)


def loads(text: str) -> dict[str, Any]:
    """Like `tomllib.loads`, but a line with too many dots, or too deep nesting, is a TOMLDecodeError as well."""
    crowded = next((line for line in text.splitlines() if line.count(".") > MOST_DOTS), None)
    if crowded is not None:
        raise tomllib.TOMLDecodeError(f"a line has more than {MOST_DOTS} dots: {crowded[:40]!r}...")
    if DEEP_KEY.search(text):
        raise tomllib.TOMLDecodeError(f"a key names more than {DEEPEST} tables within each other")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None
