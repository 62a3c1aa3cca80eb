"""Error messages for a profile, with the line in the file."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

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
    return kind  # type: ignore[no-any-return]


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
