"""Arithmetic of the SM83: results and flags."""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import inlined, whole
from rookery.worlds.gameboy.kernel.layout import C_FLAG, H_FLAG, N_FLAG, Z_FLAG, A, F, H, L


@inlined
def zero(value: int) -> int:
    """The flag Z of a result."""
    return 0 if value & 0xFF else Z_FLAG


@inlined
def calculate(state: Any, operation: int, value: int) -> None:
    """ADD, ADC, SUB, SBC, AND, XOR, OR and CP with A."""
    a = whole(state.reg[A])
    if operation < 2:
        _add(state, a, value, (whole(state.reg[F]) >> 4) & operation)
    elif operation < 4 or operation == 7:
        _subtract(state, a, value, (whole(state.reg[F]) >> 4) & 1 if operation == 3 else 0, operation != 7)
    else:
        result = a & value if operation == 4 else a ^ value if operation == 5 else a | value
        state.reg[A] = result
        state.reg[F] = zero(result) | (H_FLAG if operation == 4 else 0)


@inlined
def _add(state: Any, a: int, value: int, carry: int) -> None:
    total = a + value + carry
    half = (a & 15) + (value & 15) + carry
    state.reg[A] = total & 0xFF
    state.reg[F] = zero(total) | (H_FLAG if half > 15 else 0) | (C_FLAG if total > 255 else 0)


@inlined
def _subtract(state: Any, a: int, value: int, carry: int, keep: bool) -> None:
    total = a - value - carry
    half = (a & 15) - (value & 15) - carry
    if keep:
        state.reg[A] = total & 0xFF
    state.reg[F] = N_FLAG | zero(total) | (H_FLAG if half < 0 else 0) | (C_FLAG if total < 0 else 0)


@inlined
def step(state: Any, value: int, change: int) -> int:
    """INC (change 1) and DEC (change -1) of a byte."""
    result = (value + change) & 0xFF
    half = H_FLAG if (value & 15) == (15 if change > 0 else 0) else 0
    state.reg[F] = (whole(state.reg[F]) & C_FLAG) | zero(result) | half | (0 if change > 0 else N_FLAG)
    return result


@inlined
def rotate(state: Any, operation: int, value: int) -> int:
    """RLC, RRC, RL, RR, SLA, SRA, SWAP and SRL of a byte."""
    carry = (whole(state.reg[F]) >> 4) & 1
    if operation == 6:
        result, out = (value << 4 | value >> 4) & 0xFF, 0
    elif operation & 1:
        into = value & 1 if operation == 1 else carry if operation == 3 else value >> 7 if operation == 5 else 0
        result, out = value >> 1 | into << 7, value & 1
    else:
        into = value >> 7 if operation == 0 else carry if operation == 2 else 0
        result, out = (value << 1 | into) & 0xFF, value >> 7
    state.reg[F] = zero(result) | out << 4
    return result


@inlined
def rotate_a(state: Any, operation: int) -> None:
    """RLCA, RRCA, RLA and RRA: as the others, but Z is 0."""
    state.reg[A] = rotate(state, operation, whole(state.reg[A]))
    state.reg[F] = whole(state.reg[F]) & C_FLAG


def adjust(state: Any) -> None:
    """DAA: make A two decimal digits after an addition or subtraction of such."""
    a, flags = whole(state.reg[A]), whole(state.reg[F])
    change, carry = 0, flags & C_FLAG
    if flags & H_FLAG or (not flags & N_FLAG and a & 15 > 9):
        change = 6
    if carry or (not flags & N_FLAG and a > 0x99):
        change |= 0x60
        carry = C_FLAG
    a = (a - change if flags & N_FLAG else a + change) & 0xFF
    state.reg[A] = a
    state.reg[F] = zero(a) | flags & N_FLAG | carry


def flag_operation(state: Any, operation: int) -> None:
    """DAA, CPL, SCF and CCF."""
    flags = whole(state.reg[F])
    if operation == 4:
        adjust(state)
    elif operation == 5:
        state.reg[A] = ~whole(state.reg[A]) & 0xFF
        state.reg[F] = flags | N_FLAG | H_FLAG
    else:
        carry = C_FLAG if operation == 6 else ~flags & C_FLAG
        state.reg[F] = flags & Z_FLAG | carry


@inlined
def add_hl(state: Any, value: int) -> None:
    """ADD HL, rr."""
    hl = whole(state.reg[H]) << 8 | whole(state.reg[L])
    total = hl + value
    half = (hl & 0xFFF) + (value & 0xFFF)
    state.reg[H] = total >> 8 & 0xFF
    state.reg[L] = total & 0xFF
    flags = whole(state.reg[F]) & Z_FLAG
    state.reg[F] = flags | (H_FLAG if half > 0xFFF else 0) | (C_FLAG if total > 0xFFFF else 0)


@inlined
def add_sp(state: Any, value: int) -> int:
    """SP plus a signed byte."""
    sp = state.sp
    half = H_FLAG if (sp & 15) + (value & 15) > 15 else 0
    state.reg[F] = half | (C_FLAG if (sp & 255) + value > 255 else 0)
    return (sp + value - (256 if value > 127 else 0)) & 0xFFFF
