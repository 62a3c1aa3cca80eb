"""The joypad: turns actions into button events for the emulator."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

from gymnasium import spaces

from rookery.errors import SpaceError
from rookery.worlds.gameboy.emulator import PRESS, RELEASE, Emulator
from rookery.worlds.gameboy.schema import Actions


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
