"""Writes the values found as the text of a profile: a new one, or an existing one with more values."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rookery.apps.memory_explorer.session import WatchedValue
from rookery.errors import ConfigError, OptionError
from rookery.worlds.gameboy import game_profile
from rookery.worlds.gameboy.profile_schema import MemoryValue
from rookery.worlds.gameboy.rom import Rom

BUTTONS = ("nothing", "up", "down", "left", "right", "a", "b")
ENTRY = re.compile(r"[\w\"'.-]+\s*=")


def new_profile(rom: Rom, findings: Sequence[WatchedValue], states: Sequence[str] = ()) -> str:
    """A complete profile without rewards, which its user adds.

    `states` are save states to start from, as paths relative to the profile's folder.
    """
    parts = [
        "# Written by `rookery gameboy explore`. docs/gameboy.md describes each table.",
        _game(rom),
        f"[actions]\nbuttons = [{', '.join(map(_text, BUTTONS))}]\nframe_skip = 4",
        "\n".join(["[memory]", *map(entry, findings)]),
        _observation(findings),
        *(["[start]\nfiles = [" + ", ".join(map(_text, states)) + "]"] if states else []),
        f"[info]\nvalues = [{', '.join(_text(named.name) for named in findings)}]",
        "# Add rewards, and conditions that end an episode, such as:\n#   [[reward]]\n#   "
        + f'name = "hurt"\n#   kind = "change"\n#   of = "{findings[0].name if findings else "hearts"}"\n'
        + '#   direction = "down"\n#   weight = -1.0',
    ]
    text = "\n\n".join(parts) + "\n"
    game_profile.read(text, "the new profile")
    return text


def extended(text: str, findings: Iterable[WatchedValue], file: str) -> tuple[str, list[str]]:
    """The text of a profile with these values added to its [memory]; and the names that were added."""
    there = game_profile.read(text, file).memory
    new = [named for named in findings if not _has(there, named, file)]
    if not new:
        return text, []
    lines = text.splitlines()
    at = _end_of_memory(lines)
    entries = [entry(named) for named in new]
    lines[at:at] = entries if at < len(lines) or _headed(lines) else ["", "[memory]", *entries]
    made = "\n".join(lines) + "\n"
    try:
        game_profile.read(made, file)
    except ConfigError as error:
        raise OptionError(
            f"{file}: its [memory] is written in an unusual way; add these lines yourself:\n" + "\n".join(entries)
        ) from error
    return made, [named.name for named in new]


def moved(text: str, files: Iterable[str], old: Path, new: Path) -> str:
    """The text of a profile for another folder: the relative paths of its save states are adapted."""
    wanted = [file if Path(file).is_absolute() or file.startswith("~") else _way(old / file, new) for file in files]
    made = text
    for file, way in zip(files, wanted, strict=True):
        made = made.replace(_text(file), _text(way)).replace(f"'{file}'", _text(way))
    if game_profile.read(made).start.files != wanted:
        raise OptionError(f"the profile's save states have no relative path from {new}: write the copy to {old}")
    return made


def _way(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def entry(named: WatchedValue) -> str:
    """A line of [memory].

    >>> entry(WatchedValue("rupees", MemoryValue(address=0xC6A5, size=2, bcd=True), low=3, high=41))
    'rupees = { address = 0xC6A5, size = 2, bcd = true }  # seen from 3 to 41'
    """
    place = named.place
    parts = [f"address = 0x{place.address:04X}"]
    for key in ("size", "bits", "signed", "bcd", "big_endian"):
        if key in place.model_fields_set:
            parts.append(f"{key} = {str(getattr(place, key)).lower()}")
    return f"{named.name} = {{ {', '.join(parts)} }}  # seen from {named.low} to {named.high}"


def _game(rom: Rom) -> str:
    which = f'built_in = "{rom.origin}"' if rom.built_in else f'sha256 = ["{rom.sha256}"]'
    return f"[game]\ntitle = {_text(rom.title)}\n{which}"


def _observation(findings: Sequence[WatchedValue]) -> str:
    if not findings:
        return '[observation]\nkind = "pixels"'
    seen = [f"    {{ value = {_text(named.name)} }},  # add high = N if it cannot be more" for named in findings]
    return "\n".join(['[observation]\nkind = "memory"\nmemory = [', *seen, "]"])


def _has(there: dict[str, MemoryValue], named: WatchedValue, file: str) -> bool:
    old = there.get(named.name)
    if old is None or old == named.place:
        return old is not None
    raise OptionError(
        f"{file}: {named.name} already exists, at {old.address:04X}: give {named.place.address:04X} another name, or "
        "edit the file"
    )


def _headed(lines: Sequence[str]) -> bool:
    return any(line.split("#")[0].strip() == "[memory]" for line in lines)


def _end_of_memory(lines: Sequence[str]) -> int:
    """The line before which to insert a value: after the last one of [memory], or at the end of the file."""
    if not _headed(lines):
        return len(lines)
    header = next(k for k, line in enumerate(lines) if line.split("#")[0].strip() == "[memory]")
    last = header
    for k in range(header + 1, len(lines)):
        if lines[k].startswith("["):
            break
        if ENTRY.match(lines[k].strip()):
            last = k
    return last + 1


def _text(value: str) -> str:
    """A string in TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")  # TOML escapes it, JSON does not
