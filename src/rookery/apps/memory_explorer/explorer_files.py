"""The files of the explorer: the ROM and the profile of a game; save states in one folder; profiles, new or with more
values; and screenshots. An existing file is replaced only on request."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rookery.apps.memory_explorer.session import Session, WatchedValue
from rookery.console import say
from rookery.errors import ConfigError, OptionError, RookeryError, WorldError
from rookery.extras import load_pillow
from rookery.worlds.gameboy import game_profile
from rookery.worlds.gameboy import game_profile as profiles
from rookery.worlds.gameboy.game_profile import LoadedProfile
from rookery.worlds.gameboy.profile_schema import MemoryValue
from rookery.worlds.gameboy.rom import FOLDER, Rom, find_rom, read_rom
from rookery.worlds.gameboy.states import start_states

STATE_SUFFIX = ".state"


class Store:
    """Reads and writes the files. `written` lists those it wrote; `base` is the game's profile, if any, of which a new
    profile is a copy."""

    def __init__(self, folder: Path, base: LoadedProfile | None = None) -> None:
        self.folder, self._base = folder, base
        self.written: list[Path] = []

    def states(self) -> list[str]:
        """The names of the states in the folder, the oldest first."""
        files = sorted(self.folder.glob(f"*{STATE_SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
        return [file.stem for file in files]

    def save(self, data: bytes, name: str = "", replace: bool = False) -> Path:
        """Save a state; without a name it gets the next number."""
        path = self._place(name) if name else self._next()
        self._write(path, data, replace, "save")
        return path

    def load(self, name: str) -> tuple[bytes, Path]:
        """A state by its name or path."""
        path = self._place(name)
        try:
            return path.read_bytes(), path
        except OSError as error:
            there = ", ".join(self.states()) or "none"
            raise WorldError(f"{path}: the save state cannot be read ({error.strerror}); saved are: {there}") from None

    def write_profile(self, file: str, rom: Rom, findings: Sequence[WatchedValue], replace: bool = False) -> str:
        """Add the values found to a profile, or write a new one; returns a line about what was done."""
        path = Path(file).expanduser()
        if path.suffix != ".toml":
            raise OptionError(f"{file}: the name of a profile should end in .toml")
        if path.exists() and not replace:
            return self._extend(path, findings)
        if self._base is not None:
            text, new = extended(self._copy_for(path.parent), findings, str(path))
            done = f"a copy of {self._base.name} with {_names(new)} added"
        else:
            text = new_profile(rom, findings, self._saved_beside(path))
            done = f"a new profile with {_names([named.name for named in findings])}"
        self._write(path, text.encode(), replace, "write")
        return f"{path}: {done}"

    def _copy_for(self, folder: Path) -> str:
        """The text of the base profile, for a file in another folder."""
        assert self._base is not None
        base = self._base.path
        try:
            text = base.read_text("utf-8")
        except OSError as error:
            raise WorldError(f"{base}: the profile can no longer be read ({error.strerror})") from None
        files = self._base.profile.start.files
        return text if not files else moved(text, files, base.parent, folder.resolve())

    def _saved_beside(self, path: Path) -> list[str]:
        """The states saved in this session, as paths relative to a profile's folder."""
        saved = dict.fromkeys(file for file in self.written if file.suffix == STATE_SUFFIX)
        return [Path(os.path.relpath(file, path.parent)).as_posix() for file in saved]

    def write_picture(self, file: str, screen: np.ndarray, replace: bool = False) -> Path:
        """The screen as a PNG."""
        path = Path(file).expanduser()
        if path.suffix.lower() != ".png":
            raise OptionError(f"{file}: the name of a screenshot should end in .png")
        stream = io.BytesIO()
        load_pillow().fromarray(screen).save(stream, "png")
        self._write(path, stream.getvalue(), replace, "shot")
        return path

    def _extend(self, path: Path, findings: Sequence[WatchedValue]) -> str:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise WorldError(f"{path}: the profile cannot be read ({error})") from None
        made, new = extended(text, findings, str(path))
        if not new:
            return f"{path}: nothing to add, it has {_names([named.name for named in findings])}"
        self._write(path, made.encode(), True, "write")
        return f"{path}: added {_names(new)} to its [memory]; the rest is unchanged"

    def _place(self, name: str) -> Path:
        """The path of a state: a bare name is in the folder."""
        path = Path(name if name.endswith(STATE_SUFFIX) else f"{name}{STATE_SUFFIX}").expanduser()
        if path.name.startswith(".") or not name.isprintable():
            raise OptionError(f"{name!r} is not a name for a state: use letters and digits, such as before_the_door")
        return path if len(path.parts) > 1 else self.folder / path

    def _next(self) -> Path:
        number = 1
        while (path := self.folder / f"moment-{number}{STATE_SUFFIX}").exists():
            number += 1
        return path

    def _write(self, path: Path, data: bytes, replace: bool, command: str) -> None:
        """Write a file atomically, and do not replace another one unless asked to."""
        if path.exists() and not replace:
            raise OptionError(f"{path} already exists: `{command}! {path.name}` replaces it")
        unfinished = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                unfinished.write_bytes(data)
                unfinished.replace(path)
            finally:
                unfinished.unlink(missing_ok=True)
        except OSError as error:
            raise WorldError(f"{path} cannot be written ({error.strerror})") from None
        self.written.append(path)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "no values"


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


