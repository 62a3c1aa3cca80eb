"""Findings as the text of a profile: a new one, or one that is there already with more values in it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rookery.apps.memory_explorer.session import Named
from rookery.errors import ConfigError, OptionError
from rookery.worlds.gameboy import profile
from rookery.worlds.gameboy.rom import Rom
from rookery.worlds.gameboy.schema import MemoryValue

BUTTONS = ("nothing", "up", "down", "left", "right", "a", "b")
ENTRY = re.compile(r"[\w\"'.-]+\s*=")


def new_profile(rom: Rom, findings: Sequence[Named], states: Sequence[str] = ()) -> str:
    """A whole profile that can be trained in at once, if not yet well: what is rewarded is for its owner to say.

    `states` are save states to start from, as paths from the profile's folder.
    """
    parts = [
        "# Begun by `rookery gameboy explore`. What each table may hold: docs/gameboy.md.",
        _game(rom),
        f"[actions]\nbuttons = [{', '.join(map(_text, BUTTONS))}]\nframe_skip = 4",
        "\n".join(["[memory]", *map(entry, findings)]),
        _observation(findings),
        *(["[start]\nfiles = [" + ", ".join(map(_text, states)) + "]"] if states else []),
        f"[info]\nvalues = [{', '.join(_text(named.name) for named in findings)}]",
        "# Say what is good and when an episode is over, such as:\n#   [[reward]]\n#   "
        + f'name = "hurt"\n#   kind = "change"\n#   of = "{findings[0].name if findings else "hearts"}"\n'
        + '#   direction = "down"\n#   weight = -1.0',
    ]
    text = "\n\n".join(parts) + "\n"
    profile.read(text, "the new profile")
    return text


def extended(text: str, findings: Iterable[Named], file: str) -> tuple[str, list[str]]:
    """The text of a profile with these values in its [memory], all else as it was; and the names that are new."""
    there = profile.read(text, file).memory
    new = [named for named in findings if not _has(there, named, file)]
    if not new:
        return text, []
    lines = text.splitlines()
    at = _end_of_memory(lines)
    entries = [entry(named) for named in new]
    lines[at:at] = entries if at < len(lines) or _headed(lines) else ["", "[memory]", *entries]
    made = "\n".join(lines) + "\n"
    try:
        profile.read(made, file)
    except ConfigError as error:
        raise OptionError(
            f"{file}: the values cannot be put into its [memory], as that is written in an unusual way; they are\n"
            + "\n".join(entries)
        ) from error
    return made, [named.name for named in new]


def moved(text: str, files: Iterable[str], old: Path, new: Path) -> str:
    """The text of a profile from one folder for another: the save states that it names are still the same."""
    wanted = [file if Path(file).is_absolute() or file.startswith("~") else _way(old / file, new) for file in files]
    made = text
    for file, way in zip(files, wanted, strict=True):
        made = made.replace(_text(file), _text(way)).replace(f"'{file}'", _text(way))
    if profile.read(made).start.files != wanted:
        raise OptionError(f"the save states of the profile cannot be named from {new}: write the copy into {old}")
    return made


def _way(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def entry(named: Named) -> str:
    """A line of [memory].

    >>> entry(Named("rupees", MemoryValue(address=0xC6A5, size=2, bcd=True), low=3, high=41))
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


def _observation(findings: Sequence[Named]) -> str:
    if not findings:
        return '[observation]\nkind = "pixels"'
    seen = [f"    {{ value = {_text(named.name)} }},  # add high = N if it cannot be more" for named in findings]
    return "\n".join(['[observation]\nkind = "memory"\nmemory = [', *seen, "]"])


def _has(there: dict[str, MemoryValue], named: Named, file: str) -> bool:
    old = there.get(named.name)
    if old is None or old == named.place:
        return old is not None
    raise OptionError(
        f"{file}: {named.name} is there already, as {old.address:04X}: give {named.place.address:04X} another name, or "
        "change the file by hand"
    )


def _headed(lines: Sequence[str]) -> bool:
    return any(line.split("#")[0].strip() == "[memory]" for line in lines)


def _end_of_memory(lines: Sequence[str]) -> int:
    """The line before which another value belongs: after the last of [memory], or the end of the file."""
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
    """As TOML writes it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")  # which JSON leaves as it is, unlike TOML
