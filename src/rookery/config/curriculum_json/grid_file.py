"""Grid files of older trainers: their sections, with a list of values where one value stands otherwise. The lists are
the space of a search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.config.curriculum_json.from_json import from_json
from rookery.config.layers import merge, nested
from rookery.config.validation import join_problems
from rookery.errors import ConfigError

PLACES = (("hyperparameters",), ("training",), ("agent", "hyperparameters"))
LISTS = ("hidden_dim", "latent_dim")  # whose one value is a list already
Place = tuple[str, ...]
ANY_PHASE = {"name": "all", "episodes": 1, "opponent": {"type": "basic_weak"}}  # for the translation alone


def is_grid(content: Any) -> bool:
    """Whether this is the content of a grid file."""
    return isinstance(content, Mapping) and "world" not in content and any(True for _ in _lists(content))


def from_grid(content: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with the first value of each list, and all of them in `search.space`.

    Raises:
        ConfigError: A key is unknown, a list is empty, or a value is invalid.
    """
    lists = dict(_lists(content))
    empty = [".".join(place) for place, values in lists.items() if not values]
    if empty:
        raise ConfigError(join_problems([f"`{name}` is an empty list: give values to choose from" for name in empty]))
    first = merge(content, *(_at(place, values[0]) for place, values in lists.items()))
    base = _translated(first)
    space: dict[str, Any] = {}
    for place, values in lists.items():
        space |= _dimension(
            place, [_flat(_translated(merge(first, _at(place, value)))) for value in values], _flat(base)
        )
    return merge(base, {"search": {"space": space}})


def _dimension(place: Place, found: list[dict[str, Any]], base: Mapping[str, Any]) -> dict[str, Any]:
    """The key that a list is about: the one that differs between its values."""
    keys = [key for key in dict.fromkeys([*base, *(key for one in found for key in one)]) if _differs(key, found)]
    if len(keys) > 1:
        raise ConfigError(f"`{'.'.join(place)}` changes more than one key ({', '.join(keys)}): give one value")
    values = [one.get(key) for key in keys for one in found]
    return {key: {"choice": [value for k, value in enumerate(values) if value not in values[:k]]} for key in keys}


def _differs(key: str, found: list[dict[str, Any]]) -> bool:
    return any(one.get(key) != found[0].get(key) for one in found)


def _translated(content: Mapping[str, Any]) -> dict[str, Any]:
    """A file without a curriculum is about the world as it is, with its own length of an episode."""
    if "curriculum" in content:
        return from_json(content)
    plain = from_json({**content, "curriculum": {"phases": [ANY_PHASE]}})
    found = {key: value for key, value in plain.items() if key != "phases"}
    length = content.get("training", {}).get("max_episode_steps")
    return found if length is None else {**found, "episode_length": length}


def _lists(content: Mapping[str, Any]) -> Iterator[tuple[Place, list[Any]]]:
    for section in PLACES:
        table: Any = content
        for name in section:
            table = table.get(name) if isinstance(table, Mapping) else None
        for name, value in table.items() if isinstance(table, Mapping) else ():
            if isinstance(value, list) and (name not in LISTS or any(isinstance(item, list) for item in value)):
                yield (*section, str(name)), value


def _at(place: Place, value: Any) -> dict[str, Any]:
    return nested(".".join(place), value)


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{prefix}{name}"
        found |= _flat(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return found
