"""The commands about Game Boy games: explore, info, rom. They import what they need when they run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.apps.memory_explorer.commands import Commands as Exploring

Commands = argparse._SubParsersAction
Command = Callable[..., argparse.ArgumentParser]  # rookery.cli.main's own, with which every command begins


def add_commands(commands: Commands, command: Command) -> None:
    """Add them to the parser, under one name."""
    parser = commands.add_parser(
        "gameboy",
        help="look into Game Boy games: play, find values in memory, write profiles",
        description="Look into Game Boy games. `rookery train gameboy` trains on them.",
        epilog="`rookery gameboy COMMAND --help` tells more about a command.",
    )
    parts = parser.add_subparsers(dest="part", title="commands", metavar="COMMAND", required=True)
    for add in (_add_explore, _add_info, _add_rom):
        add(parts, command)


def _add_explore(parts: Commands, command: Command) -> None:
    parser = command(
        parts, "explore", _explore, "play a game and find out what its memory means",
        "Opens a window, or uses the terminal where there is no screen. Save moments, watch bytes, mark a moment and "
        "see which bytes changed since, name what was found and write it into a profile. `help` lists the words for "
        "that; they are typed after a colon, given as a --script, or read from standard input if that is no terminal.",
        'rookery gameboy explore --script "mark; right*20; diff up; left*20; diff down; list"',
    )  # fmt: skip
    _game_arguments(parser)
    parser.add_argument("--states", default="states", metavar="DIR", help="where moments are saved (states)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--terminal", action="store_true", help="in the terminal, even if there is a screen")
    place.add_argument("--window", action="store_true", help="in a window, whatever standard input is")
    place.add_argument("--script", metavar="WORDS", help="do these commands, with ; between, and leave")


def _add_info(parts: Commands, command: Command) -> None:
    parser = command(
        parts, "info", _info, "tell about a ROM, or about the profiles there are",
        "With --rom: its title, checksums and which profile fits. Without: the profiles that come with rookery, and "
        "where their ROMs are.",
        "rookery gameboy info --rom my_game.gb",
    )  # fmt: skip
    parser.add_argument("--rom", metavar="PATH", help="the ROM's file")


def _add_rom(parts: Commands, command: Command) -> None:
    parser = command(
        parts, "rom", _rom, "write the ROM of rookery's own game, meadow, to a file",
        "It runs in any emulator.",
        "rookery gameboy rom meadow.gb",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="the file, ending in .gb; one that is there is not replaced")


def _game_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rom", metavar="PATH", help="the ROM's file (rookery's own game; or that of the profile)")
    parser.add_argument(
        "--profile", metavar="NAME",
        help="a profile, by its name or file, whose values are shown (that with the ROM's title); none for no names",
    )  # fmt: skip


def _explore(options: argparse.Namespace) -> int:
    from rookery.apps.memory_explorer.commands import Commands as Exploring
    from rookery.apps.memory_explorer.library import choose, open_session
    from rookery.apps.memory_explorer.store import Store

    place = _place(options)
    chosen = choose(options.rom, options.profile)
    store = Store(Path(options.states), chosen.found)
    with open_session(chosen) as session:
        exploring = Exploring(session, store)
        _front(place, options)(exploring)
        _tell(exploring, options.json, place)
    return 0


def _place(options: argparse.Namespace) -> str:
    """Where to explore: what was asked for, or what there is."""
    if options.script is not None:
        return "script"
    if options.window:
        return "window"
    if not sys.stdin.isatty():
        return "pipe"
    from rookery.apps.memory_explorer.window import has_screen

    if has_screen() and not options.terminal:
        return "window"
    if not sys.stdout.isatty():
        raise OptionError("standard output is no terminal to draw on: give the commands by --script instead")
    return "terminal"


def _front(place: str, options: argparse.Namespace) -> Callable[[Exploring], None]:
    if place == "window":
        from rookery.apps.memory_explorer import window

        return window.explore
    if place == "terminal":
        from rookery.apps.memory_explorer import terminal

        return terminal.explore
    from rookery.apps.memory_explorer.script import follow

    lines = [options.script] if place == "script" else sys.stdin
    return lambda exploring: follow(exploring, lines, sys.stderr if options.json else sys.stdout)


def _tell(exploring: Exploring, as_json: bool, place: str) -> None:
    """What there is of it in the end."""
    from rookery import printing

    session, written = exploring.session, [str(path) for path in dict.fromkeys(exploring.store.written)]
    if as_json:
        printing.emit_json(_result(exploring, written))
    elif place in ("window", "terminal"):
        for named in session.findings:
            print(f"found {named.name} at {named.place.address:04X}")
        for path in written:
            print(f"wrote {path}")


def _result(exploring: Exploring, written: list[str]) -> dict[str, Any]:
    session = exploring.session
    left = session.candidates(256) if session.search.begun else []
    return {
        "title": session.emulator.rom.title,
        "frame": session.frame,
        "left": session.search.count,
        "candidates": [{"address": f"{at:04X}", "was": was, "now": now} for at, was, now in left],
        "values": {name: named.now for name, named in session.watched.items()},
        "found": {named.name: f"{named.place.address:04X}" for named in session.findings},
        "files": written,
    }


def _info(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.apps.memory_explorer import library

    if options.rom is None:
        rows = list(library.profile_rows())
        if options.json:
            printing.emit_json({"rom_folder": library.rom_folder(), "profiles": rows})
        else:
            _print_profiles(rows, library.rom_folder())
        return 0
    told = library.about(library.GameChoice(library.read_rom(Path(options.rom).expanduser()), None))
    if options.json:
        printing.emit_json(told)
    else:
        fits = ", ".join(told.pop("profiles")) or "none of rookery's; `rookery gameboy explore` begins one"
        for what, value in {**told, "size": f"{told['size']:,} bytes", "profile": fits}.items():
            print(f"{what:8} {value}")
    return 0


def _print_profiles(rows: list[dict[str, Any]], folder: str | None) -> None:
    for row in rows:
        where = "comes with rookery" if row["rom"] == row["profile"] else row["rom"] or "no ROM yet"
        print(f"{row['profile']:18} {row['title']:16} {where}")
    for row in rows:
        if row["problem"]:
            print(row["problem"])
    print(f"ROMs of your own are looked for in {folder or 'the folder that ROOKERY_ROM_DIR names (it is not set)'}")


def _rom(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.apps import meadow

    path = Path(options.file)
    if path.suffix.lower() != ".gb":
        raise OptionError(f"the file's name should end in .gb, got {options.file!r}")
    data = meadow.rom()
    try:
        if path.exists() and (path.is_dir() or path.read_bytes() != data):
            raise OptionError(f"{path} is there already, and is something else: remove it, or choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise OptionError(f"{path} cannot be written ({error.strerror})") from None
    if options.json:
        printing.emit_json({"path": str(path), "size": len(data)})
    else:
        print(path)
    return 0
