"""The commands `gameboy explore`, `gameboy info` and `gameboy rom`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.apps.memory_explorer.explorer_commands import Commands as Exploring

Commands = argparse._SubParsersAction
AddCommand = Callable[..., argparse.ArgumentParser]  # the command line's own, which this package may not import


def add_commands(commands: Commands, add_command: AddCommand) -> None:
    """Add them to the parser, under one name."""
    parser = commands.add_parser(
        "gameboy",
        help="explore Game Boy games: play, find values in memory, write profiles",
        description="Explore Game Boy games. `rookery train gameboy` trains on them.",
        epilog="`rookery gameboy COMMAND --help` describes a command.",
    )
    parts = parser.add_subparsers(dest="part", title="commands", metavar="COMMAND", required=True)
    for add in (_add_explore, _add_info, _add_rom):
        add(parts, add_command)


def _add_explore(parts: Commands, add_command: AddCommand) -> None:
    parser = add_command(
        parts, "explore", _explore, "play a game and find values in its memory",
        "Opens a window, or uses the terminal if there is no screen. You can save states, watch bytes, list the bytes "
        "that changed, name an address and write it to a profile. The command `help` lists all commands. Type them "
        "after a colon, give them with --script, or pipe them to standard input.",
        'rookery gameboy explore --script "mark; right*20; diff up; left*20; diff down; list"',
    )  # fmt: skip
    _game_arguments(parser)
    parser.add_argument("--states", default="states", metavar="DIR", help="the folder for saved states (states)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--terminal", action="store_true", help="use the terminal, even if there is a screen")
    place.add_argument("--window", action="store_true", help="use a window, even if standard input is a pipe")
    place.add_argument("--script", metavar="COMMANDS", help="run these commands, separated by ; and exit")


def _add_info(parts: Commands, add_command: AddCommand) -> None:
    parser = add_command(
        parts, "info", _info, "describe a ROM, or list the profiles",
        "With --rom: title, checksums and the profiles that fit. Without: the profiles that come with rookery, and "
        "the paths of their ROMs.",
        "rookery gameboy info --rom my_game.gb",
    )  # fmt: skip
    parser.add_argument("--rom", metavar="PATH", help="the ROM file")


def _add_rom(parts: Commands, add_command: AddCommand) -> None:
    parser = add_command(
        parts, "rom", _rom, "write the ROM of rookery's own game, meadow, to a file",
        "It runs in any emulator.",
        "rookery gameboy rom meadow.gb",
    )  # fmt: skip
    parser.add_argument("file", metavar="FILE", help="the file to write, .gb; an existing file is not replaced")


def _game_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rom", metavar="PATH", help="the ROM file (that of the profile, or rookery's own game)")
    parser.add_argument(
        "--profile", metavar="NAME",
        help="name or file of the profile whose values are shown (the one with the ROM's title); none for no profile",
    )  # fmt: skip


def _explore(options: argparse.Namespace) -> int:
    from rookery.apps.memory_explorer.explorer_commands import Commands as Exploring
    from rookery.apps.memory_explorer.explorer_files import Store, choose, open_session

    place = _place(options)
    chosen = choose(options.rom, options.profile)
    store = Store(Path(options.states), chosen.found)
    with open_session(chosen) as session:
        exploring = Exploring(session, store)
        _front(place, options)(exploring)
        _print_result(exploring, options.json, place)
    return 0


def _place(options: argparse.Namespace) -> str:
    """Where to explore: as asked for, or what is available."""
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
        raise OptionError("standard output is not a terminal: give the commands with --script instead")
    return "terminal"


def _front(place: str, options: argparse.Namespace) -> Callable[[Exploring], None]:
    if place == "window":
        from rookery.apps.memory_explorer import window

        return window.explore
    if place == "terminal":
        from rookery.apps.memory_explorer import explorer_terminal

        return explorer_terminal.explore
    from rookery.apps.memory_explorer.explorer_commands import follow

    lines = [options.script] if place == "script" else sys.stdin
    return lambda exploring: follow(exploring, lines, sys.stderr if options.json else sys.stdout)


def _print_result(exploring: Exploring, as_json: bool, place: str) -> None:
    """Print what was found and written."""
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
    from rookery.apps.memory_explorer import explorer_files

    if options.rom is None:
        rows = list(explorer_files.profile_rows())
        if options.json:
            printing.emit_json({"rom_folder": explorer_files.rom_folder(), "profiles": rows})
        else:
            _print_profiles(rows, explorer_files.rom_folder())
        return 0
    facts = explorer_files.about(explorer_files.read_rom(Path(options.rom).expanduser()))
    if options.json:
        printing.emit_json(facts)
    else:
        fits = ", ".join(facts.pop("profiles")) or "none of rookery's; `rookery gameboy explore` starts one"
        for what, value in {**facts, "size": f"{facts['size']:,} bytes", "profile": fits}.items():
            print(f"{what:8} {value}")
    return 0


def _print_profiles(rows: list[dict[str, Any]], folder: str | None) -> None:
    for row in rows:
        where = "comes with rookery" if row["rom"] == row["profile"] else row["rom"] or "no ROM yet"
        print(f"{row['profile']:18} {row['title']:16} {where}")
    for row in rows:
        if row["problem"]:
            print(row["problem"])
    print(f"your own ROMs are searched in {folder or 'the folder that ROOKERY_ROM_DIR names (it is not set)'}")


def _rom(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.worlds.gameboy.rom import built_in_rom

    path = Path(options.file)
    if path.suffix.lower() != ".gb":
        raise OptionError(f"the file's name should end in .gb, got {options.file!r}")
    data = built_in_rom("meadow").data
    try:
        if path.exists() and (path.is_dir() or path.read_bytes() != data):
            raise OptionError(f"{path} exists and has other content: remove it, or choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise OptionError(f"{path} cannot be written ({error.strerror})") from None
    if options.json:
        printing.emit_json({"path": str(path), "size": len(data)})
    else:
        print(path)
    return 0
