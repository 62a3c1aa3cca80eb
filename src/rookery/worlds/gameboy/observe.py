"""Reads the values that a profile names from the emulator's memory, and makes observations: values scaled to 0..1 or
-1..1, and the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.worlds.gameboy.profile_schema import HEIGHT, WIDTH, MemoryFeature, MemoryValue, Observation, Pixels

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


Look = Callable[[Values], tuple[float, ...]]
BYTE = 256  # how many values a byte has
LUMA = np.array([77, 150, 29], np.uint16)  # weights of red, green and blue, of 256


class MemoryObservation:
    """The memory observation of a profile."""

    def __init__(self, observation: Observation, named: Mapping[str, MemoryValue], index: Mapping[str, int]) -> None:
        self._looks = [_look(seen, named, index) for seen in observation.memory]
        widths = [seen.width for seen in observation.memory]
        self._used = sum(widths)
        self._size = observation.size or self._used
        signs = [_negative(seen, named) for seen in observation.memory]
        low = [-1.0 if sign else 0.0 for sign, width in zip(signs, widths, strict=True) for _ in range(width)]
        low += [0.0] * (self._size - self._used)
        self.space = spaces.Box(np.array(low, np.float32), np.ones(self._size, np.float32))

    def see(self, values: Values) -> np.ndarray:
        """The observation for these values, as a new array."""
        row: list[float] = []
        for look in self._looks:
            row += look(values)
        if self._size == self._used:
            return np.array(row, np.float32)
        padded = np.zeros(self._size, np.float32)
        padded[: self._used] = row
        return padded


class PixelObservation:
    """The screen, shrunk and grey, with the last few frames stacked: (channels, height, width)."""

    def __init__(self, pixels: Pixels, screen: np.ndarray, colour: bool) -> None:
        self._screen = screen[:: pixels.shrink, :: pixels.shrink]
        self._luma = pixels.grey and colour
        self._channels = 1 if pixels.grey else 3
        shape = (self._channels * pixels.stack, HEIGHT // pixels.shrink, WIDTH // pixels.shrink)
        self.space = spaces.Box(0, 255, shape, np.uint8)
        self.frames = np.zeros(shape, np.uint8)

    def begin(self) -> None:
        """Fill the stack with the first screen of an episode."""
        self._draw(self.frames[-self._channels :])
        for k in range(0, len(self.frames) - self._channels, self._channels):
            self.frames[k : k + self._channels] = self.frames[-self._channels :]

    def advance(self) -> None:
        """Add the current screen to the stack and drop the oldest one."""
        frames, channels = self.frames, self._channels
        if len(frames) > channels:
            frames[:-channels] = frames[channels:]
        self._draw(frames[-channels:])

    def _draw(self, target: np.ndarray) -> None:
        if self._luma:
            target[0] = (self._screen[:, :, :3] @ LUMA) >> 8
        elif self._channels == 1:
            target[0] = self._screen[:, :, 0]  # of a grey screen, all three channels are the same
        else:
            target[...] = self._screen[:, :, :3].transpose(2, 0, 1)


def _negative(seen: MemoryFeature, named: Mapping[str, MemoryValue]) -> bool:
    """Whether the feature ranges down to -1."""
    if seen.values is not None or seen.equals is not None or seen.low is not None:
        return False
    return seen.minus is not None or named[seen.value].signed


def _look(seen: MemoryFeature, named: Mapping[str, MemoryValue], index: Mapping[str, int]) -> Look:
    i = index[seen.value]
    if seen.values is not None:
        look = _one_of(seen, i)
    elif seen.equals is not None:
        look = _same(seen, i, index)
    else:
        look = _scaled(seen, named, index)
    others = [name for name in (seen.low, seen.high, seen.equals) if isinstance(name, str)]
    return look if others else _looked_up(look, seen, named, index)


def _looked_up(look: Look, seen: MemoryFeature, named: Mapping[str, MemoryValue], index: Mapping[str, int]) -> Look:
    """The same from a lookup table, if the values are bytes: it takes a third of the time."""
    parts = [seen.value] if seen.minus is None else [seen.value, seen.minus]
    if any(largest(named[name]) >= BYTE or named[name].signed for name in parts):
        return look
    values, i = [0] * len(index), index[seen.value]
    if seen.minus is None or seen.minus == seen.value:
        table = [look([*values[:i], value, *values[i + 1 :]]) for value in range(BYTE)]
        return lambda values: table[values[i]]
    k = index[seen.minus]
    table = []
    for difference in [*range(BYTE), *range(1 - BYTE, 0)]:  # negative ones at the end: they become negative indices
        values[i], values[k] = max(difference, 0), max(-difference, 0)
        table.append(look(values))
    return lambda values: table[values[i] - values[k]]


def _one_of(seen: MemoryFeature, i: int) -> Look:
    wanted = range(seen.values) if isinstance(seen.values, int) else seen.values or ()
    return lambda values: tuple(float(values[i] == value) for value in wanted)


def _same(seen: MemoryFeature, i: int, index: Mapping[str, int]) -> Look:
    if isinstance(seen.equals, str):
        k = index[seen.equals]
        return lambda values: (1.0,) if values[i] == values[k] else (0.0,)
    return lambda values: (float(values[i] == seen.equals),)


def _scaled(seen: MemoryFeature, named: Mapping[str, MemoryValue], index: Mapping[str, int]) -> Look:
    i = index[seen.value]
    k = None if seen.minus is None else index[seen.minus]
    low = _bound(0 if seen.low is None else seen.low, index)
    high = _bound(largest(named[seen.value]) if seen.high is None else seen.high, index)
    least = -1.0 if _negative(seen, named) else 0.0

    def look(values: Sequence[Any]) -> tuple[float, ...]:
        value = values[i] if k is None else values[i] - values[k]
        start = low(values)
        span = high(values) - start
        share = (value - start) / span if span > 0 else 0.0
        return (least if share < least else 1.0 if share > 1.0 else share,)

    return look


def _bound(bound: float | str, index: Mapping[str, int]) -> Callable[[Sequence[Any]], float]:
    if isinstance(bound, str):
        k = index[bound]
        return lambda values: values[k]
    return lambda values: bound
