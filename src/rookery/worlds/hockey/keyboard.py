"""Keyboard control for hockey."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rookery.extras import load_pygame

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


class Keyboard:
    """The pressed keys, including those pressed and released between two calls of `look`."""

    def __init__(self) -> None:
        self._pygame = load_pygame()
        self._held: set[int] = set()
        self._down: set[int] = set()
        self.restarted = self.left = False

    def look(self) -> None:
        pygame = self._pygame
        tapped = set()
        for event in pygame.event.get((pygame.KEYDOWN, pygame.KEYUP)):
            if event.type == pygame.KEYDOWN:
                tapped.add(event.key)
                self._held.add(event.key)
            else:
                self._held.discard(event.key)
        self._down = self._held | tapped
        self.restarted, self.left = pygame.K_r in tapped, pygame.K_ESCAPE in tapped

    def action(self, hands: Iterable[KeyBindings]) -> list[float]:
        """Force x, force y, torque and shoot, from one or two sets of keys."""

        def pressed(way: str) -> float:
            return float(any(getattr(self._pygame, f"K_{getattr(hand, way)}") in self._down for hand in hands))

        sideways, upwards = pressed("right") - pressed("left"), pressed("up") - pressed("down")
        return [sideways, upwards, pressed("anticlockwise") - pressed("clockwise"), pressed("shoot")]
