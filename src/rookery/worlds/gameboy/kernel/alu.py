"""Arithmetic of the SM83: results and flags."""

from __future__ import annotations

from rookery.kernel.declarations import inlined
from rookery.worlds.gameboy.kernel.instructions import AND, BIT, RESET, ROTATE, XOR
from rookery.worlds.gameboy.kernel.layout import C_FLAG, H_FLAG, N_FLAG, Z_FLAG


@inlined
def zero(value: int) -> int:
    """The flag Z of a result."""
    return 0 if value & 0xFF else Z_FLAG


@inlined
def add(left: int, right: int, carry: int, subtracts: bool) -> tuple[int, int]:
    """Add two bytes and the carry, or subtract both: the result, which may be outside 0-255, and its flags."""
    total = left - right - carry if subtracts else left + right + carry
    carries = left ^ right ^ total  # bit 4 is the carry out of bit 3, and bit 8 that out of bit 7
    return total, zero(total) | carries << 1 & H_FLAG | carries >> 4 & C_FLAG | (N_FLAG if subtracts else 0)


@inlined
def add_pair(left: int, right: int) -> tuple[int, int]:
    """Add 16 bits."""
    total = left + right
    carries = left ^ right ^ total
    return total, carries >> 7 & H_FLAG | carries >> 12 & C_FLAG


@inlined
def add_signed(left: int, right: int) -> tuple[int, int]:
    """Add a signed byte to 16 bits. The flags are those of adding the lower bytes."""
    carries = left ^ right ^ ((left & 0xFF) + right)
    return left + (right ^ 0x80) - 0x80, carries << 1 & H_FLAG | (carries ^ left & 0xFF00) >> 4 & C_FLAG


@inlined
def logic(operation: int, left: int, right: int) -> tuple[int, int]:
    """AND, XOR and OR."""
    result = left & right if operation == AND else left ^ right if operation == XOR else left | right
    return result, zero(result) | (H_FLAG if operation == AND else 0)


@inlined
def change_bits(operation: int, which: int, value: int, flags: int) -> tuple[int, int]:
    """Rotations, BIT, RES and SET of a byte."""
    if operation == ROTATE:
        return _rotate(which, value, flags)
    if operation == BIT:
        return value, H_FLAG | (0 if value >> which & 1 else Z_FLAG)
    return value & ~(1 << which) if operation == RESET else value | 1 << which, 0


@inlined
def _rotate(operation: int, value: int, flags: int) -> tuple[int, int]:
    """RLC, RRC, RL, RR, SLA, SRA, SWAP and SRL of a byte."""
    carry, low, high = flags >> 4 & 1, value & 1, value >> 7
    if operation == 6:
        result, out = value << 4 | value >> 4, 0
    elif operation & 1:
        into = low if operation == 1 else carry if operation == 3 else high if operation == 5 else 0
        result, out = value >> 1 | into << 7, low
    else:
        into = high if operation == 0 else carry if operation == 2 else 0
        result, out = value << 1 | into, high
    return result, zero(result) | out << 4


@inlined
def flag_operation(operation: int, a: int, flags: int) -> tuple[int, int]:
    """DAA, CPL, SCF and CCF."""
    if operation == 4:
        return _adjust(a, flags)
    if operation == 5:
        return ~a, N_FLAG | H_FLAG
    return a, C_FLAG if operation == 6 else ~flags & C_FLAG


@inlined
def _adjust(a: int, flags: int) -> tuple[int, int]:
    """DAA: make A two decimal digits after an addition or subtraction of such."""
    change, carry = 0, flags & C_FLAG
    if flags & H_FLAG or (not flags & N_FLAG and a & 15 > 9):
        change = 6
    if carry or (not flags & N_FLAG and a > 0x99):
        change |= 0x60
        carry = C_FLAG
    a = a - change if flags & N_FLAG else a + change
    return a, zero(a) | carry
