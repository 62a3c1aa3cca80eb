"""A console: runs instructions, and between them what is due: events, interrupts, HALT."""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import not_inlined, whole
from rookery.worlds.gameboy.kernel.bus import settle, write
from rookery.worlds.gameboy.kernel.cpu import CYCLE, run
from rookery.worlds.gameboy.kernel.layout import HALTS, IE, IF, KEYS_BIT, RUNS, STOPS
from rookery.worlds.gameboy.kernel.lcd import schedule_lcd

GO_ON, FRAME_OVER, HALT_BUG = 0, 1, 2


def run_frame(state: Any, memory: Any, rom: Any, words: Any, keys: int, draw: int) -> None:
    """Run until the frame is over: at the end of VBlank, or where the LCD is switched on or off; with the LCD off,
    after the time of a frame. `draw` says whether the picture is looked at."""
    _hold_keys(state, memory, keys)
    if state.draw != draw:
        state.draw = draw
        schedule_lcd(state, memory, state.t)
    found = attend(state, memory, rom)
    while found != FRAME_OVER:
        run(state, memory, rom, words, found == HALT_BUG)
        found = attend(state, memory, rom)


def _hold_keys(state: Any, memory: Any, keys: int) -> None:
    """Hold exactly these keys. A key that is pressed requests an interrupt, and ends STOP."""
    pressed = keys & ~whole(state.keys)
    state.keys = keys
    if pressed:
        memory[IF] = whole(memory[IF]) | KEYS_BIT
        if state.halted == STOPS:
            state.halted = RUNS


@not_inlined
def attend(state: Any, memory: Any, rom: Any) -> int:
    """What is due between two instructions; where the CPU halts, also what is due later."""
    while True:
        settle(state, memory, state.t)
        if state.done:
            state.done = 0
            return FRAME_OVER
        if state.ei == 1:  # interrupts are enabled after the next instruction
            state.ei = 2
            return GO_ON
        if state.ei == 2:
            state.ei = 0
            state.ime = 1
        if state.halt_bug:
            state.halt_bug = 0
            return HALT_BUG
        if whole(memory[IF]) & whole(memory[IE]) & 31:
            if state.halted == HALTS:
                state.halted = RUNS
            if state.ime and state.halted == RUNS:
                _interrupt(state, memory, rom)
        state.due = min(state.timer_due, state.lcd_due, state.serial_due)
        if state.halted == RUNS:
            return GO_ON
        state.t += max((state.due - state.t + CYCLE - 1) // CYCLE, 1) * CYCLE


def _interrupt(state: Any, memory: Any, rom: Any) -> None:
    """Call the handler of the first interrupt that is requested. The push may write to IE, and cancel it."""
    state.ime = 0
    pc, sp = state.pc, state.sp
    state.sp = (sp - 2) & 0xFFFF
    state.t += 2 * CYCLE
    state.t += CYCLE
    write(state, memory, rom, (sp - 1) & 0xFFFF, pc >> 8, state.t, True)
    requested = whole(memory[IF]) & whole(memory[IE]) & 31
    state.t += CYCLE
    write(state, memory, rom, (sp - 2) & 0xFFFF, pc & 0xFF, state.t, True)
    state.t += CYCLE
    state.pc = 0
    for k in range(5):
        if requested >> k & 1:
            memory[IF] = whole(memory[IF]) & ~(1 << k) & 0xFF
            state.pc = 0x40 + 8 * k
            return
