"""A person in the page as the second player of hockey."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

KEYS = ("left", "right", "up", "down", "anticlockwise", "clockwise", "shoot")


class KeyboardPlayer:
    """Plays the second seat of one env, by the keys that are held."""

    name = "you"

    def __init__(self) -> None:
        self.sequence = 0  # of the last message about keys that a step has used
        self._held: frozenset[str] = frozenset()
        self._tapped: frozenset[str] = frozenset()  # pressed since the last step, perhaps released since
        self._newest = 0

    def press(self, sequence: int, held: Iterable[str]) -> None:
        """The keys that are held from now on."""
        self._held = frozenset(held) & frozenset(KEYS)
        self._tapped |= self._held
        self._newest = max(self._newest, sequence)

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        """A game begins; keys stay held."""

    def act(self, observations: np.ndarray, envs: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """Force x, force y, torque and shoot. Keys use the table's directions; the second player's view is rotated."""
        down, self._tapped, self.sequence = self._held | self._tapped, frozenset(), self._newest
        x = float("left" in down) - float("right" in down)
        y = float("down" in down) - float("up" in down)
        turn = float("anticlockwise" in down) - float("clockwise" in down)
        return np.array([[x, y, turn, float("shoot" in down)]], np.float32)