NONE = "none"
OWN = "meadow"


@dataclass(frozen=True)
class GameChoice:
    """The ROM of a game, and its profile if there is one."""

    rom: Rom
    found: LoadedProfile | None


def choose(rom: str | None = None, profile: str | None = None) -> GameChoice:
    """The game by its ROM, its profile or both; by default rookery's own game. For a ROM without a profile, the shipped
    profile with its title is used; profile="none" turns that off."""
    if profile not in (None, NONE) or rom is None:
        found = profiles.find(OWN if profile in (None, NONE) else str(profile))
        return GameChoice(find_rom(found, rom), None if profile == NONE else found)
    read = read_rom(Path(rom).expanduser())
    fitting = [] if profile == NONE else fitting_profiles(read)
    return GameChoice(read, fitting[0] if fitting else None)


def fitting_profiles(rom: Rom) -> list[LoadedProfile]:
    """The shipped profiles that are for this game."""
    all_ = (profiles.find(name) for name in profiles.shipped())
    return [found for found in all_ if found.profile.game.title == rom.title]


def open_session(chosen: GameChoice) -> Session:
    """The game at a start state of its profile, or at power-on."""
    known, starts = {}, ()  # type: tuple[Any, Any]
    if chosen.found is not None:
        known = chosen.found.profile.memory
        try:
            starts = start_states(chosen.found, chosen.rom)
        except RookeryError as error:  # perhaps the user wants to make these states now
            say(f"starting at power-on, because the profile's start states cannot be loaded: {error}")
    session = Session(chosen.rom, known, starts)
    if starts:
        session.begin(0)
    return session


def about(rom: Rom) -> dict[str, Any]:
    """Facts about a ROM."""
    return {
        "rom": rom.origin,
        "title": rom.title,
        "size": len(rom.data),
        "sha256": rom.sha256,
        "sha1": hashlib.sha1(rom.data).hexdigest(),  # noqa: S324 - as ROMs are listed by it
        "colour": rom.colour,
        "profiles": [found.name for found in fitting_profiles(rom)],
    }


def profile_rows() -> Iterator[dict[str, Any]]:
    """Each shipped profile, with its ROM or the reason why there is none."""
    for name in profiles.shipped():
        found = profiles.find(name)
        row = {"profile": name, "title": found.profile.game.title, "about": found.profile.game.description}
        try:
            yield {**row, "rom": find_rom(found).origin, "problem": ""}
        except RookeryError as error:
            yield {**row, "rom": None, "problem": str(error)}


def rom_folder() -> str | None:
    """The folder that is searched for ROMs."""
    return os.environ.get(FOLDER) or None
