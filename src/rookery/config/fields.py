"""The keys of the configuration with dots, the valid values of each as text, the keys closest to a wrong one, and paths
to values in a nested configuration, as messages write them."""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rookery.config.layers import OLD_NAMES
from rookery.config.schema import RunConfig
from rookery.console import join_or
from rookery.foreign_options import OPTIONS, SAME, known_names
from rookery.learners.registry import specs

CLOSE, CLOSE_KEY = 0.6, 0.75
LARGE = 2**31  # larger limits are technical, and are not shown
SINGULAR = {int: "an integer", float: "a number", str: "a string", dict: "a table of keys and values"}
PLURAL = {int: "integers", float: "numbers", str: "strings"}
SYMBOLS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


@cache
def fields() -> dict[str, FieldInfo]:
    """Every key that holds a value, in the order of the schema; keys outside sections come first, as in TOML."""
    found = {key: field for key, field in _walk(RunConfig) if not _is_section(field)}
    return dict(sorted(found.items(), key=lambda item: "." in item[0]))


@cache
def sections() -> tuple[str, ...]:
    """The keys that hold other keys."""
    return tuple(key for key, field in _walk(RunConfig) if _is_section(field))


def fields_help() -> list[tuple[str, str, str, str]]:
    """For each key: its name with dots, its valid values, its default as TOML, and its description."""
    return [(key, valid_values(field), default_of(field), field.description or "") for key, field in fields().items()]


def valid_values(field: FieldInfo) -> str:
    """The valid values of a field, as text.

    >>> valid_values(fields()["num_envs"]), valid_values(fields()["ppo.gamma"])
    ('an integer >= 1, "auto" or "adaptive"', 'a number > 0 and <= 1')
    """
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "words" in extra:
        return str(extra["words"])
    return join_or(_alternatives(field.annotation, field.metadata))


def kinds(field: FieldInfo) -> set[Any]:
    """The plain types of a field's valid values, such as {int, None}."""
    return set(_kinds(field.annotation))


def nested_model(field: FieldInfo) -> tuple[Any, type[BaseModel]] | None:
    """The container and the model, if a field holds a model (container None), a `list` or a `dict` of models.

    >>> nested_model(fields()["phases"])
    (<class 'list'>, <class 'rookery.config.sections.Phase'>)
    """
    for annotation in _parts(field.annotation):
        origin, inner = get_origin(annotation), (get_args(annotation) or (annotation,))[-1]
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            return origin, inner
    return None


def key_named(name: str) -> str | None:
    """How `--set` takes a key of this name: names of other libraries as they are, others with their section.

    >>> key_named("num_envs"), key_named("ent_coef"), key_named("clip"), key_named("nothing")
    ('num_envs', 'ent_coef', 'ppo.clip', None)
    """
    if name in OLD_NAMES or name in dict(known_names()):
        return name
    return next((key for key in fields() if name in (key, key.rpartition(".")[2])), None)


def setting(name: str) -> str:
    """What `--set` takes for a key of this name.

    >>> setting("ent_coef"), setting("wandb"), setting("world_options")
    ('ent_coef=VALUE', 'monitor.wandb=true', 'world_options.NAME=VALUE')
    >>> setting("size")
    'league.size=VALUE; for an option of the world, --set world_options.size=VALUE'
    """
    key = meaning(name) or name
    kind = kinds(fields()[key]) if key in fields() else set()
    value = ".NAME=VALUE" if dict in kind else "=true" if kind == {bool} else "=VALUE"
    world = f"; for an option of the world, --set world_options.{name}=VALUE" if is_far(key, name) else ""
    return f"{key_named(name)}{value}{world}"


def is_far(key: str, name: str) -> bool:
    """Whether a name without a section may be an option of the world rather than this key of a section."""
    section = key.partition(".")[0]
    return key != name and "." in key and section not in (*specs(), "monitor", "evaluation", "checkpoints")


def meaning(name: str) -> str | None:
    """The key that a name of a key, of ours or of another library, means; the first, if it means several.

    >>> meaning("n_envs"), meaning("ent_coef"), meaning("clip"), meaning("nothing")
    ('num_envs', 'ppo.entropy', 'ppo.clip', None)
    """
    known = dict(reversed(known_names())) | OLD_NAMES
    return known.get(name) or next((key for key in fields() if name in (key, key.rpartition(".")[2])), None)


def closest_names(wrong: str, names: Iterable[str], cutoff: float = CLOSE) -> list[str]:
    """The names most similar to a wrong one, if any is similar."""
    return _best(wrong.lower().replace("-", "_"), [(name, name) for name in names], cutoff)


