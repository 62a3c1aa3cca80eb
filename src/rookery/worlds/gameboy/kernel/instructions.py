"""The SM83's instructions as numbers: what each reads, computes and writes (Pan Docs, "CPU Instruction Set").

All instructions go through the same steps (see cpu.py), and skip those that they do not need. So few branches are left,
and the threads of a GPU stay together even if each is at another instruction.
"""

from __future__ import annotations

import numpy as np

# What is done. For some kinds, three bits say more: an operation, the number of a bit, the number of a restart.
COPY, ADD, LOGIC, COUNT, BITS, JUMP, OUT, IN, PAIR, COUNT_PAIR, ADD_PAIR, ADD_SP, FLAGS, SPECIAL = range(14)
MORE = 4
AND, XOR, OR = 4, 5, 6
HALT, STOP, DISABLE, ENABLE, ILLEGAL = range(5)

BYTE, TWO_BYTES, PREFIX = 1 << 7, 1 << 8, 1 << 9  # what follows in the program
READS, WRITES = 1 << 10, 1 << 11  # a byte at an address
MODE = 12  # three bits: which address
AT_PAIR, AT_PROGRAM, AT_HIGH, AT_HIGH_C, AT_HL_UP, AT_HL_DOWN = range(1, 7)
TO_REGISTER, WITH_SP, WITH_AF, WITH_PC = 1 << 15, 1 << 16, 1 << 17, 1 << 18
SUBTRACTS, CARRIES, CLEARS_ZERO = 1 << 19, 1 << 20, 1 << 21
RELATIVE, TO_HL, CYCLE_BEFORE, SPECIAL_EFFECT, PUSHES = 1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 26
OPERATION = 27  # two bits of BITS
ROTATE, BIT, RESET, SET = range(4)
FLAG, IF_SET = 29, 1 << 33  # four bits: the flag of the condition, and what it should be
CHANGED = 34  # four bits: the flags that change
FROM_PROGRAM = 1 << 39  # the operand is the byte that follows
FROM, TO, AT = 40, 46, 52  # six bits each: where in the registers the operand, the result and the address are

# The registers are one number, a byte each: C B E D L H A, from the lowest byte up. So BC, DE and HL are 16 bits of it.
SHIFTS = (8, 0, 24, 16, 40, 32, 0, 48)  # of B C D E H L - A, in the order of the instructions' fields
BC, DE, HL, A = 0, 16, 32, 48
ALL_FLAGS, NOT_CARRY = 0xF << CHANGED, 0xE << CHANGED
FROM_A, TO_A = A << FROM, TO_REGISTER | A << TO


def _condition(y: int) -> int:
    """NZ, Z, NC or C."""
    return (1 if y & 2 else 8) << FLAG | (IF_SET if y & 1 else 0)


def _at(mode: int, pair: int = HL) -> int:
    return mode << MODE | pair << AT


def _operand(field: int) -> int:
    """B C D E H L (HL) A, as an operand."""
    return READS | _at(AT_PAIR) if field == 6 else SHIFTS[field] << FROM


def _result(field: int) -> int:
    """The same, as a result."""
    return WRITES | _at(AT_PAIR) if field == 6 else TO_REGISTER | SHIFTS[field] << TO


def _pair(p: int) -> int:
    """BC, DE, HL or SP, as an operand and as a result."""
    return WITH_SP if p == 3 else 16 * p << FROM | 16 * p << TO


def _arithmetic(y: int) -> int:
    """ADD ADC SUB SBC AND XOR OR CP."""
    if y in (AND, XOR, OR):
        return LOGIC | y << MORE | ALL_FLAGS | TO_A
    return ADD | ALL_FLAGS | (CARRIES if y in (1, 3) else 0) | (SUBTRACTS if y >= 2 else 0) | (0 if y == 7 else TO_A)


