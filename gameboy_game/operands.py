"""What SM83 instructions work on: registers, pairs of registers, and bytes of memory.

The SM83 is the processor of the Game Boy. It has seven registers of 8 bits (A, B, C, D, E, H, L). A takes part in all
sums; the others come in pairs of 16 bits (BC, DE, HL), mostly to hold addresses, and SP is the address of the stack.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Byte:
    """An 8-bit place that most instructions reach: one of seven registers, or the byte at the address in HL."""

    name: str
    code: int  # how instructions number it


@dataclass(frozen=True)
class Pair:
    """A register of 16 bits, or two of 8 taken together."""

    name: str
    code: int


@dataclass(frozen=True)
class Pointed:
    """A byte of memory whose address is in a pair; only A can be loaded from it or stored there."""

    name: str
    code: int


@dataclass(frozen=True)
class Absolute:
    """A byte of memory at an address that is written in the instruction: a number or a label."""

    address: int | str


@dataclass(frozen=True)
class High:
    """The upper byte of a label's address, known once everything has been placed."""

    label: str


@dataclass(frozen=True)
class JumpCondition:
    """Whether to jump, by what the last sum left: Z it was zero, C it carried (a number was too big, or below zero)."""

    name: str
    code: int


B, C, D, E, H, L = (Byte(name, code) for code, name in enumerate("BCDEHL"))
A = Byte("A", 7)
AT_HL = Byte("[HL]", 6)

BC, DE, HL, SP = (Pair(name, code) for code, name in enumerate(("BC", "DE", "HL", "SP")))
AF = Pair("AF", 3)  # A and the flags; only pushed and popped, where its number means SP elsewhere

AT_BC, AT_DE = Pointed("[BC]", 0), Pointed("[DE]", 1)
AT_HL_UP = Pointed("[HL+]", 2)  # and HL moves on to the next byte
AT_HL_DOWN = Pointed("[HL-]", 3)

IF_NOT_ZERO, IF_ZERO = JumpCondition("NZ", 0), JumpCondition("Z", 1)
IF_NO_CARRY, IF_CARRY = JumpCondition("NC", 2), JumpCondition("C", 3)

Operand = Byte | Pair | Pointed | Absolute | High | int | str


def at(address: int | str) -> Absolute:
    """The byte of memory at an address or a label."""
    return Absolute(address)


def high(label: str) -> High:
    """The upper byte of a label's address, as a number to load or add."""
    return High(label)


def spell(operand: object) -> str:
    """An operand as a reader of assembly would write it, for error messages.

    >>> spell(at(0xC0A0)), spell(high("maps")), spell(AT_HL_UP), spell(7)
    ('[$C0A0]', 'high(maps)', '[HL+]', '7')
    """
    match operand:
        case Absolute(address):
            return f"[${address:04X}]" if isinstance(address, int) else f"[{address}]"
        case High(label):
            return f"high({label})"
        case Byte() | Pair() | Pointed() | JumpCondition():
            return operand.name
    return str(operand)
