"""A ROM image that grows byte by byte, and labels that may be used before they are placed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gameboy_game.operands import High


class AssemblyError(ValueError):
    """A program cannot be assembled; the message names the instruction or the label and its address."""


class Image:
    """`here` is the address where the next byte goes."""

    def __init__(self, size: int = 0x8000) -> None:
        self.here = 0
        self._image = bytearray(size)
        self._written = bytearray(size)
        self.labels: dict[str, int] = {}
        self._fill_in: list[Callable[[], None]] = []

    def label(self, name: str) -> None:
        """Name the address where the next byte goes."""
        if name in self.labels:
            raise AssemblyError(
                f"label {name!r} at ${self.here:04X} is already placed at ${self.labels[name]:04X}: rename one of them"
            )
        self.labels[name] = self.here

    def org(self, address: int) -> None:
        """Continue at an address."""
        self.here = address

    def align(self, size: int) -> None:
        """Continue at the next multiple of `size`."""
        self.here = -(-self.here // size) * size

    def data(self, values: Iterable[int]) -> None:
        """Add bytes."""
        self._emit(*values)

    def address(self, label: str) -> int:
        """The address of a label."""
        if label not in self.labels:
            raise AssemblyError(f"label {label!r} is used but never placed: check its spelling, or add it")
        return self.labels[label]

    def finish(self) -> bytes:
        """The image, with all labels filled in."""
        for fill in self._fill_in:
            fill()
        self._fill_in.clear()
        return bytes(self._image)

    def _emit(self, *values: int) -> None:
        for value in values:
            if not 0 <= value <= 0xFF:
                raise AssemblyError(f"{value} at ${self.here:04X} does not fit a byte: it must be 0 to 255")
            if self.here >= len(self._image):
                raise AssemblyError(f"${self.here:04X} is beyond the image, which ends at ${len(self._image):04X}")
            if self._written[self.here]:
                raise AssemblyError(f"${self.here:04X} is already in use: two pieces lie over each other")
            self._image[self.here] = value
            self._written[self.here] = 1
            self.here += 1

    def _number(self, value: int | High) -> None:
        if isinstance(value, int):
            return self._emit(value)
        place, label = self.here, value.label
        self._emit(0)
        return self._fill_in.append(lambda: self._store(place, self.address(label) >> 8))

    def _word(self, value: int | str) -> None:
        if isinstance(value, int):
            return self._emit(value & 0xFF, value >> 8)
        place = self.here
        self._emit(0, 0)
        return self._fill_in.append(lambda: self._store(place, *self.address(value).to_bytes(2, "little")))

    def _store(self, place: int, *values: int) -> None:
        self._image[place : place + len(values)] = bytes(values)

    def _relative(self, label: str, place: int) -> None:
        distance = self.address(label) - (place + 1)
        if not -128 <= distance <= 127:
            raise AssemblyError(
                f"jr at ${place - 1:04X}: label {label!r} is {distance} bytes away, and jr reaches -128 to 127: use jp"
            )
        self._store(place, distance & 0xFF)
