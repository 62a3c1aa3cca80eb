"""Finds, reads and checks the profile of a game."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from rookery import toml_reader
from rookery.errors import ConfigError, WorldError
from rookery.files import read_plain
from rookery.worlds.gameboy.conditions import NAME, Condition
from rookery.worlds.gameboy.memory_reader import largest, smallest
from rookery.worlds.gameboy.profile_errors import (
    ProfileProblem,
    Steps,
    did_you_mean,
    nearest,
    problems_message,
    validation_problems,
)
from rookery.worlds.gameboy.schema import MemoryFeature, Profile

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
        given = toml_reader.loads(text.removeprefix("\ufeff"))  # a byte order mark, which some editors add
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
