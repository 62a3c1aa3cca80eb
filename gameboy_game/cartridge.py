"""What every cartridge has: the fixed addresses where the processor begins, and the header that describes it."""

from __future__ import annotations

from gameboy_game.asm import Assembler

ON_VERTICAL_BLANK = 0x40  # where the processor goes at this interrupt
ENTRY = 0x100  # where it begins, with space for four bytes
TITLE_AT, TITLE_LENGTH = 0x134, 11
HEADER_SUM_AT, IMAGE_SUM_AT = 0x14D, 0x14E
PROGRAM = 0x150


def begin(a: Assembler) -> None:
    """The fixed parts. The program, which needs a label `power_up`, continues after the header."""
    a.org(ON_VERTICAL_BLANK)
    a.reti()  # the interrupt only has to wake the processor
    a.org(ENTRY)
    a.nop()
    a.jp("power_up")
    a.org(PROGRAM)


def seal(image: bytes, title: str) -> bytes:
    """The image with its title and both checksums. All other fields are 0: 32 KiB, no extras, nobody's licence.

    The logo that a real Game Boy requires belongs to its maker and is not included; emulators do not need it.
    """
    sealed = bytearray(image)
    sealed[TITLE_AT : TITLE_AT + TITLE_LENGTH] = title.encode("ascii").ljust(TITLE_LENGTH, b"\0")
    sealed[HEADER_SUM_AT] = header_sum(sealed)
    sealed[IMAGE_SUM_AT : IMAGE_SUM_AT + 2] = image_sum(sealed).to_bytes(2, "big")
    return bytes(sealed)


def header_sum(image: bytes | bytearray) -> int:
    """The checksum of the header, without which no machine starts."""
    return -sum(byte + 1 for byte in image[TITLE_AT:HEADER_SUM_AT]) & 0xFF


def image_sum(image: bytes | bytearray) -> int:
    """The checksum of the whole cartridge, which real machines do not check."""
    return (sum(image) - sum(image[IMAGE_SUM_AT : IMAGE_SUM_AT + 2])) & 0xFFFF
