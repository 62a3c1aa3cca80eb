"""Observations: values of the game's memory, scaled to 0..1 or -1..1, and the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.worlds.gameboy.emulator import HEIGHT, WIDTH
from rookery.worlds.gameboy.memory_reader import Values, largest
from rookery.worlds.gameboy.schema import MemoryFeature, MemoryValue, Observation, Pixels

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