def _first_quarter(y: int, z: int) -> int:
    """Opcodes 00-3F."""
    pair = _pair(y >> 1)
    if z == 0:
        rare = (COPY, OUT | BYTE | TWO_BYTES | WITH_SP, SPECIAL | SPECIAL_EFFECT | STOP << MORE)
        return rare[y] if y < 3 else JUMP | BYTE | RELATIVE | (_condition(y) if y > 3 else 0)
    if z == 1:
        return ADD_PAIR | pair | 7 << CHANGED if y & 1 else PAIR | BYTE | TWO_BYTES | pair
    if z == 2:
        mode = (_at(AT_PAIR, BC), _at(AT_PAIR, DE), _at(AT_HL_UP), _at(AT_HL_DOWN))[y >> 1]
        return COPY | mode | (READS | TO_A if y & 1 else WRITES | FROM_A)
    if z == 3:
        return COUNT_PAIR | pair | (SUBTRACTS if y & 1 else 0)
    if z == 6:
        return COPY | BYTE | FROM_PROGRAM | _result(y)
    if z < 6:
        return COUNT | NOT_CARRY | _operand(y) | _result(y) | (SUBTRACTS if z == 5 else 0)
    if y < 4:
        return BITS | y << MORE | ALL_FLAGS | CLEARS_ZERO | FROM_A | TO_A
    changed = {4: 0xB, 5: 0x6, 6: 0x7, 7: 0x7}[y]
    return FLAGS | y << MORE | changed << CHANGED | TO_A


def _last_quarter(op: int, y: int, z: int) -> int:
    """Opcodes C0-FF."""
    address = BYTE | TWO_BYTES
    pair = WITH_AF if y == 6 else _pair(y >> 1)
    if z == 6:
        return _arithmetic(y) | BYTE | FROM_PROGRAM
    if z == 7:
        return OUT | PUSHES | WITH_PC | y << MORE
    if z == 5 and not y & 1:
        return OUT | PUSHES | pair
    if z == 1 and not y & 1:
        return IN | pair
    if z in (0, 2) and y >= 4:
        return _high(y, z)
    if z == 0:
        return IN | WITH_PC | CYCLE_BEFORE | _condition(y)
    if z == 2 and y < 4:
        return JUMP | address | _condition(y)
    if z == 4 and y < 4:
        return OUT | PUSHES | WITH_PC | address | _condition(y)
    return {
        0xC3: JUMP | address,
        0xC9: IN | WITH_PC,
        0xCB: BYTE | PREFIX,
        0xCD: OUT | PUSHES | WITH_PC | address,
        0xD9: IN | WITH_PC | SPECIAL_EFFECT,
        0xE9: JUMP | TO_HL,
        0xF3: SPECIAL | SPECIAL_EFFECT | DISABLE << MORE,
        0xF9: COUNT_PAIR | WITH_SP | TO_HL,
        0xFB: SPECIAL | SPECIAL_EFFECT | ENABLE << MORE,
    }.get(op, SPECIAL | SPECIAL_EFFECT | ILLEGAL << MORE)


def _high(y: int, z: int) -> int:
    """LD between A and (FF00+n), (FF00+C) or (nn); ADD SP,n and LD HL,SP+n."""
    if z == 0 and y & 1:
        return ADD_SP | BYTE | ALL_FLAGS | (TO_HL if y == 7 else 0)
    mode = BYTE | _at(AT_HIGH) if z == 0 else BYTE | TWO_BYTES | _at(AT_PROGRAM) if y & 1 else _at(AT_HIGH_C)
    return COPY | mode | (READS | TO_A if y >= 6 else WRITES | FROM_A)


def _word(op: int) -> int:
    y, z = op >> 3 & 7, op & 7
    if op < 0x40:
        return _first_quarter(y, z)
    if op == 0x76:
        return SPECIAL | SPECIAL_EFFECT | HALT << MORE
    if op < 0x80:
        return COPY | _operand(z) | _result(y)
    return _arithmetic(y) | _operand(z) if op < 0xC0 else _last_quarter(op, y, z)


def _prefixed(op: int) -> int:
    """CB: rotations, BIT, RES and SET."""
    operation, y, z = op >> 6, op >> 3 & 7, op & 7
    changed = (ALL_FLAGS, NOT_CARRY, 0, 0)[operation]
    return BITS | operation << OPERATION | y << MORE | changed | _operand(z) | (0 if operation == BIT else _result(z))


INSTRUCTIONS = np.array([_word(op) for op in range(256)] + [_prefixed(op) for op in range(256)], np.int64)
