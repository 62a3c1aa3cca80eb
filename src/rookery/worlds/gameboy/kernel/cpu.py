"""The SM83: runs instructions, each in the same steps, which its word describes (see instructions.py).

Every access to memory takes a machine cycle, and happens at its end. The registers are in local variables, which become
registers of the processor that runs this.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import inlined, not_inlined, whole
from rookery.worlds.gameboy.kernel import instructions as of
from rookery.worlds.gameboy.kernel.alu import add, add_pair, add_signed, change_bits, flag_operation, logic
from rookery.worlds.gameboy.kernel.bus import NOWHERE, is_writable, read, settle, write
from rookery.worlds.gameboy.kernel.layout import HALTS, IE, IF, LOCKED, SEEN_MORE, SEEN_STAT, STOPS
from rookery.worlds.gameboy.kernel.lcd import next_change, video_is_open

CYCLE = 4  # dots of a machine cycle


def run(state: Any, memory: Any, rom: Any, words: Any, halt_bug: bool) -> None:
    """Run instructions, one at least, until something is due. After the bug of HALT, the first byte is read twice.

    What needs more than plain memory is left to `_run_one`: so there is one call in this loop, across which nothing
    has to be kept.
    """
    state.loop = NOWHERE
    running = True
    if halt_bug:
        _run_one(state, memory, rom, words, 0)
        running = state.t < state.due
    t, due, pc, sp, registers, flags = _registers_of(state)
    low, high, video = whole(state.rom_low), whole(state.rom_high), video_is_open(state, memory)
    while running:
        done, next_t, next_pc, next_sp, next_registers, next_flags = _execute(
            state, memory, rom, words, low, high, video, t, pc, sp, registers, flags, 1, False
        )
        if done:
            t, pc, sp, registers, flags = next_t, next_pc, next_sp, next_registers, next_flags
        else:
            _keep_registers(state, t, pc, sp, registers, flags)
            _run_one(state, memory, rom, words, 1)
            t, due, pc, sp, registers, flags = _registers_of(state)
            low, high, video = whole(state.rom_low), whole(state.rom_high), video_is_open(state, memory)
        running = t < due
    _keep_registers(state, t, pc, sp, registers, flags)


@not_inlined
def _run_one(state: Any, memory: Any, rom: Any, words: Any, forward: int) -> None:
    """Run one instruction, whatever it is. The program counter goes `forward` after its first byte."""
    t, _, pc, sp, registers, flags = _registers_of(state)
    low, high = whole(state.rom_low), whole(state.rom_high)
    _, t, pc, sp, registers, flags = _execute(
        state, memory, rom, words, low, high, 0, t, pc, sp, registers, flags, forward, True
    )
    _keep_registers(state, t, pc, sp, registers, flags)


@inlined
def _registers_of(state: Any) -> tuple[int, int, int, int, int, int]:
    return state.t, state.due, whole(state.pc), whole(state.sp), state.registers, whole(state.flags)


@inlined
def _keep_registers(state: Any, t: int, pc: int, sp: int, registers: int, flags: int) -> None:
    state.t, state.pc, state.sp, state.registers, state.flags = t, pc, sp, registers, flags


@inlined
def _execute(
    state: Any, memory: Any, rom: Any, words: Any, low: int, high: int, video: int, t: int, pc: int, sp: int,
    registers: int, flags: int, forward: int, anything: bool,
) -> tuple[bool, int, int, int, int, int]:  # fmt: skip
    """Run an instruction: whether it could be done, and then the time and the registers. Without `anything`, those
    that read or write more than plain memory cannot, and change nothing. Until `video`, video RAM is plain memory."""
    # the instruction, and what follows it in the program
    t += CYCLE
    op, done = read(state, memory, rom, low, high, video, pc, t, anything)
    pc = (pc + forward) & 0xFFFF
    word = whole(words[op & 0xFF])
    program = 0
    if word & of.BYTE:
        t += CYCLE
        program, fits = read(state, memory, rom, low, high, video, pc, t, anything)
        done &= fits
        pc = (pc + 1) & 0xFFFF
        if word & of.TWO_BYTES:
            t += CYCLE
            second, fits = read(state, memory, rom, low, high, video, pc, t, anything)
            done &= fits
            program |= second << 8
            pc = (pc + 1) & 0xFFFF
        elif word & of.PREFIX:
            word = whole(words[256 | program & 0xFF])

    # the operand
    address = 0
    if word & (of.READS | of.WRITES):
        address = _address(word, registers, program)
        registers = _move_hl(word, registers)
    if word & of.READS:
        t += CYCLE
        value, fits = read(state, memory, rom, low, high, video, address, t, anything)
        done &= fits
    elif word & of.FROM_PROGRAM:
        value = program
    else:
        value = registers >> (word >> of.FROM & 63) & 0xFF

    # what is done
    kind, given = word & 15, word >> of.MORE & 7
    result, changed = value, 0
    if kind == of.COPY:
        pass
    elif kind == of.JUMP:
        if _holds(word, flags):
            here = pc
            pc = _target(word, registers, program, pc)
            t += 0 if word & of.TO_HL else CYCLE
            if pc < here:  # perhaps a loop that only waits
                if pc == state.loop and registers << 4 | flags >> 4 == state.loop_registers and sp == state.loop_sp:
                    if anything:
                        t = _skip(state, memory, t)
                    else:
                        done = False
                if done:
                    _begin_loop(state, t, pc, sp, registers << 4 | flags >> 4)
    elif kind == of.ADD:
        carry = flags >> 4 & 1 if word & of.CARRIES else 0
        result, changed = add(registers >> of.A, value, carry, word & of.SUBTRACTS != 0)
    elif kind == of.LOGIC:
        result, changed = logic(given, registers >> of.A, value)
    elif kind == of.COUNT:
        result, changed = add(value, 1, 0, word & of.SUBTRACTS != 0)
    elif kind == of.BITS:
        result, changed = change_bits(word >> of.OPERATION & 3, given, value, flags)
        if word & of.CLEARS_ZERO:
            changed &= 0x7F
    elif kind == of.OUT:
        if _holds(word, flags):
            out = _pair(word, registers, sp)
            if word & of.WITH_AF:
                out = registers >> of.A << 8 | flags
            elif word & of.WITH_PC:
                out, pc = pc, program if word & of.BYTE else 8 * given
            first, second, to, beyond = out & 0xFF, out >> 8, program, (program + 1) & 0xFFFF
            if word & of.PUSHES:
                t += CYCLE
                first, second, to, beyond = second, first, (sp - 1) & 0xFFFF, (sp - 2) & 0xFFFF
                sp = beyond
            done &= anything or (is_writable(to, t, video) and is_writable(beyond, t + 2 * CYCLE, video))
            if done:
                write(state, memory, rom, to, first, t + CYCLE, anything)
                write(state, memory, rom, beyond, second, t + 2 * CYCLE, anything)
            t += 2 * CYCLE
    elif kind == of.IN:
        t += CYCLE if word & of.CYCLE_BEFORE else 0
        if _holds(word, flags):
            first, fits = read(state, memory, rom, low, high, video, sp, t + CYCLE, anything)
            done &= fits
            second, fits = read(state, memory, rom, low, high, video, (sp + 1) & 0xFFFF, t + 2 * CYCLE, anything)
            done &= fits
            t += 2 * CYCLE
            sp = (sp + 2) & 0xFFFF
            if word & of.WITH_AF:
                registers, flags = _with_byte(registers, of.A, second), first & 0xF0
            elif word & of.WITH_PC:
                pc = second << 8 | first
                t += CYCLE
            else:
                registers = _with_pair(registers, word >> of.TO & 63, second << 8 | first)
    elif kind == of.PAIR or kind == of.COUNT_PAIR:
        pair = program
        if kind == of.COUNT_PAIR:
            t += CYCLE
            pair = (_pair(word, registers, sp) + (-1 if word & of.SUBTRACTS else 1)) & 0xFFFF
        if word & of.TO_HL:
            pair = registers >> of.HL & 0xFFFF
        if word & of.WITH_SP:
            sp = pair
        else:
            registers = _with_pair(registers, word >> of.TO & 63, pair)
    elif kind == of.ADD_PAIR:
        t += CYCLE
        pair, changed = add_pair(registers >> of.HL & 0xFFFF, _pair(word, registers, sp))
        registers = _with_pair(registers, of.HL, pair & 0xFFFF)
    elif kind == of.ADD_SP:
        t += CYCLE
        pair, changed = add_signed(sp, program)
        if word & of.TO_HL:
            registers = _with_pair(registers, of.HL, pair & 0xFFFF)
        else:
            t += CYCLE
            sp = pair & 0xFFFF
    elif kind == of.FLAGS:
        result, changed = flag_operation(given, registers >> of.A, flags)
    elif anything:
        state.t, state.pc = t, pc
        _special(state, memory, given)
        pc = whole(state.pc)
    if word & of.SPECIAL_EFFECT:
        if anything and kind == of.IN:
            state.ime, state.due = 1, 0
        done &= anything

    # the result
    keep = word >> (of.CHANGED - 4) & 0xF0
    flags = flags & ~keep | changed & keep
    if word & of.TO_REGISTER:
        registers = _with_byte(registers, word >> of.TO & 63, result & 0xFF)
    elif word & of.WRITES:
        t += CYCLE
        done &= anything or is_writable(address, t, video)
        if done:
            write(state, memory, rom, address, result & 0xFF, t, anything)
    return done, t, pc, sp, registers, flags


@inlined
def _begin_loop(state: Any, t: int, pc: int, sp: int, registers: int) -> None:
    """Remember how a round of a loop begins."""
    state.loop, state.loop_t, state.loop_registers, state.loop_sp = pc, t, registers, sp
    state.seen = 0


@inlined
def _with_byte(registers: int, shift: int, value: int) -> int:
    return registers & ~(0xFF << shift) | value << shift


@inlined
def _with_pair(registers: int, shift: int, value: int) -> int:
    return registers & ~(0xFFFF << shift) | value << shift


@inlined
def _pair(word: int, registers: int, sp: int) -> int:
    """BC, DE, HL or SP."""
    return sp if word & of.WITH_SP else registers >> (word >> of.FROM & 63) & 0xFFFF


@inlined
def _holds(word: int, flags: int) -> bool:
    """Whether the condition is true; without one, it is."""
    return (flags >> 4 & word >> of.FLAG & 15 != 0) == (word & of.IF_SET != 0)


@inlined
def _target(word: int, registers: int, program: int, pc: int) -> int:
    """Where a jump goes."""
    if word & of.RELATIVE:
        return (pc + (program ^ 0x80) - 0x80) & 0xFFFF
    return registers >> of.HL & 0xFFFF if word & of.TO_HL else program


@inlined
def _address(word: int, registers: int, program: int) -> int:
    """The address that is read or written."""
    mode = word >> of.MODE & 7
    if mode == of.AT_PROGRAM:
        return program
    if mode == of.AT_HIGH:
        return 0xFF00 | program
    return 0xFF00 | registers & 0xFF if mode == of.AT_HIGH_C else registers >> (word >> of.AT & 63) & 0xFFFF


@inlined
def _move_hl(word: int, registers: int) -> int:
    """The registers after (HL+) and (HL-)."""
    mode = word >> of.MODE & 7
    if mode < of.AT_HL_UP:
        return registers
    hl = registers >> of.HL & 0xFFFF
    return _with_pair(registers, of.HL, (hl + (1 if mode == of.AT_HL_UP else -1)) & 0xFFFF)


@not_inlined
def _skip(state: Any, memory: Any, t: int) -> int:
    """The time after as many rounds of a loop as change nothing. The last round began at `loop_t` with all that the
    next one begins with, and wrote nothing: so does each round until an event, or until LY or STAT changes if it has
    read them."""
    if state.seen >= SEEN_MORE:
        return t
    until, period = state.due, t - state.loop_t
    if state.seen:
        until = min(until, next_change(state, memory, state.loop_t, state.seen >= SEEN_STAT))
    return t + max(until - t, 0) // period * period


@not_inlined
def _special(state: Any, memory: Any, which: int) -> None:
    """HALT, STOP, DI, EI, and bytes that are not instructions."""
    if which == of.HALT:
        _halt(state, memory)
    elif which == of.STOP:
        state.pc = (state.pc + 1) & 0xFFFF
        state.halted = STOPS
        state.due = 0
    elif which == of.DISABLE:
        state.ime = 0
        state.ei = 0
    elif which == of.ENABLE:
        if not state.ime and not state.ei:
            state.ei = 1
            state.due = 0
    else:
        state.halted = LOCKED
        state.due = 0


def _halt(state: Any, memory: Any) -> None:
    """HALT, which fails if interrupts are disabled and one is requested: then the next byte is read twice."""
    settle(state, memory, state.t)
    state.due = 0
    requested = whole(memory[IF]) & whole(memory[IE]) & 31
    if state.ime or not requested:
        state.halted = HALTS
    elif state.ei:
        state.pc = (state.pc - 1) & 0xFFFF  # the interrupt comes first, and returns to the HALT
    else:
        state.halt_bug = 1
