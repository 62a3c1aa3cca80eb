"""What the query of an address says: names, numbers and choices. What makes no sense is an error for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rookery.web.run_folders import NotShown

LEAST_POINTS, POINTS, MOST_POINTS = 10, 1500, 20_000  # of a curve
MOST_INTEGER = 10**15
Query = Mapping[str, str]


class BadAddress(NotShown):
    """An address asks for what cannot be."""


def names_of(query: Query, key: str, most: int) -> list[str]:
    """Names divided by commas, each once."""
    names = list(dict.fromkeys(filter(None, query.get(key, "").split(","))))
    if not names:
        raise BadAddress(f"{key} is missing: name what to show, divided by commas")
    if len(names) > most:
        raise BadAddress(f"{key} has {len(names)} names; at most {most} can be requested at once")
    return names


def choice_of(query: Query, key: str, choices: Sequence[str]) -> str:
    """One of some words, of which the first is the default."""
    word = query.get(key, choices[0])
    if word not in choices:
        raise BadAddress(f"{key} is {word[:60]!r}; it should be one of {', '.join(filter(None, choices))}")
    return word


def number_of(query: Query, key: str) -> float | None:
    """A finite number, if one is given."""
    text = query.get(key, "")
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        raise BadAddress(f"{key} is {text[:60]!r}; it should be a number")
    return value


def integer_of(query: Query, key: str, least: int = 0, most: int = MOST_INTEGER) -> int | None:
    """An integer, if one is given."""
    text = query.get(key, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise BadAddress(f"{key} should be an integer from {least} to {most}, got {text[:40]!r}")
    return int(text) if text else None


def flag_of(query: Query, key: str) -> bool | None:
    """Yes or no, if it is given."""
    text = query.get(key, "")
    if text not in ("", "0", "1"):
        raise BadAddress(f"{key} should be 0 or 1, got {text[:40]!r}")
    return text == "1" if text else None


def points_of(query: Query) -> int:
    """How many points a curve may have."""
    return int(min(max(number_of(query, "points") or POINTS, LEAST_POINTS), MOST_POINTS))
