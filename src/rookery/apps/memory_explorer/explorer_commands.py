"""The text commands of the explorer, typed after ":" in a window or a terminal, or given as a script; and the contents
of a session as lines of text."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

import numpy as np

from rookery.apps.memory_explorer.explorer_files import Store
from rookery.apps.memory_explorer.session import FILTER_HELP, LATELY, Session, WatchedValue, number
from rookery.errors import OptionError, RookeryError
from rookery.worlds.gameboy.profile_schema import BUTTONS

TAP = 4  # frames for which a button is held by default
MANY = 36_000  # frames, ten minutes: more is a typing error
ROWS = 16  # of a list
PLAY = re.compile(r"(?P<buttons>[a-z]+(?:\+[a-z]+)*)(?:(?:\s*\*\s*|\s+)(?P<frames>\d+))?")
FLAGS = ("signed", "bcd", "big_endian")

WORDS = {  # command: (its arguments, what it does)
    "mark": ("", "set the mark: `diff` compares with this moment"),
    "diff": ("FILTER", f"keep the bytes that did this since the mark, and set the mark: {FILTER_HELP}"),
    "list": ("[N]", "list the remaining candidates"),
    "undo": ("", "revert the last diff"),
    "new": ("", "start a new search: all bytes are candidates"),
    "lately": ("[N]", "list what changed in the last two seconds"),
    "watch": ("ADDRESS [NAME]", "watch a byte and name it; size=2, bits=0x0F, bcd, signed and big_endian"),
    "unwatch": ("NAME", "stop watching"),
    "values": ("", "list the watched values"),
    "peek": ("ADDRESS [N]", "show bytes"),
    "poke": ("ADDRESS N", "set a byte, to see what happens"),
    "save": ("[NAME]", "save the state to a file; save! replaces one"),
    "load": ("[NAME]", "load a saved state (by default the latest)"),
    "states": ("", "list the saved states"),
    "start": ("[N]", "load a start state of the profile"),
    "reset": ("", "power off and on"),
    "write": ("FILE.toml", "add the named values to a profile, or write a new one; write! replaces it"),
    "shot": ("FILE.png", "save a screenshot; shot! replaces one"),
    "screen": ("", "show the screen as text"),
    "help": ("", "list the commands"),
    "quit": ("", "quit"),
}
REPLACING = ("save", "write", "shot")


class Quit(Exception):
    """The user wants to quit."""


class Commands:
    """Executes commands; each returns lines of text."""

    def __init__(self, session: Session, store: Store) -> None:
        self.session, self.store = session, store

    def do(self, line: str) -> list[str]:
        """Execute one command. A command that fails raises an error and changes nothing."""
        line = line.strip().lstrip(":").strip()
        if not line or line.startswith("#"):
            return []
        word, _, rest = line.partition(" ")
        plain = word.removesuffix("!").lower()
        if plain not in WORDS:
            return self._play(line)
        method: Callable[..., list[str]] = getattr(self, f"_{plain}")
        if plain == word.lower():
            return method(rest.strip())
        if plain not in REPLACING:
            raise OptionError(f"there is no {word}: only {', '.join(REPLACING)} can have a ! (to replace a file)")
        return method(rest.strip(), replace=True)

    # --- playing ----------------------------------------------------------------------------------------------

    def _play(self, line: str) -> list[str]:
        found = PLAY.fullmatch(line.lower())
        buttons = found["buttons"].split("+") if found else []
        if buttons in (["wait"], ["nothing"]):
            buttons = []
        if found is None or any(button not in BUTTONS for button in buttons):
            raise OptionError(f"{line!r} is not a command{_meant(line)}")
        frames = int(found["frames"] or TAP)
        if not 1 <= frames <= MANY:
            raise OptionError(f"{line!r}: buttons are held for 1 to {MANY:,} frames (60 per second)")
        self.session.play(frames, buttons)
        return []

    def _start(self, rest: str) -> list[str]:
        start = number(rest) if rest else 0
        self.session.begin(start)
        return [f"start state {start} of 0 to {len(self.session.starts) - 1}"]

    def _reset(self, rest: str) -> list[str]:
        self.session.begin()
        return ["powered off and on"]

    def _quit(self, rest: str) -> list[str]:
        raise Quit

    # --- memory -----------------------------------------------------------------------------------------------

    def _mark(self, rest: str) -> list[str]:
        self.session.mark()
        return [f"marked frame {self.session.frame:,}"]

    def _diff(self, rest: str) -> list[str]:
        if not rest:
            raise OptionError(f"diff needs a filter: {FILTER_HELP}")
        self.session.narrow(rest)
        return self._list("")

    def _list(self, rest: str) -> list[str]:
        return candidate_rows(self.session, _rows(rest))

    def _undo(self, rest: str) -> list[str]:
        self.session.search.undo()
        return self._list("")

    def _new(self, rest: str) -> list[str]:
        self.session.anew()
        return [f"all {self.session.search.count:,} bytes are candidates; marked frame {self.session.frame:,}"]

    def _lately(self, rest: str) -> list[str]:
        return recent_rows(self.session, _rows(rest)) or ["nothing has changed for two seconds"]

    def _watch(self, rest: str) -> list[str]:
        if not rest:
            raise OptionError("watch needs an address, and optionally a name: watch C0A5 hearts")
        first, *words = rest.split()
        names = [word for word in words if "=" not in word and word not in FLAGS]
        if len(names) > 1:
            raise OptionError(f"watch takes one name, got {' and '.join(names)}")
        kind = dict(_kind(word) for word in words if word not in names)
        named = self.session.watch(address(first), *names, **kind)
        return [f"{named.name} is {named.place.address:04X}, now {named.now}"]

    def _unwatch(self, rest: str) -> list[str]:
        self.session.unwatch(rest)
        return [f"{rest} is no longer watched"]

    def _values(self, rest: str) -> list[str]:
        return value_rows(self.session) or ["no values are watched: watch C0A5 hearts"]

    def _peek(self, rest: str) -> list[str]:
        at, count = (*rest.split(), "", "")[:2]
        return dump(address(at), self.session.peek(address(at), number(count) if count else 1))

    def _poke(self, rest: str) -> list[str]:
        at, value = (*rest.split(), "", "")[:2]
        self.session.poke(address(at), number(value))
        return [f"{address(at):04X} is {self.session.peek(address(at))[0]} now"]

    # --- files ------------------------------------------------------------------------------------------------

    def _save(self, rest: str, replace: bool = False) -> list[str]:
        return [f"saved {self.store.save(self.session.save(), rest, replace)}"]

    def _load(self, rest: str) -> list[str]:
        there = self.store.states()
        if not rest and not there:
            raise OptionError(f"there is no saved state in {self.store.folder}: `save NAME` writes one")
        data, path = self.store.load(rest or there[-1])
        self.session.load(data, str(path))
        return [f"loaded {path}"]

    def _states(self, rest: str) -> list[str]:
        there = self.store.states()
        return [f"{len(there)} in {self.store.folder}", *(f"  {name}" for name in there)]

    def _write(self, rest: str, replace: bool = False) -> list[str]:
        if not rest:
            raise OptionError("write needs a file: write my_game.toml")
        rom, findings = self.session.emulator.rom, self.session.findings
        return [self.store.write_profile(rest, rom, findings, replace)]

    def _shot(self, rest: str, replace: bool = False) -> list[str]:
        if not rest:
            raise OptionError("shot needs a file: shot screen.png")
        return [f"wrote {self.store.write_picture(rest, self.session.screen, replace)}"]

    def _screen(self, rest: str) -> list[str]:
        return screen_text(self.session.screen)

    def _help(self, rest: str) -> list[str]:
        played = f"  {'BUTTONS[*FRAMES]':24} hold buttons: right*60, a, a+up*8; wait*60 holds none"
        return [played, *(f"  {f'{word} {what}':24} {does}" for word, (what, does) in WORDS.items())]


def address(text: str) -> int:
    """An address in hexadecimal digits, with or without a prefix.

    >>> hex(address("C0A5")), hex(address("0xc0a5"))
    ('0xc0a5', '0xc0a5')
    """
    digits = text.lower().removeprefix("$").removeprefix("0x")
    if not re.fullmatch("[0-9a-f]{1,4}", digits):
        raise OptionError(f"{text!r} is not an address: it has up to four hexadecimal digits, such as C0A5")
    return int(digits, 16)


def _rows(rest: str) -> int:
    rows = number(rest) if rest else ROWS
    if rows < 1:
        raise OptionError(f"the number of rows should be an integer >= 1, got {rows}")
    return rows


def split_script(text: str) -> list[str]:
    """The commands of a script, separated by line breaks or semicolons.

    >>> split_script("right*60; mark")
    ['right*60', 'mark']
    """
    return [line.strip() for line in re.split(r"[;\n]", text) if line.strip()]


def _kind(word: str) -> tuple[str, Any]:
    if word in FLAGS:
        return word, True
    key, _, value = word.partition("=")
    if key not in ("size", "bits"):
        raise OptionError(f"{word!r} is not an option of a value: use size=2, bits=0x0F, {', '.join(FLAGS)}")
    return key, number(value)


def _meant(line: str) -> str:
    word = re.split(r"[\s*+]", line.lower())[0]
    near = difflib.get_close_matches(word, [*WORDS, *BUTTONS, "wait"], n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f": use the buttons {', '.join(BUTTONS)}, wait, or {', '.join(WORDS)}"


SHADES = " .:-=+*#%@"[::-1]  # from dark to light


def candidate_rows(session: Session, most: int) -> list[str]:
    """The number of remaining candidates, and the first of them."""
    search = session.search
    count = search.count
    head = f"{count:,} of {len(search.left):,} bytes left"
    if not count:
        return [f"{head}: `undo` reverts the last diff, `new` starts a new search"]
    rows = [
        f"  {at:04X} {was:3} -> {now:3}  {session.name_of(at)}".rstrip() for at, was, now in session.candidates(most)
    ]
    return [head, *rows, *(["  ..."] if count > most else [])]


def recent_rows(session: Session, most: int) -> list[str]:
    """Bytes that changed in the last two seconds, the rarely changing ones first."""
    return [
        f"  {at:04X} {now:3}  {ago / 60:.1f} s ago  {session.name_of(at)}".rstrip()
        for at, now, ago in session.lately(most)
    ]


def value_rows(session: Session) -> list[str]:
    """The watched values."""
    return [value_row(named) for named in session.watched.values()]


def value_row(named: WatchedValue) -> str:
    return f"  {named.name:<14} {named.place.address:04X} {named.now:5}"


def is_fresh(named: WatchedValue, frame: int) -> bool:
    """Whether the value has just changed."""
    return frame - named.changed_at < LATELY // 4


def dump(address: int, data: Sequence[int]) -> list[str]:
    """Bytes in rows of 16.

    >>> dump(0xC0A0, [40, 68])
    ['  C0A0  28 44']
    """
    rows = range(0, len(data), 16)
    return [f"  {address + k:04X}  {' '.join(f'{byte:02X}' for byte in data[k : k + 16])}" for k in rows]


def screen_text(picture: np.ndarray, shrink: int = 2) -> list[str]:
    """The screen as characters, for output without colours: each shows 2 x 4 pixels."""
    grey = picture.mean(axis=2)
    height, width = grey.shape
    blocks = grey.reshape(height // (2 * shrink), 2 * shrink, width // shrink, shrink).mean(axis=(1, 3))
    shades = (blocks / 256 * len(SHADES)).astype(int)
    return ["".join(SHADES[shade] for shade in row).rstrip() for row in shades]


def follow(commands: Commands, lines: Iterable[str], out: TextIO | None = None) -> None:
    """Execute the commands in order, and print each with its output; the first that fails ends the script."""
    out, count = out or sys.stdout, 0
    for line in lines:
        for command in split_script(line):
            count += 1
            print(f"> {command}", file=out, flush=True)
            try:
                answer = commands.do(command)
            except Quit:
                return
            except RookeryError as error:
                raise OptionError(f"command {count}: {error}") from error
            for text in answer:
                print(text, file=out, flush=True)
