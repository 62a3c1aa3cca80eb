"""Paths to values in a nested configuration, and how they are written in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rookery.config.fields import nested_model
from rookery.config.schema import RunConfig

Steps = Sequence[str | int]  # keys, and indices of lists


@dataclass(frozen=True)
class KeyPath:
    """A key, an item of a list, or the configuration itself."""

    steps: Steps
    model: type[BaseModel] | None  # the model there, if the value is a table
    field: FieldInfo | None  # the field there; None for an item of a list
    value: Any  # the given value

    @property
    def name(self) -> str:
        """As text, such as phases[1].opponents[0].who."""
        return path_text(self.steps)

    @property
    def nested(self) -> bool:
        """Whether it is inside a list."""
        return any(isinstance(step, int) for step in self.steps)


def find_key(path: Steps, given: Any) -> KeyPath:
    """The value at a path. The path of a pydantic error can continue into the alternatives of a type; it is followed as
    far as there are keys."""
    place = KeyPath((), RunConfig, None, given)
    for step in path:
        following = _follow(place, step)
        if following is None:
            break
        place = following
    return place


def _follow(place: KeyPath, step: str | int) -> KeyPath | None:
    steps = (*place.steps, step)
    if place.model is not None and isinstance(step, str) and step in place.model.model_fields:
        field = place.model.model_fields[step]
        shape, model = nested_model(field) or (None, None)
        return KeyPath(steps, model if shape is None else None, field, _within(place.value, step))
    shape, model = (nested_model(place.field) if place.field else None) or (None, None)
    if (shape is list and isinstance(step, int)) or (shape is dict and isinstance(step, str)):
        return KeyPath(steps, model, None, _within(place.value, step))
    return None


def _within(value: Any, step: str | int) -> Any:
    """The value at a step. A short form, such as one name instead of a list of opponents, stays as it is."""
    if isinstance(value, Mapping) and isinstance(step, str):
        return value.get(step)
    if isinstance(step, int) and isinstance(value, (list, tuple)):
        return value[step]
    return value


def path_text(steps: Steps) -> str:
    """
    >>> path_text(("phases", 1, "opponents", 0, "who"))
    'phases[1].opponents[0].who'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def path_heading(steps: Steps, given: Mapping[str, Any]) -> str:
    """The path as the beginning of a message, with the name of the phase if it has one.

    >>> path_heading(("phases", 0, "until"), {"phases": [{"name": "defence"}]})
    'phases[0] ("defence").until'
    """
    first, rest = steps[:2], steps[2:]
    name = find_key((*first, "name"), given).value if first and first[0] == "phases" and len(steps) > 1 else None
    label = f'{path_text(first)} ("{name}")' if isinstance(name, str) else path_text(first)
    return label + (path_text(("", *rest)) if rest else "")
