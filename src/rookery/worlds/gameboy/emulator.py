"""A Game Boy emulator, PyBoy without window, sound, files and log output; and its joypad, which turns actions into
button events."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import metadata
from operator import index
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.errors import MissingExtra, SpaceError, WorldError
from rookery.worlds.gameboy.profile_schema import BUTTONS, Actions
from rookery.worlds.gameboy.rom import Rom

LCD_CONTROL, LCD_ON = 0xFF40, 0x80
MOST_FRAMES = 240  # to wait for the screen to be on: no game switches it off for as long
SILENT = 100  # above all of PyBoy's levels, of which "INFO" is the highest and is printed to standard output
PRESS = {"up": 1, "down": 2, "right": 3, "left": 4, "a": 5, "b": 6, "select": 7, "start": 8}  # PyBoy's WindowEvent
RELEASE = {name: event + len(PRESS) for name, event in PRESS.items()}


@cache
def pyboy() -> Any:
    """Import PyBoy, without the warning that its window library gives at import."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyboy as module
            import pyboy.utils
    except ImportError as error:
        raise MissingExtra(f"Game Boy worlds need PyBoy: pip install 'rookery[gameboy]' ({error})") from None
    return module


def version() -> str:
    """PyBoy's version, on which the format of its save states depends."""
    return metadata.version("pyboy")


class Emulator:
    """A Game Boy that runs a ROM.

    PyBoy receives the ROM's bytes, not its path: it would write files beside the ROM.
    """

    def __init__(self, rom: Rom) -> None:
        self.rom = rom
        module = pyboy()
        try:
            self._pyboy = module.PyBoy(
                io.BytesIO(rom.data), window="null", sound_emulated=False, no_input=True, log_level=SILENT
            )
        except module.utils.PyBoyException as error:
            raise WorldError(f"{rom.origin}: PyBoy cannot run this ROM: {error}") from None
        self._pyboy.set_emulation_speed(0)
        if rom.has_clock:
            self._pyboy.rtc_lock_experimental(True)  # otherwise the game would depend on the time of day
        self.memory = self._pyboy.memory
        self.screen: np.ndarray = self._pyboy.screen.ndarray  # (144, 160, 4); PyBoy writes to it
        self.tick = self._pyboy.tick  # (frames, render the last one, sound)
        self.send = self._pyboy.send_input  # (event), before the next tick

    def run(self, frames: int, held: Iterable[str] = (), render: bool = False) -> None:
        """Run for a number of frames with exactly these buttons held."""
        for event in events(held):
            self.send(event)
        self.tick(frames, render, False)

    def save(self) -> bytes:
        """The save state, in PyBoy's format."""
        stream = io.BytesIO()
        self._pyboy.save_state(stream)
        return stream.getvalue()

    def load(self, state: bytes) -> None:
        """Continue from a save state. The caller must have checked that it is a state of this ROM."""
        self._draw_whole_frame()
        self._pyboy.load_state(io.BytesIO(state))

    def _draw_whole_frame(self) -> None:
        """Reset PyBoy's line counter of the window layer by drawing one complete frame. The counter is not part of a
        save state; without this, the next frame would depend on what ran before."""
        for _ in range(MOST_FRAMES):
            on = self.memory[LCD_CONTROL] & LCD_ON
            self.tick(1, True, False)
            if on and self.memory[LCD_CONTROL] & LCD_ON:
                return

    def close(self) -> None:
        self._pyboy.stop(save=False)


def events(held: Iterable[str]) -> list[int]:
    """The events after which exactly these buttons are held."""
    wanted = set(held)
    return [PRESS[name] if name in wanted else RELEASE[name] for name in BUTTONS]


class Joypad:
    """Applies a profile's actions to an emulator.

    Buttons are held for the whole step unless the profile sets `hold`. A button that the next action uses too is not
    released in between.
    """

    def __init__(self, actions: Actions, emulator: Emulator, draw: bool) -> None:
        self.space = spaces.Discrete(len(actions.buttons))
        self.nothing = len(actions.buttons)  # the value of `held` when no button is held
        self.held = self.nothing
        self._emulator = emulator
        self.draw = draw  # whether the last frame of a step is drawn
        self._send = [[changes(held, wanted) for wanted in actions.buttons] for held in [*actions.buttons, ()]]
        self._let_go = [changes(held, ()) for held in actions.buttons]
        self._held_frames, self._free_frames = actions.held, actions.frame_skip - actions.held

    def act(self, action: Any) -> None:
        """Run one step with this action."""
        try:
            choice = index(action)
        except TypeError:
            choice = -1
        if not 0 <= choice < self.nothing:
            raise SpaceError(f"action {action!r} is not in {self.space}")
        emulator = self._emulator
        for event in self._send[self.held][choice]:
            emulator.send(event)
        if not self._free_frames:
            self.held = choice
            emulator.tick(self._held_frames, self.draw, False)
            return
        emulator.tick(self._held_frames, False, False)
        for event in self._let_go[choice]:
            emulator.send(event)
        emulator.tick(self._free_frames, self.draw, False)


def changes(before: Iterable[str], now: Iterable[str]) -> tuple[int, ...]:
    """The events that change the held buttons; releases come first.

    >>> changes(["a", "up"], ["a", "down"])
    (9, 2)
    """
    old, new = set(before), set(now)
    return tuple([RELEASE[name] for name in sorted(old - new)] + [PRESS[name] for name in sorted(new - old)])
