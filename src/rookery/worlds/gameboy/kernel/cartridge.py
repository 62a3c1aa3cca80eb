"""Cartridges: banks of ROM and RAM, and the clock (Pan Docs, "MBCs").

The clock counts the console's own dots, so that a run repeats exactly.
"""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import not_inlined, whole
from rookery.worlds.gameboy.kernel.layout import CART_RAM, MORE_RAM, RAM_BANK

NO_MBC, MBC1, MBC2, MBC3, MBC5 = 0, 1, 2, 3, 5
BANK = 0x4000
SECOND_BITS = 22  # a second is 2 ** 22 dots


@not_inlined
def write_cartridge(state: Any, rom: Any, address: int, value: int) -> None:
    """A write below 8000: to the registers of the cartridge."""
    if state.mbc == MBC1:
        _write_mbc1(state, address, value)
    elif state.mbc == MBC2:
        _write_mbc2(state, address, value)
    elif state.mbc == MBC3:
        _write_mbc3(state, address, value)
    elif state.mbc == MBC5:
        _write_mbc5(state, address, value)
    select_banks(state, rom)


def select_banks(state: Any, rom: Any) -> None:
    """Find where ROM and RAM are, after a register of the cartridge has changed."""
    bank, low, ram_bank = state.bank, 0, state.bank2
    if state.mbc == MBC1:
        bank |= state.bank2 << 5
        low = state.bank2 << 5 if state.bank_mode else 0
        ram_bank = state.bank2 if state.bank_mode else 0
    mask = len(rom) - 1  # the size of a ROM is a power of two
    state.rom_high = ((bank * BANK) & mask) - BANK
    state.rom_low = (low * BANK) & mask
    state.ram_at = -1
    if state.ram_banks > 0 and (state.ram_on or state.mbc == NO_MBC) and not (state.mbc == MBC3 and ram_bank >= 8):
        ram_bank &= state.ram_banks - 1
        state.ram_at = CART_RAM if ram_bank == 0 else MORE_RAM + (ram_bank - 1) * RAM_BANK


def _write_mbc1(state: Any, address: int, value: int) -> None:
    if address < 0x2000:
        state.ram_on = 1 if value & 15 == 10 else 0
    elif address < 0x4000:
        state.bank = max(value & 0x1F, 1)
    elif address < 0x6000:
        state.bank2 = value & 3
    else:
        state.bank_mode = value & 1


def _write_mbc2(state: Any, address: int, value: int) -> None:
    if address < 0x4000 and address & 0x100:
        state.bank = max(value & 15, 1)
    elif address < 0x4000:
        state.ram_on = 1 if value & 15 == 10 else 0


def _write_mbc3(state: Any, address: int, value: int) -> None:
    if address < 0x2000:
        state.ram_on = 1 if value & 15 == 10 else 0
    elif address < 0x4000:
        state.bank = max(value & 0x7F, 1)
    elif address < 0x6000:
        state.bank2 = value & 15
    else:
        if value == 1 and state.latch == 0:
            _latch_clock(state)
        state.latch = min(value, 2)


def _write_mbc5(state: Any, address: int, value: int) -> None:
    if address < 0x2000:
        state.ram_on = 1 if value & 15 == 10 else 0
    elif address < 0x3000:
        state.bank = (state.bank & 0x100) | value
    elif address < 0x4000:
        state.bank = (state.bank & 0xFF) | (value & 1) << 8
    elif address < 0x6000:
        state.bank2 = value & 15


def read_ram(state: Any, memory: Any, address: int) -> int:
    """A read from A000-BFFF."""
    if state.mbc == MBC3 and state.ram_on and state.bank2 >= 8:
        return whole(state.clock[state.bank2 - 8]) if state.bank2 < 13 else 0xFF
    if state.ram_at < 0:
        return 0xFF
    if state.mbc == MBC2:
        return 0xF0 | whole(memory[state.ram_at + (address & 0x1FF)])
    return whole(memory[state.ram_at + (address & 0x1FFF)])


def write_ram(state: Any, memory: Any, address: int, value: int) -> None:
    """A write to A000-BFFF."""
    if state.mbc == MBC3 and state.ram_on and state.bank2 >= 8:
        if state.bank2 < 13:
            _set_clock(state, state.bank2 - 8, value)
    elif state.ram_at >= 0 and state.mbc == MBC2:
        memory[state.ram_at + (address & 0x1FF)] = value & 15
    elif state.ram_at >= 0:
        memory[state.ram_at + (address & 0x1FFF)] = value


def _latch_clock(state: Any) -> None:
    """Seconds, minutes, hours, days, and the ninth bit of the days with the flag that it stands still."""
    if state.clock[4] & 0x40:
        return
    seconds = (state.t - state.clock_at) >> SECOND_BITS
    state.clock[0] = seconds % 60
    state.clock[1] = seconds // 60 % 60
    state.clock[2] = seconds // 3600 % 24
    days = seconds // 86400
    state.clock[3] = days & 0xFF
    state.clock[4] = (state.clock[4] & 0x80) | (days >> 8) & 1 | (0x80 if days > 511 else 0)


def _set_clock(state: Any, which: int, value: int) -> None:
    _latch_clock(state)
    state.clock[which] = value
    days = state.clock[3] + ((state.clock[4] & 1) << 8)
    seconds = state.clock[0] + 60 * state.clock[1] + 3600 * state.clock[2] + 86400 * days
    state.clock_at = state.t - (seconds << SECOND_BITS)
