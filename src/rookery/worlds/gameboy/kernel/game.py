"""The functions of a game's world: an episode's start, a step, and what is seen."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rookery.kernel.declarations import whole
from rookery.kernel.random import integer
from rookery.kernel.translate import defined, translate
from rookery.worlds.gameboy.kernel.console import run_frame
from rookery.worlds.gameboy.kernel.layout import HEIGHT, STATE, WIDTH
from rookery.worlds.gameboy.kernel.picture import GREYS, draw_line
from rookery.worlds.gameboy.kernel.values import any_holds, begin_terms, read_values, reward_of, see

AT_START = 2  # a value of `shown`: the picture is that of the save state
STACK, CHANNELS, FRAMES_AT = range(3)  # of the table `picture`


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


def observe_pixels(state: Any, memory: Any, tables: Any, out: Any) -> None:
    """The stacked pictures, the newest last; the others are kept in the memory."""
    form = tables.picture
    rows, columns, stack, channels = len(tables.rows), len(tables.columns), form[STACK], form[CHANNELS]
    for row in range(rows):
        for frame in range(stack):
            line = out[channels * frame, row]
            kept = form[FRAMES_AT] + ((state.steps + frame + 1) % stack * rows + row) * columns
            if state.steps > 0 and frame < stack - 1:
                for k in range(columns):
                    line[k] = memory[kept + k]
            else:
                draw_row(state, memory, tables, row, line)
                for k in range(columns if stack > 1 else 0):
                    memory[kept + k] = line[k]
            for plane in range(1, channels):
                for k in range(columns):
                    out[channels * frame + plane, row, k] = line[k]


def draw_row(state: Any, memory: Any, tables: Any, row: int, out: Any) -> None:
    """Write one row of the picture as it is seen, in grey."""
    y = tables.rows[row]
    if state.shown and state.shown != AT_START:
        draw_line(memory, y, tables.columns, out)
    else:
        for k in range(len(out)):
            out[k] = GREYS[tables.screens[state.start, y * WIDTH + tables.columns[k]] if state.shown else 0]


def observe_both(state: Any, memory: Any, tables: Any, out: Any) -> None:
    """The values and the pictures."""
    see(state, tables, out.memory)
    observe_pixels(state, memory, tables, out.pixels)


# --- the screen, for people -------------------------------------------------------------------------------------------

Screens: Any = namedtuple("Screens", ("screens", "rows", "columns"))  # the only tables that the screen needs


def draw_screen(states: Any, memory: Any, tables: Any, out: Any) -> None:
    """Write the whole screen in grey."""
    for y in range(HEIGHT):
        draw_row(states[0], memory, tables, y, out[y])


@cache
def _compiled_draw() -> Callable[..., None]:
    """Drawing one screen takes a third of a second in plain Python."""
    from numba import njit

    return translate(draw_screen, njit(error_model="numpy"))


def screen(states: np.ndarray, memory: np.ndarray, screens: np.ndarray) -> np.ndarray:
    """The screen of a console in grey, (144, 160)."""
    out = np.zeros((HEIGHT, WIDTH), np.uint8)
    _compiled_draw()(states, memory, Screens(screens, np.arange(HEIGHT), np.arange(WIDTH)), out)
    return out
