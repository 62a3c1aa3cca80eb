"""Which game is to be explored: its ROM, and the profile that knows it, if there is one."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.apps.memory_explorer.session import Session
from rookery.console import say
from rookery.errors import RookeryError
from rookery.worlds.gameboy import profile as profiles
from rookery.worlds.gameboy.profile import Found
from rookery.worlds.gameboy.rom import FOLDER, Rom, find_rom, read_rom
from rookery.worlds.gameboy.states import start_states

NONE = "none"
OWN = "meadow"


@dataclass(frozen=True)
class Chosen:
    """A game, and what is known of it."""

    rom: Rom
    found: Found | None


def choose(rom: str | None = None, profile: str | None = None) -> Chosen:
    """The game that is meant: by its ROM, its profile or both; our own if by neither. A ROM alone is known by those
    profiles of rookery that have its title; the profile "none" leaves that out."""
    if profile not in (None, NONE) or rom is None:
        found = profiles.find(OWN if profile in (None, NONE) else str(profile))
        return Chosen(find_rom(found, rom), None if profile == NONE else found)
    read = read_rom(Path(rom).expanduser())
    fitting = [] if profile == NONE else fitting_profiles(read)
    return Chosen(read, fitting[0] if fitting else None)


def fitting_profiles(rom: Rom) -> list[Found]:
    """Those of rookery's profiles that are for this game."""
    all_ = (profiles.find(name) for name in profiles.shipped())
    return [found for found in all_ if found.profile.game.title == rom.title]


def open_session(chosen: Chosen) -> Session:
    """The game, switched on: where an episode of its profile starts, or at power-on."""
    known, starts = {}, ()  # type: tuple[Any, Any]
    if chosen.found is not None:
        known = chosen.found.profile.memory
        try:
            starts = start_states(chosen.found, chosen.rom)
        except RookeryError as error:  # perhaps the states are what is to be made here
            say(f"beginning at power-on, as the profile's start states cannot be had: {error}")
    session = Session(chosen.rom, known, starts)
    if starts:
        session.begin(0)
    return session


def about(chosen: Chosen) -> dict[str, Any]:
    """What can be said of a ROM."""
    rom = chosen.rom
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
    """Each profile that comes with rookery, and its ROM or why there is none."""
    for name in profiles.shipped():
        found = profiles.find(name)
        row = {"profile": name, "title": found.profile.game.title, "about": found.profile.game.description}
        try:
            yield {**row, "rom": find_rom(found).origin, "problem": ""}
        except RookeryError as error:
            yield {**row, "rom": None, "problem": str(error)}


def rom_folder() -> str | None:
    """Where ROMs are looked for."""
    return os.environ.get(FOLDER) or None
