"""The functions of a game's world: an episode's start, a step, and what is seen."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rookery.kernel.declarations import inlined, whole
from rookery.kernel.random import integer
from rookery.kernel.translate import defined, translate
from rookery.worlds.gameboy.kernel.console import run_frame
from rookery.worlds.gameboy.kernel.layout import HEIGHT, STATE, WIDTH
from rookery.worlds.gameboy.kernel.picture import pixel as shade_of
from rookery.worlds.gameboy.kernel.values import any_holds, begin_terms, read_values, reward_of, see

GREYS = np.array([255, 153, 85, 0], np.uint8)  # of the shades, as PyBoy shows them
AT_START = 2  # a value of `shown`: the picture is that of the save state
ROWS, COLUMNS, STACK, CHANNELS, FRAMES_AT = range(5)  # of the table `picture`


def _console_places() -> list[str]:
    """All numbers of a console's state, as `state.NAME` or `state.NAME[k]`."""
    sizes = {name: math.prod(kind[1]) if isinstance(kind, tuple) else 0 for name, kind in STATE.items()}
    return [f"{name}[{k}]" if size else name for name, size in sizes.items() for k in range(size or 1)]


CONSOLE_PLACES = _console_places()
take_console = defined(
    "take_console(state, numbers)",
    [f"    state.{place} = numbers[{k}]" for k, place in enumerate(CONSOLE_PLACES)],
    __name__=__name__,
)


def build_reset_and_step(shown: Sequence[tuple[str, int]], tells_success: bool) -> tuple[Callable, Callable]:
    """`reset` and `step` of a world whose infos are these values, given by name and number."""
    lines = [f"    info.{name} = state.values[{k}]" for name, k in shown]
    lines += ["    info.is_success = state.succeeded != 0"] * tells_success
    write_info = defined("write_info(state, info)", lines, __name__=__name__)

    def reset(state: Any, memory: Any, params: Any, tables: Any, info: Any) -> None:
        count = len(tables.starts)
        start = params.start
        if start < 0:
            start = integer(state, 0, count) if count > 1 else 0
        take_console(state, tables.starts[start])
        size = len(tables.start_memory) // count
        for k in range(size):
            memory[k] = tables.start_memory[start * size + k]
        state.start = start
        state.shown = AT_START
        read_values(state, memory, tables)
        begin_terms(state, memory, tables)
        write_info(state, info)

    def step(state: Any, action: Any, memory: Any, params: Any, tables: Any, info: Any) -> tuple[float, bool]:
        for k in range(len(tables.values)):
            state.before[k] = state.values[k]
        keys, frames = whole(tables.buttons[action]), params.frame_skip
        for frame in range(frames):
            draw = params.draw if frame == frames - 1 else 0
            run_frame(state, memory, tables.rom, tables.instructions, keys if frame < params.hold else 0, draw)
        read_values(state, memory, tables)
        if any_holds(state, tables, tables.success):
            state.succeeded = 1
        write_info(state, info)
        return reward_of(state, memory, tables), any_holds(state, tables, tables.ends)

    return reset, step


def observe_memory(state: Any, tables: Any, out: Any) -> None:
    """The values of the profile."""
    see(state, tables, out)


@inlined
def pixel(state: Any, memory: Any, tables: Any, plane: int, y: int, x: int) -> int:
    """One pixel of the stacked pictures. The newest is the last plane; the others are kept in the memory."""
    form = tables.picture
    stack, frame = form[STACK], plane // form[CHANNELS]
    place = form[FRAMES_AT] + (((state.steps + frame + 1) % stack) * form[ROWS] + y) * form[COLUMNS] + x
    if state.steps > 0 and frame < stack - 1:
        return whole(memory[place])
    grey = whole(GREYS[shade(state, memory, tables, y * HEIGHT // form[ROWS], x * WIDTH // form[COLUMNS])])
    if stack > 1:
        memory[place] = grey
    return grey


@inlined
def shade(state: Any, memory: Any, tables: Any, y: int, x: int) -> int:
    """The shade of a pixel of the screen."""
    if state.shown == AT_START:
        return whole(tables.screens[state.start, y * WIDTH + x])
    return shade_of(state, memory, y, x)


def observe_pixels(state: Any, memory: Any, tables: Any, out: Any) -> None:
    """The stacked pictures."""
    planes, rows, columns = out.shape
    for plane in range(planes):
        for y in range(rows):
            for x in range(columns):
                out[plane, y, x] = pixel(state, memory, tables, plane, y, x)


def observe_both(state: Any, memory: Any, tables: Any, out: Any) -> None:
    """The values and the pictures."""
    see(state, tables, out.memory)
    observe_pixels(state, memory, tables, out.pixels)


# --- the screen, for people -------------------------------------------------------------------------------------------

Screens: Any = namedtuple("Screens", ("screens",))  # the only table that the screen needs


def draw_screen(states: Any, memory: Any, tables: Any, out: Any) -> None:
    """Write the whole screen in grey."""
    for y in range(HEIGHT):
        for x in range(WIDTH):
            out[y, x] = GREYS[shade(states[0], memory, tables, y, x)]


@cache
def _compiled_draw() -> Callable[..., None]:
    """Drawing one screen takes a third of a second in plain Python."""
    from numba import njit

    return translate(draw_screen, njit(error_model="numpy"))


def screen(states: np.ndarray, memory: np.ndarray, screens: np.ndarray) -> np.ndarray:
    """The screen of a console in grey, (144, 160)."""
    out = np.zeros((HEIGHT, WIDTH), np.uint8)
    _compiled_draw()(states, memory, Screens(screens), out)
    return out
