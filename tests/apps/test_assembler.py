"""The SM83 assembler: every instruction it offers is encoded as the processor reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gameboy_game import cartridge
from gameboy_game.asm import Assembler
from gameboy_game.operands import (
    AF,
    AT_BC,
    AT_DE,
    AT_HL,
    AT_HL_DOWN,
    AT_HL_UP,
    BC,
    DE,
    HL,
    IF_CARRY,
    IF_NO_CARRY,
    IF_NOT_ZERO,
    IF_ZERO,
    SP,
    A,
    B,
    C,
    D,
    E,
    H,
    L,
    at,
    high,
)
from gameboy_game.rom_image import AssemblyError

from rookery.worlds.gameboy.emulator import Emulator
from rookery.worlds.gameboy.rom import Rom

# The rows of the processor's opcode table, written out by hand: bytes in columns B C D E H L [HL] A.
BYTES = (B, C, D, E, H, L, AT_HL, A)
LOADS = {
    B: "40 41 42 43 44 45 46 47",
    C: "48 49 4a 4b 4c 4d 4e 4f",
    D: "50 51 52 53 54 55 56 57",
    E: "58 59 5a 5b 5c 5d 5e 5f",
    H: "60 61 62 63 64 65 66 67",
    L: "68 69 6a 6b 6c 6d 6e 6f",
    AT_HL: "70 71 72 73 74 75 -- 77",  # 76 is halt
    A: "78 79 7a 7b 7c 7d 7e 7f",
}
LOAD_NUMBER = "06 0e 16 1e 26 2e 36 3e"
SUMS = {
    "add": ("80 81 82 83 84 85 86 87", "c6"),
    "sub": ("90 91 92 93 94 95 96 97", "d6"),
    "and_": ("a0 a1 a2 a3 a4 a5 a6 a7", "e6"),
    "xor": ("a8 a9 aa ab ac ad ae af", "ee"),
    "or_": ("b0 b1 b2 b3 b4 b5 b6 b7", "f6"),
    "cp": ("b8 b9 ba bb bc bd be bf", "fe"),
}
ONE_BYTE = {
    "inc": "04 0c 14 1c 24 2c 34 3c",
    "dec": "05 0d 15 1d 25 2d 35 3d",
    "swap": "cb30 cb31 cb32 cb33 cb34 cb35 cb36 cb37",
    "srl": "cb38 cb39 cb3a cb3b cb3c cb3d cb3e cb3f",
}
BITS = (
    "40 41 42 43 44 45 46 47",
    "48 49 4a 4b 4c 4d 4e 4f",
    "50 51 52 53 54 55 56 57",
    "58 59 5a 5b 5c 5d 5e 5f",
    "60 61 62 63 64 65 66 67",
    "68 69 6a 6b 6c 6d 6e 6f",
    "70 71 72 73 74 75 76 77",
    "78 79 7a 7b 7c 7d 7e 7f",
)
OTHERS: list[tuple[Callable[[Assembler], object], str]] = [
    (lambda a: a.ld(BC, 0x1234), "01 34 12"),
    (lambda a: a.ld(DE, 0x1234), "11 34 12"),
    (lambda a: a.ld(HL, 0x1234), "21 34 12"),
    (lambda a: a.ld(SP, 0xFFFE), "31 fe ff"),
    (lambda a: a.ld(A, AT_BC), "0a"),
    (lambda a: a.ld(A, AT_DE), "1a"),
    (lambda a: a.ld(A, AT_HL_UP), "2a"),
    (lambda a: a.ld(A, AT_HL_DOWN), "3a"),
    (lambda a: a.ld(AT_BC, A), "02"),
    (lambda a: a.ld(AT_DE, A), "12"),
    (lambda a: a.ld(AT_HL_UP, A), "22"),
    (lambda a: a.ld(AT_HL_DOWN, A), "32"),
    (lambda a: a.ld(A, at(0xC0A1)), "fa a1 c0"),
    (lambda a: a.ld(at(0xC0A1), A), "ea a1 c0"),
    (lambda a: a.ldh(A, at(0xFF44)), "f0 44"),
    (lambda a: a.ldh(at(0xFF40), A), "e0 40"),
    (lambda a: a.push(BC), "c5"),
    (lambda a: a.push(DE), "d5"),
    (lambda a: a.push(HL), "e5"),
    (lambda a: a.push(AF), "f5"),
    (lambda a: a.pop(BC), "c1"),
    (lambda a: a.pop(DE), "d1"),
    (lambda a: a.pop(HL), "e1"),
    (lambda a: a.pop(AF), "f1"),
    (lambda a: a.add(HL, BC), "09"),
    (lambda a: a.add(HL, DE), "19"),
    (lambda a: a.add(HL, HL), "29"),
    (lambda a: a.add(HL, SP), "39"),
    (lambda a: a.inc(BC), "03"),
    (lambda a: a.inc(DE), "13"),
    (lambda a: a.inc(HL), "23"),
    (lambda a: a.inc(SP), "33"),
    (lambda a: a.dec(BC), "0b"),
    (lambda a: a.dec(DE), "1b"),
    (lambda a: a.dec(HL), "2b"),
    (lambda a: a.dec(SP), "3b"),
    (lambda a: a.cpl(), "2f"),
    (lambda a: a.jp(0x0150), "c3 50 01"),
    (lambda a: a.jp(IF_NOT_ZERO, 0x0150), "c2 50 01"),
    (lambda a: a.jp(IF_ZERO, 0x0150), "ca 50 01"),
    (lambda a: a.jp(IF_NO_CARRY, 0x0150), "d2 50 01"),
    (lambda a: a.jp(IF_CARRY, 0x0150), "da 50 01"),
    (lambda a: a.jp(HL), "e9"),
    (lambda a: a.call(0xFF80), "cd 80 ff"),
    (lambda a: a.call(IF_NOT_ZERO, 0x0150), "c4 50 01"),
    (lambda a: a.call(IF_ZERO, 0x0150), "cc 50 01"),
    (lambda a: a.call(IF_NO_CARRY, 0x0150), "d4 50 01"),
    (lambda a: a.call(IF_CARRY, 0x0150), "dc 50 01"),
    (lambda a: a.ret(), "c9"),
    (lambda a: a.ret(IF_NOT_ZERO), "c0"),
    (lambda a: a.ret(IF_ZERO), "c8"),
    (lambda a: a.ret(IF_NO_CARRY), "d0"),
    (lambda a: a.ret(IF_CARRY), "d8"),
    (lambda a: a.reti(), "d9"),
    (lambda a: a.jr("start"), "18 fe"),
    (lambda a: a.jr(IF_NOT_ZERO, "start"), "20 fe"),
    (lambda a: a.jr(IF_ZERO, "start"), "28 fe"),
    (lambda a: a.jr(IF_NO_CARRY, "start"), "30 fe"),
    (lambda a: a.jr(IF_CARRY, "start"), "38 fe"),
    (lambda a: a.nop(), "00"),
    (lambda a: a.halt(), "76"),
    (lambda a: a.di(), "f3"),
    (lambda a: a.ei(), "fb"),
]


def encoded(write: Callable[[Assembler], object]) -> str:
    """What one instruction at address 0 becomes."""
    a = Assembler(size=64)
    a.label("start")
    write(a)
    return a.finish()[: a.here].hex()


def compact(text: str) -> str:
    return text.replace(" ", "")


def test_loads_between_bytes_fill_their_square_of_the_opcode_table():
    for to, row in LOADS.items():
        for what, code in zip(BYTES, row.split(), strict=True):
            if code != "--":
                assert encoded(lambda a, to=to, what=what: a.ld(to, what)) == code, (to, what)


def test_loads_of_numbers():
    for to, code in zip(BYTES, LOAD_NUMBER.split(), strict=True):
        assert encoded(lambda a, to=to: a.ld(to, 0x5A)) == code + "5a"


@pytest.mark.parametrize("name", SUMS)
def test_sums_with_bytes_and_numbers(name):
    row, number = SUMS[name]
    to = (A,) if name == "add" else ()
    for what, code in zip(BYTES, row.split(), strict=True):
        assert encoded(lambda a, what=what: getattr(a, name)(*to, what)) == code
    assert encoded(lambda a: getattr(a, name)(*to, 0x5A)) == number + "5a"


@pytest.mark.parametrize("name", ONE_BYTE)
def test_counting_and_shifting(name):
    for what, code in zip(BYTES, ONE_BYTE[name].split(), strict=True):
        assert encoded(lambda a, what=what: getattr(a, name)(what)) == code


def test_looking_at_single_bits():
    for number, row in enumerate(BITS):
        for what, code in zip(BYTES, row.split(), strict=True):
            assert encoded(lambda a, number=number, what=what: a.bit(number, what)) == "cb" + code


def test_all_other_instructions():
    for write, code in OTHERS:
        assert encoded(write) == compact(code)


def test_labels_are_filled_in_wherever_they_stand():
    a = Assembler(size=0x300)
    a.org(0x10)
    a.jp("later")
    a.ld(HL, "later")
    a.ld(A, at("later"))
    a.ld(B, high("later"))
    a.add(A, high("later"))
    a.jr("near")
    a.label("near")
    a.org(0x234)
    a.label("later")
    a.data([1, 2, 3])
    assert a.finish()[0x10:0x1F].hex(" ") == "c3 34 02 21 34 02 fa 34 02 06 02 c6 02 18 00"
    assert a.address("later") == 0x234


def test_align_goes_on_at_the_next_multiple():
    a = Assembler(size=0x300)
    a.align(256)
    assert a.here == 0
    a.nop()
    a.align(256)
    assert a.here == 0x100


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda a: a.ld(B, AT_DE), r"ld B, \[DE\] at \$0000: there is no such instruction"),
        (lambda a: a.ld(AT_HL, AT_HL), r"ld \[HL\], \[HL\]"),
        (lambda a: a.ld(B, at(0xC000)), r"ld B, \[\$C000\]"),
        (lambda a: a.ld(AF, 5), "ld AF, 5"),
        (lambda a: a.ldh(A, at(0xC000)), r"ldh A, \[\$C000\]"),
        (lambda a: a.add(B, 1), "add B, 1"),
        (lambda a: a.add(HL, AF), "add HL, AF"),
        (lambda a: a.cp(HL), "cp HL"),
        (lambda a: a.inc(AF), "inc AF"),
        (lambda a: a.swap(HL), "swap HL"),
        (lambda a: a.bit(8, A), "bit 8, A"),
        (lambda a: a.push(SP), "push SP"),
        (lambda a: a.pop(A), "pop A"),
        (lambda a: a.jr(IF_ZERO), "jr Z at"),
        (lambda a: a.call(A), "call A at"),
        (lambda a: a.ld(A, 256), "256 at .* does not fit a byte"),
        (lambda a: a.ld(A, -1), "-1 at .* does not fit a byte"),
    ],
)
def test_what_the_processor_cannot_do_is_refused_by_name(write, said):
    with pytest.raises(AssemblyError, match=said):
        write(Assembler(size=64))


def test_a_label_placed_twice_or_never_is_named():
    a = Assembler(size=64)
    a.label("here")
    with pytest.raises(AssemblyError, match=r"'here' at .* already placed"):
        a.label("here")
    a.jp("nowhere")
    with pytest.raises(AssemblyError, match="'nowhere' is used but never placed"):
        a.finish()


@pytest.mark.parametrize(("gap", "reached"), [(127, True), (128, False)])
def test_jr_ahead_reaches_127_bytes(gap, reached):
    a = Assembler(size=512)
    a.jr("there")
    a.data(bytes(gap))
    a.label("there")
    if reached:
        assert a.finish()[1] == 127
    else:
        with pytest.raises(AssemblyError, match=r"jr at \$0000: label 'there' is 128 bytes away.*use jp"):
            a.finish()


@pytest.mark.parametrize(("gap", "reached"), [(126, True), (127, False)])
def test_jr_back_reaches_128_bytes(gap, reached):
    a = Assembler(size=512)
    a.label("there")
    a.data(bytes(gap))
    a.jr("there")
    if reached:
        assert a.finish()[gap + 1] == 0x80
    else:
        with pytest.raises(AssemblyError, match="-129 bytes away"):
            a.finish()


def test_pieces_may_not_overlap_or_leave_the_image():
    a = Assembler(size=4)
    a.data([1, 2])
    a.org(1)
    with pytest.raises(AssemblyError, match=r"\$0001 is already in use"):
        a.nop()
    a.org(4)
    with pytest.raises(AssemblyError, match="beyond the image"):
        a.nop()


def results(write: Callable[[Assembler], object], count: int) -> list[int]:
    """What a program leaves in memory from $C100 on, on a real emulator."""
    a = Assembler()
    cartridge.begin(a)
    a.label("power_up")
    a.di()
    a.ld(SP, 0xFFFE)
    write(a)
    a.label("end")
    a.jr("end")
    emulator = Emulator(Rom(cartridge.seal(a.finish(), "SNIPPET"), "snippet"))
    emulator.run(120)
    found = [emulator.memory[0xC100 + k] for k in range(count)]
    emulator.close()
    return found


def keep(a: Assembler, k: int) -> None:
    a.ld(at(0xC100 + k), A)


@pytest.mark.slow
def test_sums_come_out_right_on_the_emulator():
    def program(a: Assembler) -> None:
        for k, (first, name, second) in enumerate(
            [
                (5, "add", 7),
                (200, "add", 100),
                (5, "sub", 7),
                (0xCC, "and_", 0xAA),
                (0xCC, "or_", 0xAA),
                (0xCC, "xor", 0xAA),
            ]
        ):
            a.ld(A, first)
            a.ld(B, second)
            getattr(a, name)(*([A, B] if name == "add" else [B]))
            keep(a, k)

    assert results(program, 6) == [12, 44, 254, 0x88, 0xEE, 0x66]


def test_calls_loops_and_the_stack_work_on_the_emulator():
    def program(a: Assembler) -> None:
        a.ld(C, 5)
        a.ld(A, 0)
        a.label("again")
        a.call("add_c")
        a.dec(C)
        a.jr(IF_NOT_ZERO, "again")
        keep(a, 0)  # 5 + 4 + 3 + 2 + 1
        a.ld(DE, 0x1234)
        a.push(DE)
        a.pop(HL)
        a.ld(A, H)
        keep(a, 1)
        a.add(HL, HL)
        a.ld(A, H)
        keep(a, 2)
        a.ld(A, 0x12)
        a.swap(A)
        a.srl(A)
        keep(a, 3)
        a.jp("end")
        a.label("add_c")
        a.add(A, C)
        a.ret()

    assert results(program, 4) == [15, 0x12, 0x24, 0x10]


def test_comparing_sets_zero_and_carry_on_the_emulator():
    def program(a: Assembler) -> None:
        a.ld(HL, 0xC100)
        for first, second in ((3, 5), (5, 5), (7, 5)):
            for condition in (IF_ZERO, IF_CARRY):
                name = f"yes_{first}_{condition.name}"
                a.ld(A, first)
                a.cp(second)
                a.ld(A, 1)
                a.jr(condition, name)
                a.ld(A, 0)
                a.label(name)
                a.ld(AT_HL_UP, A)

    assert results(program, 6) == [0, 1, 1, 0, 0, 0]


def test_memory_is_reached_in_every_way_on_the_emulator():
    def program(a: Assembler) -> None:
        a.ld(HL, 0xC100)
        a.ld(AT_HL, 11)
        a.inc(AT_HL)
        a.ld(A, AT_HL_UP)
        a.ld(AT_HL_UP, A)
        a.ld(BC, 0xC102)
        a.ld(AT_BC, A)
        a.ld(DE, 0xC103)
        a.ld(A, AT_BC)
        a.add(A, 1)
        a.ld(AT_DE, A)
        a.ld(A, 0x77)
        a.ldh(at(0xFF90), A)
        a.ld(A, 0)
        a.ldh(A, at(0xFF90))
        keep(a, 4)

    assert results(program, 5) == [12, 12, 12, 13, 0x77]
