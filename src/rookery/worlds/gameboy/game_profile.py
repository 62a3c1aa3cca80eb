"""Finds, reads and checks the profile of a game."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from rookery import files
from rookery.errors import ConfigError, WorldError
from rookery.files import read_plain
from rookery.worlds.gameboy.conditions import NAME, Condition
from rookery.worlds.gameboy.observe import largest, smallest
from rookery.worlds.gameboy.profile_schema import MemoryFeature, Profile

SHIPPED = Path(__file__).parent / "profiles"
LARGEST = 1 << 20  # bytes of a profile
RESERVED = ("and", "is_success", "restarted", "final_obs", "final_info", "episode")  # in conditions and infos


@dataclass(frozen=True)
class LoadedProfile:
    """A checked profile with its name and file."""

    name: str
    path: Path
    profile: Profile


def shipped() -> list[str]:
    """The names of the profiles that come with rookery.

    >>> shipped()
    ['meadow', 'oracle_of_seasons']
    """
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def find(profile: str | Path) -> LoadedProfile:
    """A profile by its name, if it comes with rookery, or by the path of its TOML file."""
    path = locate(profile)
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise WorldError(f"{path}: the profile cannot be read ({error.strerror})") from None
    return _found(path, changed)


def locate(profile: str | Path) -> Path:
    """The path of a profile's file."""
    text = str(profile)
    if (SHIPPED / f"{text}.toml").is_file() and "/" not in text:
        return SHIPPED / f"{text}.toml"
    path = Path(text).expanduser()
    if path.is_file():
        return path.resolve()
    names = f"one of {', '.join(shipped())}"
    if path.suffix == ".toml" or "/" in text:
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise WorldError(f"{text}: there is no such file{where}; a profile is the path of a TOML file, or {names}")
    near = nearest(text, shipped())
    hint = f"did you mean {near!r}?" if near else f"a profile is {names}, or the path of a TOML file"
    raise WorldError(f"there is no profile {text!r}; {hint}")


@lru_cache(maxsize=32)
def _found(path: Path, changed: int) -> LoadedProfile:
    try:
        text = read_plain(path, LARGEST).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WorldError(f"{path}: is not UTF-8 text ({error}): save it as UTF-8 in your editor") from None
    except OSError as error:
        raise WorldError(f"{path}: the profile cannot be read ({error.strerror or error})") from None
    return LoadedProfile(path.stem, path, read(text, str(path)))


def read(text: str, file: str = "profile") -> Profile:
    """A profile from its text. One ConfigError reports all problems."""
    try:
        given = files.load_toml(text.removeprefix("\ufeff"))  # a byte order mark, which some editors add
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: is not valid TOML: {error}") from None
    try:
        profile = Profile.model_validate(given)
        problems = list(_unknown_names(profile))
    except ValidationError as error:
        problems = list(validation_problems(error, Profile))
    if problems:
        raise ConfigError(problems_message(problems, file, text, given))
    return profile


def _unknown_names(profile: Profile) -> Iterator[ProfileProblem]:
    """Names that [memory] does not define, and other problems between tables."""
    for name in profile.memory:
        if not re.fullmatch(NAME, name) or name.startswith("_"):
            yield ProfileProblem(
                ("memory", name), "a name is letters, digits and _, a letter first, such as `walker_x`"
            )
        elif name in RESERVED:
            yield ProfileProblem(("memory", name), "this name is reserved by rookery: choose another")
    for place, name in _mentions(profile):
        if name not in profile.memory:
            yield ProfileProblem(place, f"there is no value `{name}` in [memory]{did_you_mean(name, profile.memory)}")
    for k, buttons in enumerate(profile.actions.buttons):
        if buttons in profile.actions.buttons[:k]:
            yield ProfileProblem(("actions", "buttons"), f"{'+'.join(buttons) or 'nothing'} is listed twice")
    if profile.observation.kind != "pixels" and not profile.observation.memory:
        yield ProfileProblem(("observation",), f"kind is {profile.observation.kind!r}, but `memory` is empty")
    size, seen = profile.observation.size, sum(seen.width for seen in profile.observation.memory)
    if size is not None and size < seen:
        yield ProfileProblem(("observation", "size"), f"it is {size}, but `memory` makes {seen} numbers")
    yield from _never(profile)
    names = [term.name for term in profile.reward]
    for k, name in enumerate(names):
        if name in names[:k]:
            yield ProfileProblem(("reward", k), f"another reward has the name {name!r}")


