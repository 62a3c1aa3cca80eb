"""Chooses the game to explore: its ROM, and its profile if there is one."""

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
from rookery.worlds.gameboy import game_profile as profiles
from rookery.worlds.gameboy.game_profile import LoadedProfile
from rookery.worlds.gameboy.rom import FOLDER, Rom, find_rom, read_rom
from rookery.worlds.gameboy.states import start_states

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


def about(chosen: GameChoice) -> dict[str, Any]:
    """Facts about a ROM."""
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
