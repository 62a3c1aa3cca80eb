"""Reading the values that a profile names, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from rookery.worlds.gameboy.schema import MemoryValue

Values = list[int] | tuple[int, ...]
Decode = Callable[[Sequence[int]], int]


class Watch:
    """The values of a profile in a fixed order. `index` says which is where in what `read` returns."""

    def __init__(self, memory: Any, named: Mapping[str, MemoryValue]) -> None:
        self._memory = memory
        self.index = {name: k for k, name in enumerate(named)}
        addresses = [place.address for place in named.values()]
        addresses += [place.address + k for place in named.values() for k in range(1, place.size)]
        # Further bytes come after the values, and two that nobody needs: of one alone itemgetter makes no tuple.
        self._fetch: Callable[[Any], tuple[int, ...]] = itemgetter(*addresses, 0xFFFF, 0xFFFF)
        self._odd = list(_decoders(named))

    def read(self) -> Values:
        """All values as they are now; what follows them means nothing."""
        data = self._fetch(self._memory)
        if not self._odd:
            return data
        values = list(data)
        for k, decode in self._odd:
            values[k] = decode(data)
        return values


def largest(place: MemoryValue) -> int:
    """The largest number that a value can be."""
    if place.bits is not None:
        return place.bits >> _shift(place.bits)
    if place.bcd:
        return int(10 ** (2 * place.size) - 1)
    return int((1 << (8 * place.size - place.signed)) - 1)


def smallest(place: MemoryValue) -> int:
    """The smallest."""
    return -(1 << (8 * place.size - 1)) if place.signed else 0


def _decoders(named: Mapping[str, MemoryValue]) -> Iterator[tuple[int, Decode]]:
    """For each value that is not simply its byte, where it is and how it is read."""
    at = len(named)
    for k, place in enumerate(named.values()):
        positions = [k, *range(at, at + place.size - 1)]
        at += place.size - 1
        if place.size > 1 or place.bits is not None or place.signed or place.bcd:
            yield k, _decoder(place, positions)


def _decoder(place: MemoryValue, positions: Sequence[int]) -> Decode:
    """A function from all bytes that were read to the value, whose own bytes are at these positions."""
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
    """How far a mask's lowest bit is from the right."""
    return (mask & -mask).bit_length() - 1
