"""Where something is in a nested configuration: under which key of which table, and how that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rookery.config.fields import part_of
from rookery.config.schema import RunConfig

Steps = Sequence[str | int]  # the keys, and numbers within lists, that lead somewhere


@dataclass(frozen=True)
class KeyPath:
    """A key, an item of a list, or the configuration itself."""

    steps: Steps
    model: type[BaseModel] | None  # whose keys may stand there, if any may
    field: FieldInfo | None  # what may stand there; None for an item of a list
    value: Any  # what was given

    @property
    def name(self) -> str:
        """As one would write it: phases[1].opponents[0].who."""
        return written(self.steps)

    @property
    def nested(self) -> bool:
        """Whether it is in a list, where names alone do not say which item is meant."""
        return any(isinstance(step, int) for step in self.steps)


def find(path: Steps, given: Any) -> KeyPath:
    """The place that a path leads to. An error's path may go on into the items and alternatives of a value; it is
    followed as far as there are keys."""
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
        shape, model = part_of(field) or (None, None)
        return KeyPath(steps, model if shape is None else None, field, _within(place.value, step))
    shape, model = (part_of(place.field) if place.field else None) or (None, None)
    if (shape is list and isinstance(step, int)) or (shape is dict and isinstance(step, str)):
        return KeyPath(steps, model, None, _within(place.value, step))
    return None


def _within(value: Any, step: str | int) -> Any:
    """What a step leads to. Of a short form, such as one name or table for a list of opponents, it is the form
    itself."""
    if isinstance(value, Mapping) and isinstance(step, str):
        return value.get(step)
    if isinstance(step, int) and isinstance(value, (list, tuple)):
        return value[step]
    return value


def written(steps: Steps) -> str:
    """
    >>> written(("phases", 1, "opponents", 0, "who"))
    'phases[1].opponents[0].who'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def heading(steps: Steps, given: Mapping[str, Any]) -> str:
    """The same for the start of a sentence, with the name of the phase, if it has one.

    >>> heading(("phases", 0, "until"), {"phases": [{"name": "defence"}]})
    'phases[0] ("defence").until'
    """
    first, rest = steps[:2], steps[2:]
    name = find((*first, "name"), given).value if first and first[0] == "phases" and len(steps) > 1 else None
    label = f'{written(first)} ("{name}")' if isinstance(name, str) else written(first)
    return label + (written(("", *rest)) if rest else "")
