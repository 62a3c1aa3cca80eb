"""The SM83's instructions, decoded by the fields of the opcode: xx yyy zzz (Pan Docs, "CPU Instruction Set").

Every access to memory takes a machine cycle, and happens at its end: `load`, `store` and `immediate` count it. Other
machine cycles are counted where they are.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import inlined, whole
from rookery.worlds.gameboy.kernel.alu import add_hl, add_sp, calculate, flag_operation, rotate, rotate_a, step
from rookery.worlds.gameboy.kernel.bus import read, settle, write, write_enabled
from rookery.worlds.gameboy.kernel.layout import C_FLAG, H_FLAG, HALTS, IE, IF, LOCKED, STOPS, Z_FLAG, A, C, F

CYCLE = 4  # dots of a machine cycle


@inlined
def load(state: Any, memory: Any, rom: Any, address: int) -> int:
    """Read a byte, in a machine cycle."""
    state.t += CYCLE
    return read(state, memory, rom, address)


@inlined
def store(state: Any, memory: Any, rom: Any, address: int, value: int) -> None:
    """Write a byte, in a machine cycle."""
    state.t += CYCLE
    if address == 0xFFFF:
        write_enabled(state, memory, value)
    else:
        write(state, memory, rom, address, value)


@inlined
def immediate(state: Any, memory: Any, rom: Any) -> int:
    """The next byte of the program."""
    pc = state.pc
    state.pc = (pc + 1) & 0xFFFF
    state.t += CYCLE
    return read(state, memory, rom, pc)


@inlined
def immediate16(state: Any, memory: Any, rom: Any) -> int:
    """The next two bytes of the program."""
    low = immediate(state, memory, rom)
    return low | immediate(state, memory, rom) << 8


@inlined
def pair(state: Any, p: int) -> int:
    """BC, DE, HL or SP."""
    return state.sp if p == 3 else whole(state.reg[2 * p]) << 8 | whole(state.reg[2 * p + 1])


@inlined
def set_pair(state: Any, p: int, value: int) -> None:
    """Set BC, DE, HL or SP."""
    if p == 3:
        state.sp = value
    else:
        state.reg[2 * p] = value >> 8
        state.reg[2 * p + 1] = value & 0xFF


@inlined
def push(state: Any, memory: Any, rom: Any, value: int) -> None:
    """Two bytes onto the stack."""
    sp = state.sp
    state.sp = (sp - 2) & 0xFFFF
    store(state, memory, rom, (sp - 1) & 0xFFFF, value >> 8)
    store(state, memory, rom, (sp - 2) & 0xFFFF, value & 0xFF)


@inlined
def pop(state: Any, memory: Any, rom: Any) -> int:
    """Two bytes from the stack."""
    sp = state.sp
    state.sp = (sp + 2) & 0xFFFF
    low = load(state, memory, rom, sp)
    return low | load(state, memory, rom, (sp + 1) & 0xFFFF) << 8


@inlined
def holds(state: Any, condition: int) -> bool:
    """NZ, Z, NC or C."""
    flag = whole(state.reg[F]) & (C_FLAG if condition & 2 else Z_FLAG)
    return (flag != 0) == (condition & 1 == 1)


@inlined
def execute(state: Any, memory: Any, rom: Any, op: int) -> None:
    """One instruction, whose opcode is read."""
    y, z = op >> 3 & 7, op & 7
    if op >= 0x40 and op < 0xC0:
        if op == 0x76:
            _halt(state, memory)
            return
        value = load(state, memory, rom, pair(state, 2)) if z == 6 else whole(state.reg[z])
        if op >= 0x80:
            calculate(state, y, value)
        elif y == 6:
            store(state, memory, rom, pair(state, 2), value)
        else:
            state.reg[y] = value
    elif op < 0x40:
        _first_quarter(state, memory, rom, y, z)
    else:
        _last_quarter(state, memory, rom, op, y, z)


@inlined
def _first_quarter(state: Any, memory: Any, rom: Any, y: int, z: int) -> None:
    """Opcodes 00-3F."""
    if z == 0:
        _jump_or_rare(state, memory, rom, y)
    elif z == 1 and y & 1:
        state.t += CYCLE
        add_hl(state, pair(state, y >> 1))
    elif z == 1:
        set_pair(state, y >> 1, immediate16(state, memory, rom))
    elif z == 2:
        _load_indirect(state, memory, rom, y)
    elif z == 3:
        state.t += CYCLE
        set_pair(state, y >> 1, (pair(state, y >> 1) + (-1 if y & 1 else 1)) & 0xFFFF)
    elif z == 7:
        if y < 4:
            rotate_a(state, y)
        else:
            flag_operation(state, y)
    elif y == 6:
        _change_at_hl(state, memory, rom, z)
    elif z == 6:
        state.reg[y] = immediate(state, memory, rom)
    else:
        state.reg[y] = step(state, whole(state.reg[y]), 1 if z == 4 else -1)


@inlined
def _change_at_hl(state: Any, memory: Any, rom: Any, z: int) -> None:
    """INC, DEC and LD of (HL)."""
    hl = pair(state, 2)
    value = immediate(state, memory, rom) if z == 6 else load(state, memory, rom, hl)
    if z != 6:
        value = step(state, value, 1 if z == 4 else -1)
    store(state, memory, rom, hl, value)


@inlined
def _load_indirect(state: Any, memory: Any, rom: Any, y: int) -> None:
    """LD between A and (BC), (DE), (HL+) or (HL-)."""
    p = min(y >> 1, 2)
    address = pair(state, p)
    if y >= 4:
        set_pair(state, 2, (address + (1 if y < 6 else -1)) & 0xFFFF)
    if y & 1:
        state.reg[A] = load(state, memory, rom, address)
    else:
        store(state, memory, rom, address, whole(state.reg[A]))


@inlined
def _jump_or_rare(state: Any, memory: Any, rom: Any, y: int) -> None:
    """NOP, LD (nn),SP, STOP and JR."""
    if y >= 3:
        offset = immediate(state, memory, rom)
        if y == 3 or holds(state, y - 4):
            state.t += CYCLE
            state.pc = (state.pc + offset - (256 if offset > 127 else 0)) & 0xFFFF
    elif y == 1:
        address = immediate16(state, memory, rom)
        store(state, memory, rom, address, state.sp & 0xFF)
        store(state, memory, rom, (address + 1) & 0xFFFF, state.sp >> 8)
    elif y == 2:
        state.pc = (state.pc + 1) & 0xFFFF
        state.halted = STOPS
        state.due = 0


@inlined
def _last_quarter(state: Any, memory: Any, rom: Any, op: int, y: int, z: int) -> None:
    """Opcodes C0-FF."""
    if op == 0xCB:
        _prefixed(state, memory, rom)
    elif z == 6:
        calculate(state, y, immediate(state, memory, rom))
    elif z == 7:
        _call(state, memory, rom, 8 * y)
    elif z == 5 and y & 1 == 0:
        state.t += CYCLE
        first = A if y == 6 else y
        push(state, memory, rom, whole(state.reg[first]) << 8 | whole(state.reg[F if y == 6 else y + 1]))
    elif z == 1 and y & 1 == 0:
        value = pop(state, memory, rom)
        state.reg[A if y == 6 else y] = value >> 8
        state.reg[F if y == 6 else y + 1] = value & (0xF0 if y == 6 else 0xFF)
    elif (z == 0 and y >= 4) or (z == 2 and y >= 4):
        _load_high(state, memory, rom, y, z)
    elif z == 0:
        state.t += CYCLE
        if holds(state, y):
            _return(state, memory, rom)
    elif z == 1:
        _return_or_hl(state, memory, rom, y)
    elif z == 2 or op == 0xC3:
        address = immediate16(state, memory, rom)
        if op == 0xC3 or holds(state, y):
            state.t += CYCLE
            state.pc = address
    elif (z == 4 and y < 4) or op == 0xCD:
        address = immediate16(state, memory, rom)
        if op == 0xCD or holds(state, y):
            _call(state, memory, rom, address)
    elif op == 0xF3:
        state.ime = 0
        state.ei = 0
    elif op == 0xFB:
        if not state.ime and not state.ei:
            state.ei = 1
            state.due = 0
    else:
        state.halted = LOCKED  # there is no such instruction
        state.due = 0


@inlined
def _call(state: Any, memory: Any, rom: Any, address: int) -> None:
    state.t += CYCLE
    push(state, memory, rom, state.pc)
    state.pc = address


@inlined
def _return(state: Any, memory: Any, rom: Any) -> None:
    state.pc = pop(state, memory, rom)
    state.t += CYCLE


@inlined
def _return_or_hl(state: Any, memory: Any, rom: Any, y: int) -> None:
    """RET, RETI, JP HL and LD SP,HL."""
    if y == 5:
        state.pc = pair(state, 2)
    elif y == 7:
        state.t += CYCLE
        state.sp = pair(state, 2)
    else:
        _return(state, memory, rom)
        if y == 3:
            state.ime = 1
            state.due = 0


@inlined
def _load_high(state: Any, memory: Any, rom: Any, y: int, z: int) -> None:
    """LD between A and (FF00+n), (FF00+C) or (nn); ADD SP,n and LD HL,SP+n."""
    if z == 0 and y & 1:
        result = add_sp(state, immediate(state, memory, rom))
        state.t += CYCLE
        if y == 5:
            state.t += CYCLE
            state.sp = result
        else:
            set_pair(state, 2, result)
        return
    if z == 0:
        address = 0xFF00 | immediate(state, memory, rom)
    elif y & 1:
        address = immediate16(state, memory, rom)
    else:
        address = 0xFF00 | whole(state.reg[C])
    if y >= 6:
        state.reg[A] = load(state, memory, rom, address)
    else:
        store(state, memory, rom, address, whole(state.reg[A]))


@inlined
def _prefixed(state: Any, memory: Any, rom: Any) -> None:
    """CB: rotations, BIT, RES and SET."""
    op = immediate(state, memory, rom)
    y, z = op >> 3 & 7, op & 7
    value = load(state, memory, rom, pair(state, 2)) if z == 6 else whole(state.reg[z])
    if op >= 0x40 and op < 0x80:
        flags = whole(state.reg[F]) & C_FLAG | H_FLAG
        state.reg[F] = flags if value >> y & 1 else flags | Z_FLAG
        return
    if op < 0x40:
        value = rotate(state, y, value)
    elif op < 0xC0:
        value &= ~(1 << y)
    else:
        value |= 1 << y
    if z == 6:
        store(state, memory, rom, pair(state, 2), value)
    else:
        state.reg[z] = value


@inlined
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
