"""A small assembler for the SM83: each method adds one instruction to a ROM image.

It knows the instructions that our game needs, not all of them. Labels may be used before they are placed; `finish`
fills them in.

>>> a = Assembler(size=16)
>>> a.label("forever")
>>> a.inc(HL)
>>> a.jr("forever")
>>> a.finish()[:3].hex(" ")
'23 18 fd'
"""

from __future__ import annotations

from typing import NoReturn

from gameboy_game.operands import (
    AF,
    AT_HL,
    HL,
    SP,
    Absolute,
    Byte,
    High,
    JumpCondition,
    Operand,
    Pair,
    Pointed,
    spell,
)
from gameboy_game.rom_image import AssemblyError, Image


class Assembler(Image):
    """An image with a method for each instruction."""

    # Moving bytes

    def ld(self, to: Operand, what: Operand) -> None:
        """Copy `what` to `to`: between registers, from a number, or from and to memory."""
        match to, what:
            case Byte(), Byte() if (to, what) != (AT_HL, AT_HL):
                self._emit(0x40 | to.code << 3 | what.code)
            case Byte(), int() | High():
                self._emit(0x06 | to.code << 3)
                self._number(what)
            case Pair(), int() | str() if to != AF:
                self._emit(0x01 | to.code << 4)
                self._word(what)
            case Byte(name="A"), Pointed():
                self._emit(0x0A | what.code << 4)
            case Pointed(), Byte(name="A"):
                self._emit(0x02 | to.code << 4)
            case Byte(name="A"), Absolute(address):
                self._emit(0xFA)
                self._word(address)
            case Absolute(address), Byte(name="A"):
                self._emit(0xEA)
                self._word(address)
            case _:
                self._refuse("ld", to, what)

    def ldh(self, to: Operand, what: Operand) -> None:
        """As `ld` between A and $FF00-$FFFF, where the hardware's registers are: a byte shorter, and quicker."""
        match to, what:
            case Byte(name="A"), Absolute(int(address)) if 0xFF00 <= address <= 0xFFFF:
                self._emit(0xF0, address & 0xFF)
            case Absolute(int(address)), Byte(name="A") if 0xFF00 <= address <= 0xFFFF:
                self._emit(0xE0, address & 0xFF)
            case _:
                self._refuse("ldh", to, what)

    def push(self, pair: Pair) -> None:
        """Put a pair on the stack."""
        self._pair("push", 0xC5, pair, without=SP)

    def pop(self, pair: Pair) -> None:
        """Take the pair that was last put on the stack."""
        self._pair("pop", 0xC1, pair, without=SP)

    # Sums: A and another byte, result in A; `cp` only compares

    def add(self, to: Byte | Pair, what: Byte | Pair | High | int) -> None:
        """A += what, or HL += a pair."""
        match to, what:
            case Pair(name="HL"), Pair() if what != AF:
                self._emit(0x09 | what.code << 4)
            case Byte(name="A"), _:
                self._sum("add", 0, what)
            case _:
                self._refuse("add", to, what)

    def sub(self, what: Byte | High | int) -> None:
        """A -= what."""
        self._sum("sub", 2, what)

    def and_(self, what: Byte | High | int) -> None:
        """A keeps the bits that `what` has too."""
        self._sum("and_", 4, what)

    def xor(self, what: Byte | High | int) -> None:
        """A turns over the bits that `what` has."""
        self._sum("xor", 5, what)

    def or_(self, what: Byte | High | int) -> None:
        """A gains the bits that `what` has."""
        self._sum("or_", 6, what)

    def cp(self, what: Byte | High | int) -> None:
        """Compare: zero if A == what, carry if A < what."""
        self._sum("cp", 7, what)

    def inc(self, what: Byte | Pair) -> None:
        """what += 1."""
        self._count("inc", what, 0x04, 0x03)

    def dec(self, what: Byte | Pair) -> None:
        """what -= 1."""
        self._count("dec", what, 0x05, 0x0B)

    def cpl(self) -> None:
        """Turn over all bits of A."""
        self._emit(0x2F)

    # Bits

    def swap(self, what: Byte) -> None:
        """Exchange the upper and the lower four bits."""
        self._bits("swap", 0x30, what)

    def srl(self, what: Byte) -> None:
        """Halve: all bits one place down."""
        self._bits("srl", 0x38, what)

    def bit(self, number: int, what: Byte) -> None:
        """Zero if this bit is not set."""
        if not 0 <= number <= 7:
            self._refuse("bit", number, what)
        self._bits("bit", 0x40 | number << 3, what)

    # Jumps

    def jp(self, *target: JumpCondition | Pair | int | str) -> None:
        """Jump to a label or an address, or to the address in HL."""
        if target == (HL,):
            self._emit(0xE9)
        else:
            self._far("jp", target, always=0xC3, when=0xC2)

    def call(self, *target: JumpCondition | int | str) -> None:
        """Call a routine, which returns with `ret`."""
        self._far("call", target, always=0xCD, when=0xC4)

    def ret(self, when: JumpCondition | None = None) -> None:
        """Return from a routine."""
        self._emit(0xC9 if when is None else 0xC0 | when.code << 3)

    def reti(self) -> None:
        """Return from an interrupt and enable interrupts."""
        self._emit(0xD9)

    def jr(self, *target: JumpCondition | str) -> None:
        """Like `jp`, but a byte shorter, to a label at most about 128 bytes away."""
        match target:
            case (str(label),):
                self._emit(0x18)
            case (JumpCondition(code=code), str(label)):
                self._emit(0x20 | code << 3)
            case _:
                self._refuse("jr", *target)
        place = self.here
        self._emit(0)
        self._fill_in.append(lambda: self._relative(label, place))

    # The processor itself

    def nop(self) -> None:
        """No operation."""
        self._emit(0x00)

    def halt(self) -> None:
        """Sleep until an interrupt."""
        self._emit(0x76)

    def di(self) -> None:
        """Disable interrupts."""
        self._emit(0xF3)

    def ei(self) -> None:
        """Enable interrupts."""
        self._emit(0xFB)

    # How they are built

    def _sum(self, name: str, code: int, what: object) -> None:
        match what:
            case Byte():
                self._emit(0x80 | code << 3 | what.code)
            case int() | High():
                self._emit(0xC6 | code << 3)
                self._number(what)
            case _:
                self._refuse(name, what)

    def _count(self, name: str, what: object, byte: int, pair: int) -> None:
        match what:
            case Byte():
                self._emit(byte | what.code << 3)
            case Pair() if what != AF:
                self._emit(pair | what.code << 4)
            case _:
                self._refuse(name, what)

    def _bits(self, name: str, code: int, what: object) -> None:
        if not isinstance(what, Byte):
            self._refuse(name, what)
        self._emit(0xCB, code | what.code)

    def _pair(self, name: str, code: int, pair: object, without: Pair) -> None:
        if not isinstance(pair, Pair) or pair == without:
            self._refuse(name, pair)
        self._emit(code | pair.code << 4)

    def _far(self, name: str, target: tuple[object, ...], always: int, when: int) -> None:
        match target:
            case (int() | str() as where,):
                self._emit(always)
            case (JumpCondition(code=code), int() | str() as where):
                self._emit(when | code << 3)
            case _:
                self._refuse(name, *target)
        self._word(where)

    def _refuse(self, name: str, *operands: object) -> NoReturn:
        spelt = ", ".join(spell(operand) for operand in operands)
        raise AssemblyError(f"{name} {spelt} at ${self.here:04X}: there is no such instruction here")