def closest_keys(unknown: str, learner: str | None = None) -> list[str]:
    """The known keys most similar to an unknown one, with their dots: those of its own section if they are close, else
    of any section, except those of learners that are not chosen."""
    section, _, leaf = unknown.rpartition(".")
    leaf = leaf.lower().replace("-", "_")
    names = [(key.rpartition(".")[2], key) for key in [*fields(), *sections()]]
    own = _best(leaf, [(name, key) for name, key in names if key == f"{section}.{name}"], CLOSE_KEY)
    own = own or _best(leaf, [(name, f"{section}.{key}") for name, key in OPTIONS.get(section, {}).items()], CLOSE_KEY)
    if own:
        return own
    found = _best(leaf, [*names, *OLD_NAMES.items(), *known_names()], CLOSE_KEY)
    if learner in specs():
        others = tuple(f"{name}." for name in specs() if name != learner)
        found = [key for key in found if not key.startswith(others)] or found
    leaves = {key.rpartition(".")[2] for key in found}
    return [*leaves] if len(found) > 1 and len(leaves) == 1 and leaves < {*SAME} else found[:4]


def keys_of(section: str) -> list[str]:
    """The keys of a section; "" is the top level."""
    return [key.rpartition(".")[2] for key in [*fields(), *sections()] if key.rpartition(".")[0] == section]


def _walk(model: type[BaseModel], prefix: str = "") -> Iterable[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield prefix + name, field
        if _is_section(field):
            yield from _walk(field.annotation, f"{prefix}{name}.")  # type: ignore[arg-type]


def _is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _best(leaf: str, names: list[tuple[str, str]], cutoff: float) -> list[str]:
    """The keys whose name is most similar to `leaf`, if any is similar."""
    scores = [(_similarity(leaf, name), key) for name, key in names]
    best = max((score for score, _ in scores), default=0.0)
    return list(dict.fromkeys(key for score, key in scores if score == best >= cutoff))


def _similarity(wrong: str, name: str) -> float:
    ratio = difflib.SequenceMatcher(None, wrong, name).ratio()
    if len(wrong) >= 3 and name.startswith(wrong):  # `eval` for `evaluation`
        return (1 + ratio) / 2
    words, known = set(wrong.split("_")), set(name.split("_"))
    return (
        max(ratio, 0.75 + 0.2 * len(known) / len(words)) if known < words and len(max(known, key=len)) > 3 else ratio
    )  # `clip_eps` for `clip`


def default_of(field: FieldInfo) -> str:
    """A field's default as TOML: an example if the field is required, "" if it has no default."""
    if field.default is PydanticUndefined:
        return '"CartPole-v1"'
    return "" if field.default is None else json.dumps(field.default)


def _parts(annotation: Any) -> list[Any]:
    """The alternatives of a type."""
    if get_origin(annotation) is Annotated:
        return _parts(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [kind for part in get_args(annotation) for kind in _parts(part)]
    return [annotation]


def _kinds(annotation: Any) -> list[Any]:
    found = []
    for part in _parts(annotation):
        literal = get_origin(part) is Literal
        found += [type(value) for value in get_args(part)] if literal else [get_origin(part) or part]
    return [None if kind is type(None) else kind for kind in found]


def _alternatives(annotation: Any, metadata: Iterable[Any] = ()) -> list[str]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [limit for item in parts[1:] for limit in getattr(item, "metadata", [item])]
        return _alternatives(parts[0], limits)
    if origin in (Union, types.UnionType):
        return [text for part in parts if part is not type(None) for text in _alternatives(part, metadata)]
    if origin is Literal:
        return [json.dumps(value) for value in parts]
    if annotation is bool:
        return ["true", "false"]
    if origin is list:
        return [f"a list of {PLURAL.get(_kinds(parts[0])[0], 'tables')}{_limits_within(parts[0])}"]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [f"a table with the keys {', '.join(annotation.model_fields)}"]
    if annotation is str and any(hasattr(item, "min_length") for item in metadata):
        return ["a non-empty string"]
    return [SINGULAR[origin or annotation] + (_limits(metadata) if annotation in (int, float) else "")]


def _limits_within(annotation: Any) -> str:
    """Those of an annotated type, such as the items of a list."""
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return _limits(limit for item in metadata for limit in getattr(item, "metadata", [item]))


def _limits(metadata: Iterable[Any]) -> str:
    bounds = {name: getattr(item, name) for item in metadata for name in SYMBOLS if hasattr(item, name)}
    shown = [f" {symbol} {bounds[name]}" for name, symbol in SYMBOLS.items() if bounds.get(name, LARGE) < LARGE]
    return " and".join(shown)


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
