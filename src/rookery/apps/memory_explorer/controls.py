"""The controls that the window and the terminal share: keys, pause, the command line, and the panel beside the screen.
It receives keys by name, and draws nothing."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from rookery.apps.memory_explorer.explorer_commands import (
    Commands,
    Quit,
    candidate_rows,
    is_fresh,
    recent_rows,
    value_row,
)
from rookery.errors import RookeryError

BUTTONS = {
    "up": "up", "down": "down", "left": "left", "right": "right", "x": "a", "z": "b", "enter": "start",
    "space": "select",
}  # fmt: skip
SHORT = {
    "m": "mark", "c": "diff changed", "e": "diff same", "+": "diff up", "-": "diff down", "u": "undo", "s": "save",
    "l": "load", "?": "help", "q": "quit",
}  # fmt: skip
KEYS = (
    "arrows  x A  z B  Enter START  Space SELECT",
    "p pause  . one frame  f fast  s save  l load  : command  ? help  q quit",
    "m mark, play on, keep bytes that:  c changed  e stayed  + rose  - fell  u undo",
)
TYPING = "Enter executes, Esc cancels, up recalls the last line; `help` lists the commands"
TAP = 10  # frames for which a key counts as held where key releases are not reported
FAST = 8  # times the normal speed
BRIEF = ("diff", "undo")  # their results are in the panel anyway


@dataclass(frozen=True)
class StyledLine:
    """A line of text and its style: "head", "plain", "dim", "bright", or "prompt" for a line being typed."""

    text: str
    tone: str = "plain"


class ExplorerControls:
    """The state of the user interface. `advance` is called 60 times per second."""

    def __init__(self, commands: Commands) -> None:
        self.commands, self.session = commands, commands.session
        self.paused = self.fast = False
        self.prompt: str | None = None  # the command line being typed; the game waits
        self.page: list[str] = []  # a long output, shown until the next key
        self.message = f"states are saved in {commands.store.folder}; ? lists the keys"
        self._held: set[str] = set()
        self._tapped: dict[str, int] = {}
        self._single = 0
        self._typed: list[str] = []
        self._back = 0

    # --- keys -------------------------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """A key was pressed."""
        if not self._other(key):
            self._held.add(BUTTONS[key])

    def release(self, key: str) -> None:
        self._held.discard(BUTTONS.get(key, ""))

    def tap(self, key: str) -> None:
        """A key was pressed on a terminal, which does not report releases."""
        if not self._other(key):
            self._held.clear()
            self._tapped[BUTTONS[key]] = TAP

    def hold(self, key: str) -> None:
        """Hold a button until the next key."""
        if not self._other(key):
            self._held = {BUTTONS[key]}

    def _other(self, key: str) -> bool:
        """Handle a key that is not a button; returns whether it was one."""
        if self.page:
            self.page = []
            return True
        if self.prompt is not None:
            self._type(key)
            return True
        if key in BUTTONS:
            return False
        if key in SHORT:
            self._do(SHORT[key])
        elif key == "p":
            self.paused = not self.paused
        elif key == "f":
            self.fast = not self.fast
        elif key == ".":
            self.paused, self._single = True, self._single + 1
        elif key == ":":
            self.prompt, self._back = "", 0
            self._held.clear()
        return True

    def _type(self, key: str) -> None:
        assert self.prompt is not None
        if key == "enter":
            line, self.prompt = self.prompt.strip(), None
            if line:
                self._typed.append(line)
                self._do(line)
        elif key == "escape" or (key == "backspace" and not self.prompt):
            self.prompt = None
        elif key == "backspace":
            self.prompt = self.prompt[:-1]
        elif key in ("up", "down"):
            self._back = max(0, min(len(self._typed), self._back + (1 if key == "up" else -1)))
            self.prompt = self._typed[-self._back] if self._back else ""
        else:
            self.prompt += " " if key == "space" else key if len(key) == 1 else ""

    def _do(self, line: str) -> None:
        try:
            answer = self.commands.do(line)
        except Quit:
            raise
        except RookeryError as error:
            self.message = str(error)
            return
        if line == "help":
            answer = [*KEYS, "", *answer]
        brief = len(answer) <= 1 or line.split()[0] in BRIEF
        self.message = answer[0] if answer and brief else ""
        self.page = [] if brief else answer

    # --- time and the panel -----------------------------------------------------------------------------------

    def advance(self) -> None:
        """Advance by a sixtieth of a second."""
        waiting = self.prompt is not None or bool(self.page)
        frames = self._single if self.paused else FAST if self.fast else 1
        self._single = 0
        if waiting or not frames:
            return
        self.session.play(frames, self._held | set(self._tapped))
        left = {button: left - frames for button, left in self._tapped.items()}
        self._tapped = {button: frames for button, frames in left.items() if frames > 0}

    def panel(self, height: int) -> list[StyledLine]:
        """The panel beside the screen, in at most `height` lines."""
        session = self.session
        state = "paused" if self.paused else "fast" if self.fast else ""
        lines = [
            StyledLine(f"{session.emulator.rom.title}  frame {session.frame:,}  {state}".rstrip(), "head"),
            StyledLine(""),
        ]
        room = max(3, (height - 8) // 3)
        lines += self._watched(2 * room - min(room, session.search.count if session.search.begun else 0))
        lines += [StyledLine("changed lately", "head"), *map(StyledLine, recent_rows(session, room)), StyledLine("")]
        if session.search.begun:
            head, *rows = candidate_rows(session, room)
            lines += [StyledLine(head, "head"), *map(StyledLine, rows)]
        return lines[:height]

    def below(self) -> list[StyledLine]:
        """What is under the screen: the message, and the keys or the command line."""
        if self.page:
            return [StyledLine("press any key to return", "dim")]
        if self.prompt is not None:
            return [StyledLine(self.message), StyledLine(f":{self.prompt}", "prompt"), StyledLine(TYPING, "dim")]
        return [StyledLine(self.message), *(StyledLine(keys, "dim") for keys in KEYS)]

    def wrapped_page(self, columns: int) -> list[str]:
        """The page in lines of so many columns."""
        return [line for text in self.page for line in textwrap.wrap(text, columns, subsequent_indent=" " * 8) or [""]]

    def _watched(self, most: int) -> list[StyledLine]:
        session = self.session
        found_first = sorted(session.watched.values(), key=lambda named: named.known)
        fresh = [(named, is_fresh(named, session.frame)) for named in found_first]
        rows = [StyledLine(value_row(named), "bright" if new else "plain") for named, new in fresh]
        hidden = len(rows) - most
        if hidden > 0:
            rows = [*rows[: most - 1], StyledLine(f"  and {hidden + 1} more: `values`", "dim")]
        return [StyledLine("watched", "head"), *(rows or [StyledLine("  : watch C0A5 hearts", "dim")]), StyledLine("")]
