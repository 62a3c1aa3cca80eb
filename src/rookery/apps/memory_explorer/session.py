"""A game being explored: the emulator, the changes of its memory, the search for a byte, and the values found. It
handles no keys, no drawing and no files.

The search: set a mark, continue to play, and keep the bytes that changed as the screen did.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rookery.errors import OptionError
from rookery.worlds.gameboy import states
from rookery.worlds.gameboy.emulator import Emulator
from rookery.worlds.gameboy.game_profile import RESERVED
from rookery.worlds.gameboy.observe import MemoryReader
from rookery.worlds.gameboy.profile_schema import MemoryValue
from rookery.worlds.gameboy.rom import MEMORY, Rom

CARTRIDGE_RAM, WORK_RAM, HIGH_RAM = (0xA000, 0xC000), (0xC000, 0xE000), (0xFF80, 0xFFFF)
NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)  # as TOML writes a key without quotes
LATELY = 120  # frames


@dataclass
class WatchedValue:
    """A watched value, and the smallest and largest number it has had."""

    name: str
    place: MemoryValue
    known: bool = False  # from a profile, not found in this session
    low: int = 0
    high: int = 0
    now: int = 0
    changed_at: int = -LATELY

    def note(self, value: int, frame: int) -> None:
        if value != self.now:
            self.now, self.changed_at = value, frame
        self.low, self.high = min(self.low, value), max(self.high, value)


class Session:
    """Plays the game and searches its memory.

    Example:
        >>> from rookery.worlds.gameboy.rom import built_in_rom
        >>> with Session(built_in_rom("meadow")) as session:
        ...     session.play(120)
        ...     session.narrow("= 3")
        ...     session.watch(0xC0A5, "hearts").now
        3
    """

    def __init__(self, rom: Rom, known: Mapping[str, MemoryValue] | None = None, starts: Iterable[bytes] = ()) -> None:
        """`known` are values of a profile; `starts` are its start states."""
        self.emulator, self.frame = Emulator(rom), 0
        areas = (CARTRIDGE_RAM, WORK_RAM, HIGH_RAM) if rom.data[MEMORY] else (WORK_RAM, HIGH_RAM)
        self._areas = areas
        self.addresses = np.concatenate([np.arange(*area) for area in areas])
        self.starts = tuple(starts)
        self._power_on = self.emulator.save()
        self._now = self._read()
        self._changed_at = np.full(len(self._now), -LATELY)
        self._change_counts = np.zeros(len(self._now), np.int64)  # how often a byte has changed
        self.search = Search(self._now)
        self.watched: dict[str, WatchedValue] = {}
        for name, place in (known or {}).items():
            self.watched[name] = WatchedValue(name, place, known=True)
        self._make_reader()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.emulator.close()

    # --- playing ----------------------------------------------------------------------------------------------

    def play(self, frames: int, held: Iterable[str] = ()) -> None:
        """Run for a number of frames with exactly these buttons held. The screen is drawn at the end."""
        held = tuple(held)
        for k in range(frames):
            self.emulator.run(1, held, render=k == frames - 1)
            self.frame += 1
            self._record_changes()

    @property
    def screen(self) -> np.ndarray:
        """The screen, (144, 160, 3)."""
        return self.emulator.screen[:, :, :3].copy()

    def save(self) -> bytes:
        """The current state, in the format of a save state's file."""
        return states.pack(self.emulator.save(), self.emulator.rom)

    def load(self, data: bytes, name: str) -> None:
        """Load a state. The mark and the candidates stay, so that a state can be compared with the mark."""
        self._go_to(*states.take({name: data}, self.emulator))

    def begin(self, start: int | None = None) -> None:
        """Start from power-on, or from one of the profile's start states."""
        if start is None:
            self._go_to(self._power_on)
        elif not 0 <= start < len(self.starts):
            known = f"there are 0 to {len(self.starts) - 1}" if self.starts else "the profile has none"
            raise OptionError(f"there is no start state {start}: {known}")
        else:
            self._go_to(self.starts[start])

    def _go_to(self, state: bytes) -> None:
        self.emulator.load(state)
        self._now = self._read()
        self._record_changes()

    # --- memory -----------------------------------------------------------------------------------------------

    def mark(self) -> None:
        """Set the mark: `narrow` compares with this moment."""
        self.search.mark(self._now)

    def narrow(self, text: str) -> None:
        """Keep the bytes that did this since the mark: changed, same, up, down 1, = 3, ..."""
        self.search.narrow(text, self._now)

    def anew(self) -> None:
        """Start a new search: all bytes are candidates."""
        self.search = Search(self._now)

    def candidates(self, most: int) -> list[tuple[int, int, int]]:
        """The first candidates: address, value at the mark or before the diff, current value. Those that rarely change
        come first."""
        left = np.flatnonzero(self.search.left)
        order = left[np.argsort(self._change_counts[left], kind="stable")][:most]
        return [(int(self.addresses[k]), int(self.search.was[k]), int(self._now[k])) for k in order]

    def lately(self, most: int) -> list[tuple[int, int, int]]:
        """Bytes that changed in the last two seconds: address, current value, frames ago. Those that rarely change come
        first, because counters change all the time."""
        ago = self.frame - self._changed_at
        recent = np.flatnonzero(ago < LATELY)
        order = recent[np.lexsort((ago[recent], self._change_counts[recent]))][:most]
        return [(int(self.addresses[k]), int(self._now[k]), int(ago[k])) for k in order]

    def peek(self, address: int, count: int = 1) -> list[int]:
        """The current values of some bytes."""
        if not 1 <= count <= 0x10000 - address:
            most = f"1 to {0x10000 - address:,}"
            raise OptionError(f"{count} bytes cannot be shown from {address:04X}: memory ends at FFFF, so use {most}")
        return list(self.emulator.memory[address : address + count])

    def poke(self, address: int, value: int) -> None:
        """Set a byte, to see what it does."""
        if not 0x8000 <= address <= 0xFFFF:
            raise OptionError(f"{address:04X} cannot be changed: use an address from 8000 to FFFF")
        if not 0 <= value <= 255:
            raise OptionError(f"a byte should be from 0 to 255, got {value}")
        self.emulator.memory[address] = value
        self._record_changes()

    # --- names ------------------------------------------------------------------------------------------------

    def watch(self, address: int, name: str = "", **kind: object) -> WatchedValue:
        """Watch a value under a name. `kind` are keys of a profile's value: size=2, bcd=True, ..."""
        name = name or f"at_{address:04X}"
        if not NAME.fullmatch(name) or name in RESERVED:
            raise OptionError(
                f"{name!r} is not a name for a value: letters from a to z, digits and _ only, a letter first, and not "
                f"{', '.join(RESERVED)}"
            )
        old = self.watched.get(name)
        if old is not None and old.place.address != address:
            raise OptionError(f"{name} is {old.place.address:04X} already: choose another name, or `unwatch {name}`")
        try:
            place = MemoryValue(address=address, **kind)  # type: ignore[arg-type]
        except ValueError as error:
            raise OptionError(f"{address:04X} cannot be watched: {_reason(error)}") from None
        self.watched = {key: n for key, n in self.watched.items() if n.place != place or key == name}
        made = self.watched[name] = WatchedValue(name, place)
        self._make_reader()
        made.low = made.high = made.now
        made.changed_at = -LATELY
        return made

    def unwatch(self, name: str) -> None:
        if name not in self.watched:
            raise OptionError(f"{name!r} is not watched; there are {', '.join(self.watched) or 'none'}")
        del self.watched[name]
        self._make_reader()

    @property
    def findings(self) -> list[WatchedValue]:
        """The values named in this session, without those of the profile."""
        return [named for named in self.watched.values() if not named.known]

    def name_of(self, address: int) -> str:
        """The name of an address; "" if it has none."""
        return next((n.name for n in self.watched.values() if 0 <= address - n.place.address < n.place.size), "")

    # --- inside -----------------------------------------------------------------------------------------------

    def _read(self) -> np.ndarray:
        read = (bytes(self.emulator.memory[low:high]) for low, high in self._areas)
        return np.frombuffer(b"".join(read), np.uint8)

    def _record_changes(self) -> None:
        """Record which bytes changed."""
        now = self._read()
        changed = now != self._now
        self._changed_at[changed] = self.frame
        self._change_counts += changed
        self.search.note(changed)
        self._now = now
        self._update_watched()

    def _make_reader(self) -> None:
        self._values = MemoryReader(self.emulator.memory, {name: named.place for name, named in self.watched.items()})
        self._update_watched()

    def _update_watched(self) -> None:
        for named, value in zip(self.watched.values(), self._values.read(), strict=False):
            named.note(value, self.frame)


