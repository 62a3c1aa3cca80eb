"""Limits of a configuration's size, checked before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rookery.errors import ConfigError

DEEPEST = 30  # tables within tables
LONGEST_KEY = 200  # characters
LONGEST_TEXT = 20_000
MOST_VALUES = 10_000
LARGEST_NUMBER = 2**63
LARGEST_AGENT = 2 << 30  # bytes of saved weights


def check_size(content: Any, where: str = "") -> None:
    """Refuse a configuration that is too large or nested too deeply, or holds an unusable value. `where` names it
    in the message."""
    try:
        _check(content)
    except ConfigError as error:
        raise ConfigError(f"{where} {error}".lstrip()) from None


def _check(content: Any) -> None:
    left, seen = [(content, 0)], 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ConfigError(f"holds more than {MOST_VALUES:,} values, too many for a configuration")
        if depth > DEEPEST:
            raise ConfigError(f"is nested too deeply: more than {DEEPEST} levels")
        _check_value(value)
        left += [(part, depth + 1) for part in _parts(value)]


def check_key(key: Any) -> None:
    """Refuse a key that is too long or has too many dots."""
    text = str(key)
    if len(text) > LONGEST_KEY or text.count(".") > DEEPEST:
        raise ConfigError(f"holds a key of {len(text):,} characters and {text.count('.'):,} dots: {text[:40]!r}...")
    if not text.isprintable():
        raise ConfigError(f"holds a key with unprintable characters: {text!r}")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for key in value:
            check_key(key)
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _check_value(value: Any) -> None:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ConfigError(f"holds a string of {len(value):,} characters: {value[:40]!r}...")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"holds a string with a null character: {value[:40]!r}")
    if type(value) is int and abs(value) > LARGEST_NUMBER:
        raise ConfigError("holds a number > 2**63 or < -2**63")
