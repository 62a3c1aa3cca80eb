"""DIV, TIMA, TMA and TAC (Pan Docs, "Timer and Divider Registers" and "Timer obscure behaviour").

TIMA counts falling edges of one bit of the divider, whose upper half is DIV. When it overflows, it is 0 for one machine
cycle, and then TMA is loaded and the interrupt requested.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import whole
from rookery.worlds.gameboy.kernel.layout import IF, NEVER, TAC, TIMA, TIMER_BIT, TMA


def period_bits(tac: int) -> int:
    """A tick takes 2 ** this many dots."""
    return 10 if tac & 3 == 0 else 2 + 2 * (tac & 3)


def sync_timer(state: Any, memory: Any, now: int) -> None:
    """Count the ticks up to now."""
    again = True
    while again:
        again = False
        if state.reload_at > 0:
            if now < state.reload_at:
                return
            memory[TIMA] = memory[TMA]
            memory[IF] = memory[IF] | TIMER_BIT
            state.reloaded_at = state.reload_at
            state.reload_at = 0
        tac = whole(memory[TAC])
        if tac & 4:
            bits = period_bits(tac)
            before = (state.timer_at - state.div_at) >> bits
            ticks = ((now - state.div_at) >> bits) - before
            left = 256 - whole(memory[TIMA])
            if ticks >= left:
                _overflow(state, memory, state.div_at + ((before + left) << bits))
                again = True
            else:
                memory[TIMA] = whole(memory[TIMA]) + ticks
                state.timer_at = now
        else:
            state.timer_at = now


def schedule_timer(state: Any, memory: Any) -> None:
    """Find the next interrupt; the ticks must be counted up to now."""
    tac = whole(memory[TAC])
    if state.reload_at > 0:
        state.timer_due = state.reload_at
    elif tac & 4:
        bits = period_bits(tac)
        ticks = ((state.timer_at - state.div_at) >> bits) + 256 - whole(memory[TIMA])
        state.timer_due = state.div_at + (ticks << bits) + 4
    else:
        state.timer_due = NEVER


def reset_divider(state: Any, memory: Any) -> None:
    """Any write to DIV: a selected bit that was 1 falls."""
    now = state.t
    tac = whole(memory[TAC])
    if tac & 4 and ((now - state.div_at) >> (period_bits(tac) - 1)) & 1:
        _tick(state, memory, now)
    state.div_at = now
    state.timer_at = now


def write_timer(state: Any, memory: Any, place: int, value: int) -> None:
    """A write to TIMA, TMA or TAC."""
    now = state.t
    just_loaded = state.reloaded_at > 0 and now - state.reloaded_at < 4
    if place == TAC:
        _write_tac(state, memory, value)
    elif place == TMA:
        memory[TMA] = value
        if just_loaded:
            memory[TIMA] = value
    elif not just_loaded:
        memory[TIMA] = value
        state.reload_at = 0


def _write_tac(state: Any, memory: Any, value: int) -> None:
    """The selected bit may fall because another one is selected, or none."""
    now = state.t
    old = whole(memory[TAC])
    divider = now - state.div_at
    was_high = old & 4 and (divider >> (period_bits(old) - 1)) & 1
    stays_high = value & 4 and (divider >> (period_bits(value) - 1)) & 1
    if was_high and not stays_high:
        _tick(state, memory, now)
    memory[TAC] = value & 7


def _tick(state: Any, memory: Any, now: int) -> None:
    if whole(memory[TIMA]) == 255:
        _overflow(state, memory, now)
    else:
        memory[TIMA] = whole(memory[TIMA]) + 1


def _overflow(state: Any, memory: Any, when: int) -> None:
    memory[TIMA] = 0
    state.timer_at = when
    state.reload_at = when + 4
