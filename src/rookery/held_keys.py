"""The keys that are held while a window of pygame is open."""

from __future__ import annotations

from rookery.extras import load_pygame


class HeldKeys:
    """The pressed keys, including those pressed and released between two calls of `look`."""

    def __init__(self) -> None:
        self._pygame = load_pygame()
        self._held: set[int] = set()
        self._tapped: set[int] = set()

    def look(self) -> None:
        """Take the events of the keyboard since the last call."""
        pygame = self._pygame
        self._tapped = set()
        for event in pygame.event.get((pygame.KEYDOWN, pygame.KEYUP)):
            if event.type == pygame.KEYDOWN:
                self._tapped.add(event.key)
                self._held.add(event.key)
            else:
                self._held.discard(event.key)

    def is_down(self, name: str) -> bool:
        """Whether a key is held, or was pressed since the last look; by pygame's name, such as "a" or "LEFT"."""
        return getattr(self._pygame, f"K_{name}") in self._held | self._tapped

    def was_pressed(self, name: str) -> bool:
        """Whether a key was pressed since the last look."""
        return getattr(self._pygame, f"K_{name}") in self._tapped