def _reason(error: ValueError) -> str:
    """The reason, out of pydantic's message."""
    problems = getattr(error, "errors", lambda: [{"msg": str(error)}])()
    where = "".join(f"{step} " for step in problems[0].get("loc", ()))
    return where + str(problems[0]["msg"]).removeprefix("Value error, ").removeprefix("Input ")


FILTER_HELP = "changed, same, up, down (each but same also with a number), = N, != N, < N, > N"
FILTER_PATTERN = re.compile(r"(?P<word>[a-z]+|==?|!=|<=|>=|<|>)\s*(?P<number>\S+)?")
SINCE_THE_MARK = ("changed", "same", "up", "down")
COMPARISONS: dict[str, Callable[..., np.ndarray]] = {  # of the value now with a number, which is required
    "=": np.equal, "!=": np.not_equal, "<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal,
}  # fmt: skip
ALIASES = {"equal": "=", "equals": "=", "==": "=", "stayed": "same", "unchanged": "same", "rose": "up", "fell": "down"}


def number(text: str) -> int:
    """A number, written as 12, 0x0C or $0C.

    >>> number("12"), number("0x1f"), number("$1F")
    (12, 31, 31)
    """
    try:
        return int(text) if text.isdecimal() else int(text.replace("$", "0x"), 0)
    except ValueError:
        raise OptionError(f"{text!r} is not a number: write 12, 0x0C or $0C") from None