def _never(profile: Profile) -> Iterator[ProfileProblem]:
    """Comparisons that can never be true: mostly because of a wrong `size`, or a typing error."""
    for place, condition in _conditions(profile):
        for part in condition.parts:
            value = profile.memory.get(part.left)
            if value is None or part.right is not None:
                continue
            low, high = smallest(value), largest(value)
            if not part.can_hold(low, high):
                yield ProfileProblem(place, f"`{part.left}` ranges from {low} to {high}, so this is never true: {part}")
    for k, seen in enumerate(profile.observation.memory):
        value = profile.memory.get(seen.value)
        wrong = [] if value is None else _beyond(seen, smallest(value), largest(value))
        if value is not None and wrong:
            text = f"`{seen.value}` ranges from {smallest(value)} to {largest(value)}, so it is never {wrong[0]}"
            yield ProfileProblem(("observation", "memory", k), text)


def _beyond(seen: MemoryFeature, low: int, high: int) -> list[int | float]:
    """Numbers of a feature that a value from low to high never has."""
    if seen.minus is not None:
        return []
    exact = [seen.equals, *(seen.values if isinstance(seen.values, list) else [])]
    wrong: list[int | float] = [number for number in exact if isinstance(number, int) and not low <= number <= high]
    if seen.high is None and isinstance(seen.low, (int, float)) and seen.low >= high:
        return [*wrong, seen.low]
    return wrong


def _mentions(profile: Profile) -> Iterator[tuple[Steps, str]]:
    """Every use of a value's name, with its place in the file."""
    for k, seen in enumerate(profile.observation.memory):
        yield ("observation", "memory", k, "value"), seen.value
        for key in ("minus", "low", "high", "equals"):
            if isinstance(name := getattr(seen, key), str):
                yield ("observation", "memory", k, key), name
    for k, term in enumerate(profile.reward):
        yield from ((("reward", k, "of"), name) for name in term.of or ())
    for place, condition in _conditions(profile):
        yield from ((place, name) for name in condition.names)
    yield from ((("info", "values"), name) for name in profile.info.values)


def _conditions(profile: Profile) -> Iterator[tuple[Steps, Condition]]:
    """Every condition, with its place in the file."""
    for k, term in enumerate(profile.reward):
        if term.when is not None:
            yield ("reward", k, "when"), term.when
    for condition in profile.episode.end:
        yield ("episode", "end"), condition
    if profile.episode.success is not None:
        yield ("episode", "success"), profile.episode.success


