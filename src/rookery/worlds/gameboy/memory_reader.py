"""Reads all values that a profile names from the emulator's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rookery.worlds.gameboy.schema import MemoryValue

Values = list[int] | tuple[int, ...]
Decode = Callable[[Sequence[int]], int]


class MemoryReader:
    """The values of a profile in a fixed order. `index` gives the position of each name in what `read` returns."""

    def __init__(self, memory: Any, named: Mapping[str, MemoryValue]) -> None:
        self._memory = memory
        self.index = {name: k for k, name in enumerate(named)}
        addresses = [place.address for place in named.values()]
        addresses += [place.address + k for place in named.values() for k in range(1, place.size)]
        # Further bytes of longer values come after the first ones; and two unused ones, so that itemgetter always
        # returns a tuple.
        self._fetch: Callable[[Any], tuple[int, ...]] = itemgetter(*addresses, 0xFFFF, 0xFFFF)
        self._odd = list(_decoders(named))

    def read(self) -> Values:
        """All current values; the entries after them are not used."""
        data = self._fetch(self._memory)
        if not self._odd:
            return data
        values = list(data)
        for k, decode in self._odd:
            values[k] = decode(data)
        return values


def largest(place: MemoryValue) -> int:
    """The largest number that a value can have."""
    if place.bits is not None:
        return place.bits >> _shift(place.bits)
    if place.bcd:
        return int(10 ** (2 * place.size) - 1)
    return int((1 << (8 * place.size - place.signed)) - 1)


def smallest(place: MemoryValue) -> int:
    """The smallest number that a value can have."""
    return -(1 << (8 * place.size - 1)) if place.signed else 0


def _decoders(named: Mapping[str, MemoryValue]) -> Iterator[tuple[int, Decode]]:
    """For each value that is not just one byte: its position and its decoder."""
    at = len(named)
    for k, place in enumerate(named.values()):
        positions = [k, *range(at, at + place.size - 1)]
        at += place.size - 1
        if place.size > 1 or place.bits is not None or place.signed or place.bcd:
            yield k, _decoder(place, positions)


def _decoder(place: MemoryValue, positions: Sequence[int]) -> Decode:
    """A function from all bytes to the value, whose own bytes are at these positions."""
    lowest_first = tuple(reversed(positions)) if place.big_endian else tuple(positions)
    if place.bcd:
        return lambda data: sum(100**k * _digits(data[at]) for k, at in enumerate(lowest_first))
    mask = place.bits or (1 << 8 * place.size) - 1
    shift, sign = _shift(mask), 1 << (8 * place.size - 1) if place.signed else 0

    def decode(data: Sequence[int]) -> int:
        value = 0
        for k, at in enumerate(lowest_first):
            value |= data[at] << 8 * k
        return (((value & mask) >> shift) ^ sign) - sign

    return decode


def _digits(byte: int) -> int:
    return 10 * (byte >> 4) + (byte & 15)


def _shift(mask: int) -> int:
    """The position of a mask's lowest set bit."""
    return (mask & -mask).bit_length() - 1