def parse_filter(text: str) -> tuple[str, int | None]:
    """The word and the number of a filter, such as "changed", "down 1" or "= 3"."""
    found = FILTER_PATTERN.fullmatch(text.strip().lower())
    word = "" if found is None else ALIASES.get(found["word"], found["word"])
    if found is None or word not in (*SINCE_THE_MARK, *COMPARISONS):
        raise OptionError(f"{text!r} is not a filter: use {FILTER_HELP}")
    value = None if found["number"] is None else number(found["number"])
    if word in COMPARISONS and value is None:
        raise OptionError(f"{word} needs a number, such as {word} 3")
    if word == "same" and value is not None:
        raise OptionError("same takes no number; use = 3 for bytes that are 3 now")
    return word, value


class Search:
    """The remaining candidates. Each `narrow` compares with the last mark, and sets the next one."""

    def __init__(self, now: np.ndarray) -> None:
        self.was = self.then = now  # `was`: what the last diff compared with
        self.changes = np.zeros(len(now), np.int64)
        self.left = np.ones(len(now), bool)
        self._before: list[np.ndarray] = []

    @property
    def begun(self) -> bool:
        return bool(self._before)

    @property
    def count(self) -> int:
        return int(self.left.sum())

    def note(self, changed: np.ndarray) -> None:
        """Count a frame in which these bytes changed."""
        self.changes += changed

    def mark(self, now: np.ndarray) -> None:
        """Set the mark at this moment."""
        self.was = self.then = now
        self.changes[:] = 0

    def narrow(self, text: str, now: np.ndarray) -> None:
        """Keep the bytes that pass the filter, and set the mark."""
        word, value = parse_filter(text)
        self._before.append(self.left)
        compared = self.then
        self.left = self.left & self._passing(word, value, now)
        self.mark(now)
        self.was = compared

    def _passing(self, word: str, value: int | None, now: np.ndarray) -> np.ndarray:
        if word in COMPARISONS:
            return COMPARISONS[word](now, value)
        if word == "same":
            return now == self.then
        if word == "changed":
            return now != self.then if value is None else self.changes == value
        rise = now.astype(np.int16) - self.then
        rise = -rise if word == "down" else rise
        return rise > 0 if value is None else rise == value

    def undo(self) -> None:
        """Revert the last `narrow`; the mark stays."""
        if not self._before:
            raise OptionError("there is no diff to undo")
        self.left = self._before.pop()
