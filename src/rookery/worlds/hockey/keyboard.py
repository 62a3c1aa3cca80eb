"""Keyboard control for hockey."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rookery.held_keys import HeldKeys

GENERAL_KEYS = "R restart, Esc quit"


@dataclass(frozen=True)
class KeyBindings:
    """The keys of one player, by pygame's names, with a help text."""

    left: str
    right: str
    up: str
    down: str
    anticlockwise: str
    clockwise: str
    shoot: str
    text: str


LEFT_KEYS = KeyBindings("a", "d", "w", "s", "q", "e", "SPACE", "WASD move, Q/E turn, space shoots")
RIGHT_KEYS = KeyBindings(
    "LEFT", "RIGHT", "UP", "DOWN", "COMMA", "PERIOD", "RETURN", "arrows move, comma/period turn, Enter shoots"
)


def key_help(people: int) -> str:
    """The help text for a number of human players.

    >>> key_help(0)
    'R restart, Esc quit'
    """
    alone = [f"{LEFT_KEYS.text} (or: {RIGHT_KEYS.text})"]
    together = [f"left player: {LEFT_KEYS.text}", f"right player: {RIGHT_KEYS.text}"]
    return "\n".join([*([], alone, together)[people], GENERAL_KEYS])


def assign_keys(one_is_human: bool, two_is_human: bool) -> tuple[tuple[KeyBindings, ...], tuple[KeyBindings, ...]]:
    """The keys of each player: a single human may use both sets of keys."""
    if one_is_human and two_is_human:
        return (LEFT_KEYS,), (RIGHT_KEYS,)
    both = LEFT_KEYS, RIGHT_KEYS
    return (both if one_is_human else ()), (both if two_is_human else ())


class Keyboard(HeldKeys):
    """The pressed keys as a player's actions."""

    restarted = left = False

    def look(self) -> None:
        super().look()
        self.restarted, self.left = self.was_pressed("r"), self.was_pressed("ESCAPE")

    def action(self, hands: Iterable[KeyBindings]) -> list[float]:
        """Force x, force y, torque and shoot, from one or two sets of keys."""

        def pressed(way: str) -> float:
            return float(any(self.is_down(getattr(hand, way)) for hand in hands))

        sideways, upwards = pressed("right") - pressed("left"), pressed("up") - pressed("down")
        return [sideways, upwards, pressed("anticlockwise") - pressed("clockwise"), pressed("shoot")]