Steps = tuple[str | int, ...]
HEADER = re.compile(r"\s*(\[\[?)([^\]]+)\]")
KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[\w.-]+)\s*=""")


@dataclass(frozen=True)
class ProfileProblem:
    """A problem at one place of a profile."""

    place: Steps
    text: str
    key: str = ""  # the unknown key at that place, if any
    instead: str = ""  # the known key that is most similar to it


def problems_message(problems: Sequence[ProfileProblem], file: str, text: str, given: Mapping[str, Any]) -> str:
    """All problems as one message."""
    lines = lines_of(text)
    sentences = []
    for problem in problems:
        line = next((lines[at] for at in _outward((*problem.place, problem.key)) if at in lines), None)
        where = heading(problem.place, given)
        sentences.append(f"{f'line {line}: ' if line else ''}{f'{where}: ' if where else ''}{problem.text}")
    if len(sentences) == 1:
        return f"{file}, {sentences[0]}" if sentences[0].startswith("line") else f"{file}: {sentences[0]}"
    return "\n  ".join([f"{file}: {len(sentences)} problems", *sentences])


def validation_problems(error: ValidationError, model: type[BaseModel]) -> Iterator[ProfileProblem]:
    """One problem per place, even if pydantic reports several; a misspelt key is not reported as missing too."""
    found: dict[Steps, ProfileProblem] = {}
    for item in error.errors(include_url=False):
        place = _without_types(item["loc"], model)
        found.setdefault(place, _problem(item, place, model))
    misspelt = {(*problem.place, problem.instead) for problem in found.values() if problem.instead}
    return (problem for place, problem in found.items() if place not in misspelt)


def did_you_mean(wrong: str, names: Iterable[str]) -> str:
    """The end of a sentence: the most similar name, or else all names.

    >>> did_you_mean("heart", ["hearts", "x"])
    '; did you mean `hearts`?'
    """
    known = list(names)
    near = nearest(wrong, known)
    if near:
        return f"; did you mean `{near}`?"
    return f"; known are {', '.join(known)}" if known else ""


def nearest(wrong: str, names: Iterable[str]) -> str:
    """The name that is most similar to a wrong one; "" if none is."""
    return next(iter(difflib.get_close_matches(wrong.lower(), list(names), n=1)), "")


def heading(place: Steps, given: Mapping[str, Any]) -> str:
    """The tables that lead to a place, written as in the file.

    >>> heading(("reward", 1, "weight"), {"reward": [{}, {"name": "new room"}]})
    '[[reward]] number 2 (new room), `weight`'
    """
    tables: list[str] = []
    rest: list[str] = []
    value: Any = given
    for step in place:
        value = value[step] if _holds(value, step) else None
        if isinstance(step, int):
            rest[-1] += f" number {step + 1}{_label(value)}"
        elif isinstance(value, Mapping) and not rest:
            tables.append(step)
        else:
            rest.append(f"[[{step}]]" if isinstance(value, list) and not tables and not rest else f"`{step}`")
    return ", ".join([f"[{'.'.join(tables)}]", *rest] if tables else rest)


def lines_of(text: str) -> dict[Steps, int]:
    """The line of each table and key of a TOML file, found by simple patterns."""
    found: dict[Steps, int] = {}
    table: Steps = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = HEADER.match(line), KEY.match(line)
        if header and not key:
            table = tuple(part.strip().strip("\"'") for part in header[2].split("."))
            if header[1] == "[[":
                found.setdefault(table, number)
                table = (*table, sum(place[:-1] == table and isinstance(place[-1], int) for place in found if place))
            found.setdefault(table, number)
        elif key:
            steps = [key[1][1:-1]] if key[1][0] in "\"'" else key[1].split(".")
            found.setdefault((*table, *steps), number)
    return found


def _problem(item: Any, place: Steps, model: type[BaseModel]) -> ProfileProblem:
    if item["type"] == "extra_forbidden":
        keys, key = list(_model_at(place[:-1], model).model_fields), str(place[-1])
        return ProfileProblem(place[:-1], f"unknown key `{key}`{did_you_mean(key, keys)}", key, nearest(key, keys))
    if item["type"] == "missing":
        return ProfileProblem(place[:-1], f"the {'key' if len(place) > 1 else 'table'} `{place[-1]}` is missing")
    if item["type"] == "value_error":
        return ProfileProblem(place, str(item["ctx"]["error"]))
    if item["type"] == "list_type":
        return ProfileProblem(place, _list_wanted(item["input"], place))
    if item["type"] == "too_short":
        return ProfileProblem(place, "it must not be empty")
    table = item["type"] in ("model_type", "model_attributes_type", "dict_type")
    wanted = re.sub("^(Input|String|List) should", "it should", item["msg"])
    message = "it should be a table with keys" if table else wanted
    return ProfileProblem(place, f"{message}, got {item['input']!r}")


def _list_wanted(given: Any, place: Steps) -> str:
    if isinstance(given, Mapping):
        return f"it is a list of tables, so write two brackets: [[{'.'.join(map(str, place))}]]"
    return f"it should be a list: write [{json.dumps(given) if isinstance(given, str) else given}]"


def _without_types(place: Sequence[Any], model: type[BaseModel]) -> Steps:
    """A place without the names of union alternatives, which pydantic appends."""
    kept: list[str | int] = []
    kind: Any = model
    for step in place:
        fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        if fields is None and not isinstance(step, int) and get_origin(kind) is not dict:
            break
        kept.append(step)
        kind = _inner(fields[str(step)].annotation if fields and step in fields else kind, fields is None)
    return tuple(kept)


def _inner(kind: Any, unpack: bool) -> Any:
    if unpack:
        parts = get_args(kind)
        kind = parts[-1] if parts else None
    while hasattr(kind, "__metadata__"):
        kind = get_args(kind)[0]
    return kind


def _model_at(place: Steps, model: type[BaseModel]) -> type[BaseModel]:
    kind: Any = model
    for step in place:
        fields = kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        kind = _inner(fields[str(step)].annotation if fields else kind, fields is None)
    return kind


def _label(table: Any) -> str:
    """The name of a table in a list, if it has one."""
    name = next((table[key] for key in ("name", "value") if _holds(table, key)), None)
    return f" ({name})" if isinstance(name, str) else ""


def _outward(place: Steps) -> Iterator[Steps]:
    for k in range(len(place), 0, -1):
        yield place[:k]


def _holds(value: Any, step: Any) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value
