"""What a ROM's header says about its cartridge, and which cartridges the kernel runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rookery.errors import WorldError
from rookery.worlds.gameboy.kernel.cartridge import MBC1, MBC2, MBC3, MBC5, NO_MBC
from rookery.worlds.gameboy.kernel.layout import MORE_RAM, RAM_BANK
from rookery.worlds.gameboy.rom import CARTRIDGE, COLOUR, HEADER_END, MEMORY, WITH_CLOCK

KINDS = {
    0x00: NO_MBC, 0x08: NO_MBC, 0x09: NO_MBC, 0x01: MBC1, 0x02: MBC1, 0x03: MBC1, 0x05: MBC2, 0x06: MBC2,
    0x0F: MBC3, 0x10: MBC3, 0x11: MBC3, 0x12: MBC3, 0x13: MBC3,
    0x19: MBC5, 0x1A: MBC5, 0x1B: MBC5, 0x1C: MBC5, 0x1D: MBC5, 0x1E: MBC5,
}  # fmt: skip
RAM_BANKS = {0: 0, 1: 1, 2: 1, 3: 4, 4: 16, 5: 8}  # by the code in the header; less than a bank counts as one
SMALLEST, LARGEST = 0x8000, 8 << 20  # bytes of a ROM
COLOUR_ONLY = 0xC0


@dataclass(frozen=True)
class Cartridge:
    """A cartridge that the kernel runs."""

    rom: np.ndarray = field(repr=False)  # a power of two of bytes
    mbc: int
    ram_banks: int  # of 8 KiB
    has_clock: bool = False

    @property
    def memory(self) -> int:
        """The bytes of a console with this cartridge."""
        return MORE_RAM + max(self.ram_banks - 1, 0) * RAM_BANK


def cartridge_of(data: bytes, name: str) -> Cartridge:
    """The cartridge of a ROM; a WorldError if the kernel cannot run it."""
    if not HEADER_END <= len(data) <= LARGEST:
        raise WorldError(f"{name}: a Game Boy ROM has 32 KiB to 8 MiB, got {len(data)} bytes")
    if data[COLOUR] & COLOUR_ONLY == COLOUR_ONLY:
        raise WorldError(f"{name}: needs a Game Boy Color, which the compiled Game Boy is not")
    kind, ram = data[CARTRIDGE], data[MEMORY]
    if kind not in KINDS:
        raise WorldError(f"{name}: the compiled Game Boy does not have this kind of cartridge ({kind:#04x})")
    if ram not in RAM_BANKS:
        raise WorldError(f"{name}: its header has an unknown code of the RAM ({ram})")
    size = SMALLEST
    while size < len(data):
        size *= 2
    rom = np.full(size, 0xFF, np.uint8)
    rom[: len(data)] = np.frombuffer(data, np.uint8)
    return Cartridge(rom, KINDS[kind], 1 if KINDS[kind] == MBC2 else RAM_BANKS[ram], kind in WITH_CLOCK)
