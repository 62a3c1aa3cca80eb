"""A registry of agents as its readers see it: which version is the champion, where it is, and whether it is whole.

    DIR/registry.json         that this is a registry, and of which format
    DIR/aliases.json          the numbers of champion, challenger and previous; replaced by rename, never written into
    DIR/versions/000012/      a run's folder with one checkpoint, and `version.json` with the SHA-256 of every file
    DIR/outputs/000012/       videos and reports about that version, as the version itself never changes
    DIR/audit.jsonl           every change, see `rookery.deploy.registry_files`

An agent in it is named `registry:DIR@champion`, `registry:DIR@12`, or `registry:DIR`, which is the champion.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from rookery.console import printable
from rookery.errors import FileError, RegistryError
from rookery.files import open_plain, read_plain

PREFIX = "registry:"
ALIASES = ("champion", "challenger", "previous")
FORMAT = 1
MARKER, ALIASES_FILE, VERSIONS, ABOUT, OUTPUTS = "registry.json", "aliases.json", "versions", "version.json", "outputs"
LARGEST = 16 << 20  # bytes of a file that is read at once
NUMBER = re.compile(r"[0-9]{1,9}")
VERSION_NAME = re.compile(r"[0-9]{6,9}")


class RegistryName(NamedTuple):
    """The parts of `registry:DIR@WHICH`."""

    folder: Path
    which: str


def registry_name(name: str | Path) -> RegistryName | None:
    """The parts of the name of an agent in a registry; None if it is not one.

    >>> registry_name("registry:agents/crypto@previous").which, registry_name("registry:agents").which
    ('previous', 'champion')
    >>> registry_name("runs/first")
    """
    text = str(name)
    if not text.startswith(PREFIX):
        return None
    text = text.removeprefix(PREFIX)
    folder, at, which = text.rpartition("@")
    if not at or "/" in which or (Path(text).expanduser() / MARKER).is_file():  # a folder's name may hold an @
        folder, which = text, "champion"
    if not folder or "\0" in folder:
        raise RegistryError(f"{printable(name)!r} names no registry: write registry:DIR or registry:DIR@champion")
    return RegistryName(Path(folder).expanduser(), which or "champion")


def find_version(name: str | Path) -> Path | None:
    """The run folder of the agent that `registry:DIR@WHICH` names, whose files have been checked; None if the name is
    not of this form."""
    parts = registry_name(name)
    if parts is None:
        return None
    number = version_number(parts.folder, parts.which)
    return checked_version(parts.folder, number, parts.which)


def version_number(folder: Path, which: str | int) -> int:
    """The number that an alias stands for, or the number itself if there is such a version."""
    aliases = read_aliases(folder)
    if str(which) in ALIASES:
        if str(which) not in aliases:
            raise RegistryError(f"{printable(folder)} has no {which} yet; {_there_is(aliases)}")
        return aliases[str(which)]
    if not NUMBER.fullmatch(str(which)):
        raise RegistryError(
            f"{printable(folder)} has no version {printable(which)!r}: give {', '.join(ALIASES)} or a number"
        )
    number = int(which)
    if not version_path(folder, number).is_dir():
        raise RegistryError(f"{printable(folder)} has no version {number}; {_there_is(aliases)}")
    return number


def read_aliases(folder: Path) -> dict[str, int]:
    """The numbers of champion, challenger and previous, as far as there are any: one small file."""
    found = read_state(folder)
    return {alias: found[alias] for alias in ALIASES if alias in found}


def read_state(folder: Path) -> dict[str, Any]:
    """All of `aliases.json`; {} if the registry is new."""
    if not (folder / MARKER).is_file():
        what = "is not a registry of agents" if folder.is_dir() else "does not exist"
        raise RegistryError(f"{printable(folder)} {what}: `rookery deploy X --to {printable(folder)}` makes one")
    path = folder / ALIASES_FILE
    try:
        found = json.loads(_read_own(path)) if os.path.lexists(path) else {}
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"{printable(path)} is damaged: it is not JSON ({error})") from None
    _check_state(path, found)
    return found


def _check_state(path: Path, found: Any) -> None:
    if not isinstance(found, dict):
        raise RegistryError(f"{printable(path)} is damaged: it holds a {type(found).__name__}, not an object")
    for key in (*ALIASES, "newest"):
        number = found.get(key, 1)
        if type(number) is not int or not 0 < number < 10**9:
            raise RegistryError(f"{printable(path)} is damaged: {key} is {number!r:.60}, and no version's number")
    change = found.get("change")
    if found and not (isinstance(change, dict) and type(change.get("entry")) is int):
        raise RegistryError(f"{printable(path)} is damaged: it does not hold the last change")


def version_path(folder: Path, number: int) -> Path:
    """Where a version is.

    >>> version_path(Path("agents"), 12).as_posix()
    'agents/versions/000012'
    """
    return folder / VERSIONS / f"{number:06d}"


def checked_version(folder: Path, number: int, which: str = "") -> Path:
    """The folder of a version, after every file in it was compared with the SHA-256 of when it was added."""
    path = version_path(folder, number)
    try:
        check_files(path)
    except RegistryError as error:
        name = f"version {number}" + (f" ({which})" if which in ALIASES else "")
        raise RegistryError(f"{name} of {printable(folder)} is damaged: {error}; {_instead(folder, number)}") from None
    return path


def read_about(version: Path) -> dict[str, Any]:
    """What `version.json` says about a version."""
    path = version / ABOUT
    try:
        about = json.loads(_read_own(path))
    except OSError as error:
        raise RegistryError(f"{printable(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"{printable(path)} is not JSON ({error})") from None
    if not isinstance(about, dict) or not isinstance(about.get("files"), dict):
        raise RegistryError(f"{printable(path)} does not list the version's files")
    if sealed({key: value for key, value in about.items() if key != "sha256"}) != about:
        raise RegistryError(f"{printable(path)} does not match its own SHA-256")
    return about


def sealed(about: dict[str, Any]) -> dict[str, Any]:
    """What `version.json` holds: the facts, and a SHA-256 of them."""
    return {**about, "sha256": hashlib.sha256(json.dumps(about).encode()).hexdigest()}


def check_files(version: Path) -> None:
    """Refuse a version whose files are not exactly those that were added."""
    for folder in (version.parent, version):
        if folder.is_symlink():
            raise RegistryError(f"{printable(folder)} is a link, and a version is in the registry itself")
    if not version.is_dir():
        raise RegistryError(f"{printable(version)} is missing")
    listed, there = read_about(version)["files"], files_in(version)
    for name in sorted({*listed, ABOUT} ^ {*there}):
        raise RegistryError(f"{printable(version / name)} is {'missing' if name in listed else 'not part of it'}")
    for name, expected in listed.items():
        if file_hash(version / name) != expected:
            raise RegistryError(f"{printable(version / name)} has another SHA-256 than when it was added")


def files_in(version: Path) -> list[str]:
    """The files of a version, by their path in it; a link or anything else that is not a file is rejected."""
    found = []
    for folder, folders, files in os.walk(version):
        for name in (*folders, *files):
            path = Path(folder) / name
            if path.is_symlink():
                raise RegistryError(f"{printable(path)} is a link")
            if not path.is_dir() and not path.is_file():
                raise RegistryError(f"{printable(path)} is not a plain file")
        found += [(Path(folder) / name).relative_to(version).as_posix() for name in files]
    return sorted(found)


def file_hash(path: Path) -> str:
    """The SHA-256 of a plain file."""
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def outputs_folder(run: Path) -> Path:
    """Where videos, plots and reports about a run go: to its own folder or, if that is a version, beside all versions.

    >>> outputs_folder(Path("runs/first")).as_posix()
    'runs/first'
    """
    if VERSION_NAME.fullmatch(run.name) and run.parent.name == VERSIONS and (run / ABOUT).is_file():
        return run.parent.parent / OUTPUTS / run.name
    return run


def _read_own(path: Path) -> bytes:
    if path.is_symlink():
        raise FileError(f"{printable(path)} is a link that leads elsewhere: a registry holds its own files; remove it")
    return read_plain(path, LARGEST)


def _there_is(aliases: dict[str, int]) -> str:
    if not aliases:
        return "nothing has been deployed to it"
    return "there are " + ", ".join(f"{alias} ({number})" for alias, number in aliases.items())


def _instead(folder: Path, number: int) -> str:
    """Which version to use instead of a damaged one."""
    previous = read_aliases(folder).get("previous")
    if previous is None or previous == number:
        return "there is no previous version: deploy a run again"
    shown = printable(folder)
    return (
        f"the previous one is version {previous}: use {PREFIX}{shown}@{previous}, or make it the champion with "
        f"`rookery deploy --rollback --to {shown}`"
    )
