"""The one gate: what a file names outside itself (code, paths, hosts, commands), and what the user has allowed.

A run, a study or an agent may come from a stranger. Each field that can reach outside says so where it is declared:

    callbacks: Annotated[list[str], Reaches("code")]

`reaches` walks a validated model by these marks. Names from the user of this process are allowed; names from a recorded
file are allowed once the user has agreed (see training/storage/trust.py). The functions that import a file, write
outside or connect call `demand`, which raises for anything else, so that a caller who forgets the gate fails.
"""

from __future__ import annotations

import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rookery.errors import NotAllowed

Kind = Literal["code", "files", "network", "command"]
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
LOCAL_URL = re.compile(r"(file|local)://", re.IGNORECASE)
REGISTRY = "registry:"  # begins the name of a version in a registry of agents
VERBS = {
    "code": "it would run code:", "files": "it would use files outside its own folder:",
    "network": "it would connect to", "command": "it would run the command",
}  # fmt: skip

_allowed: set[tuple[Kind, str]] = set()
_follows_parent: list[bool] = []  # not empty in a process that only does what a process of ours tells it


class Reaches:
    """The mark of a field whose value can reach outside, as metadata of its annotation.

    Args:
        kinds: What it can reach. A value of a field with several kinds is told apart by its form.
        when_playing: Also if the agent only plays, as in an evaluation; otherwise only while it trains.
        name: What is reached if the value, such as true, does not name it.
    """

    def __init__(self, *kinds: Kind, when_playing: bool = False, name: str = "") -> None:
        self.kinds, self.when_playing, self.name = kinds, when_playing, name


@dataclass(frozen=True)
class Inside:
    """The mark of a field that holds text and reaches nothing, with the reason."""

    why: str


@dataclass(frozen=True)
class Reach:
    """One thing outside that a file names."""

    kind: Kind
    key: str  # as in phases[0].learner.network
    value: str

    def __str__(self) -> str:
        return f"{VERBS[self.kind]} {self.value:.200} (`{self.key}`)"


# --- what a model reaches ---------------------------------------------------------------------------------------------


def reaches(model: Any, playing: bool = False, key: str = "") -> Iterator[Reach]:
    """What a validated model names outside, by the marks of its fields, those of nested models included. `playing`
    leaves out what only training reaches."""
    for name, field in type(model).model_fields.items():
        mark = next((item for item in field.metadata if isinstance(item, Reaches)), None)
        value, place = getattr(model, name), f"{key}.{name}" if key else name
        if mark is not None and (mark.when_playing or not playing):
            yield from _marked(mark, value, place)
        for where, part in _models(value, place):
            yield from reaches(part, playing, where)


def _marked(mark: Reaches, value: Any, key: str) -> Iterator[Reach]:
    if mark.name and value is True:
        yield Reach(mark.kinds[0], key, mark.name)
    for where, text in texts(value, key):
        if len(mark.kinds) == 1 and mark.kinds != ("code",):
            yield Reach(mark.kinds[0], where, text)
        elif (kind := kind_of(text)) in mark.kinds:
            yield Reach(kind, where, text)


def kind_of(text: str) -> Kind | None:
    """What a text of any meaning would reach, by its form; None for a name or a word.

    >>> kind_of("world.py:Walk"), kind_of("s3://bucket/runs"), kind_of("../data"), kind_of("ppo")
    ('code', 'network', 'files', None)
    """
    if ".py:" in text or text.endswith(".py"):
        return "code"
    if LOCAL_URL.match(text) or text.startswith(REGISTRY):
        return "files"
    if URL.match(text):
        return "network"
    if any(mark in text for mark in ("/", "\\", "\0")) or text.startswith("~") or text in (".", ".."):
        return "files"
    return "files" if text and len(text) < 256 and os.path.lexists(text) else None


def texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts in a value of lists and tables, each with its key; keys of tables are texts too."""
    if isinstance(value, (str, os.PathLike)):
        yield key, os.fspath(value)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from texts(name, f"{key}.{name}")
            yield from texts(item, f"{key}.{name}")
    elif isinstance(value, (list, tuple, set, frozenset)):
        for number, item in enumerate(value):
            yield from texts(item, f"{key}[{number}]")


def _models(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The models in a value, each with its key."""
    if hasattr(type(value), "model_fields"):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _models(item, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _models(item, f"{key}[{number}]")


# --- what is allowed --------------------------------------------------------------------------------------------------


def allow(found: Iterable[Reach]) -> None:
    """The user of this process has named these, or agreed to them."""
    _allowed.update((reach.kind, _identity(reach.kind, reach.value)) for reach in found)


def allow_given(value: Any) -> None:
    """The same for all that a value of the user's own names: a text, or lists and tables of them."""
    allow(Reach(kind, key, text) for key, text in texts(value) if (kind := kind_of(text)) is not None)


def follow_parent() -> None:
    """Allow everything in this process: it does only what its parent, a process of ours that has asked the user, tells
    it over a private channel."""
    _follows_parent.append(True)


def is_allowed(kind: Kind, value: str) -> bool:
    """Whether the user of this process has allowed it. Code that was imported before counts as allowed."""
    identity = _identity(kind, value)
    return bool(_follows_parent) or (kind, identity) in _allowed or (kind == "code" and identity in sys.modules)


def demand(kind: Kind, value: str | os.PathLike[str], key: str) -> None:
    """Raise NotAllowed unless the user has allowed it. `key` is what names it, for the message."""
    text = os.fspath(value)
    if not is_allowed(kind, text):
        what = f"`{key}`: {VERBS[kind]} {text:.200}, to which you have not agreed"
        raise NotAllowed(f"{what}; if you trust where it comes from, --trust (trust=True in Python) continues")


def code_file(text: str) -> str:
    """The Python file that a text names, as in "file.py:Name" or "file.py"."""
    return text.rpartition(":")[0] if ".py:" in text else text


def module_name(path: str) -> str:
    """The module name of a file that is imported by its path: the same in every process (`hash` is not), as objects of
    its classes are pickled by it."""
    file = Path(path).resolve()
    return f"rookery_file_{file.stem}_{zlib.crc32(str(file).encode()):x}"


def _identity(kind: Kind, value: str) -> str:
    if kind == "code":
        return module_name(code_file(value))
    if kind == "files" and not URL.match(value):
        return os.path.realpath(os.path.expanduser(value))
    return value
