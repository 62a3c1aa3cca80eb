"""Reads tables of an old file, and lists every mistake with the file's own names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from rookery.config.fields import closest_names, valid_values
from rookery.config.layers import MISSING
from rookery.console import join_or

LONGEST_VALUE = 60


class TableReader:
    """Reads values from tables, and collects the problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def table(self, value: Any, place: str, known: Iterable[str]) -> dict[str, Any]:
        """The known keys of a table, except those that are null."""
        if value is MISSING or value is None:
            return {}
        if not isinstance(value, Mapping):
            self.wrong(place, f"a table with the keys {', '.join(known)}", value)
            return {}
        names = list(known)
        for key in value:
            if key not in names:
                self.problems.append(unknown(f"{place}: " if place else "", str(key), names))
        return {str(key): item for key, item in value.items() if key in names and item is not None}

    def wrong(self, place: str, wanted: str, got: Any) -> Any:
        """Add a problem about an invalid value. Returns MISSING."""
        shown = repr(got)
        shown = shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}..."
        self.problems.append(f"`{place}` should be {wanted}, got {shown}")
        return MISSING

    def checked(self, place: str, value: Any, field: FieldInfo, words: str = "") -> Any:
        """A value, validated by the current field of the same meaning."""
        if isinstance(value, float) and value.is_integer() and field.annotation is int:
            value = int(value)
        try:
            kind: Any = Annotated[field.annotation, field]
            return TypeAdapter(kind).validate_python(value, strict=True)
        except ValidationError:
            return self.wrong(place, words or valid_values(field), value)

    def one_of(self, place: str, value: Any, names: Mapping[str, Any]) -> Any:
        """The meaning of a name, in upper or lower case."""
        found = {name.lower(): meaning for name, meaning in names.items()}
        if isinstance(value, str) and value.lower() in found:
            return found[value.lower()]
        return self.wrong(place, join_or([f'"{name}"' for name in names]), value)

    def flag(self, place: str, value: Any) -> Any:
        return value if isinstance(value, bool) else self.wrong(place, "true or false", value)

    def weights(self, items: Iterable[tuple[str, Any, Any]], place: str) -> list[tuple[Any, float]]:
        """(thing, weight) of each (place, thing, weight) whose weight is > 0."""
        weighted = []
        for where, thing, weight in items:
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
                self.wrong(where, "a number >= 0", weight)
            elif weight > 0 and thing is not MISSING:
                weighted.append((thing, float(weight)))
        if not weighted and not self.problems:
            self.problems.append(f"`{place}`: at least one weight should be > 0")
        return weighted


def unknown(beginning: str, key: str, names: list[str]) -> str:
    """A sentence about an unknown key, with the closest or all valid ones."""
    near = closest_names(key, names)
    if near:
        return f"{beginning}unknown key `{key}`; did you mean {join_or([f'`{name}`' for name in near])}?"
    return f"{beginning}unknown key `{key}`; the keys there are {', '.join(names)}"
