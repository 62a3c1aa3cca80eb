"""How large a configuration can be. What is larger was not written by a person, and is refused before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rookery.errors import ConfigError

DEEPEST = 30  # tables within tables
LONGEST_KEY = 200  # characters
LONGEST_TEXT = 20_000
MOST_VALUES = 10_000
LARGEST_NUMBER = 2**63


def check_size(content: Any, where: str = "") -> None:
    """Refuse a configuration that is too large or too deep, or holds what nothing can be made of. `where` is what it is
    called in the message."""
    try:
        _walk(content)
    except ConfigError as error:
        raise ConfigError(f"{where} {error}".lstrip()) from None


def _walk(content: Any) -> None:
    left, seen = [(content, 0)], 0
    while left:
        value, depth = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            raise ConfigError(f"holds more than {MOST_VALUES:,} values, which no configuration does")
        if depth > DEEPEST:
            raise ConfigError(f"is nested too deeply: more than {DEEPEST} levels")
        _check_value(value)
        left += [(part, depth + 1) for part in _parts(value)]


def check_key(key: Any) -> None:
    """Refuse a key that is too long, or has too many dots, each of which is a level."""
    text = str(key)
    if len(text) > LONGEST_KEY or text.count(".") > DEEPEST:
        raise ConfigError(f"holds a key of {len(text):,} characters and {text.count('.'):,} dots: {text[:40]!r}...")
    if not text.isprintable():
        raise ConfigError(f"holds a key that cannot be shown: {text!r}")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        for key in value:
            check_key(key)
        return value.values()
    return value if isinstance(value, (list, tuple)) else ()


def _check_value(value: Any) -> None:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise ConfigError(f"holds a text of {len(value):,} characters: {value[:40]!r}...")
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"holds a text with a null character: {value[:40]!r}")
    if type(value) is int and abs(value) > LARGEST_NUMBER:
        raise ConfigError("holds a number beyond 2**63")
