"""The memory as the CPU sees it (Pan Docs, "Memory Map")."""

from __future__ import annotations

from typing import Any

from rookery.kernel.declarations import inlined, not_inlined, whole
from rookery.worlds.gameboy.kernel.cartridge import read_ram, write_cartridge, write_ram
from rookery.worlds.gameboy.kernel.layout import (
    DIV,
    DMA,
    FIRST,
    IE,
    IF,
    IO,
    LCDC,
    LY,
    LYC,
    NEVER,
    OAM,
    P1,
    SB,
    SC,
    SEEN_LY,
    SEEN_MORE,
    SEEN_STAT,
    SERIAL_BIT,
    STAT,
    TAC,
    TIMA,
    UNREADABLE,
    WX,
)
from rookery.worlds.gameboy.kernel.lcd import (
    read_ly,
    read_mode,
    read_stat,
    schedule_lcd,
    sync_lcd,
    update_stat_line,
    write_lcdc,
)
from rookery.worlds.gameboy.kernel.timer import reset_divider, schedule_timer, sync_timer, write_timer

SERIAL_DOTS = 8 * 512  # for one byte
LARGEST_ROM = (8 << 20) - 1  # as a mask: the compiler then knows that no index is negative
NOWHERE = -1


@inlined
def read(
    state: Any, memory: Any, rom: Any, low: int, high: int, video: int, address: int, t: int, anything: bool
) -> tuple[int, bool]:
    """The byte at an address at this time, and whether it could be read: without `anything`, only plain memory can.
    `low` and `high` say where the two halves of the ROM are, and until the time `video`, the video RAM is plain
    memory."""
    if address < 0x8000:
        return whole(rom[(low if address < 0x4000 else high) + address & LARGEST_ROM]), True
    if is_plain(address) or (address < 0xA000 and t < video):
        return whole(memory[address - FIRST & 0x7FFF]), True
    if not anything:
        return 0, False
    state.t = t
    return read_other(state, memory, address), True


@inlined
def is_plain(address: int) -> bool:
    """Whether an address is in the working RAM or the high RAM, or is IE."""
    return address >= 0xFF80 or (address >= 0xC000 and address < 0xE000)


@not_inlined
def read_other(state: Any, memory: Any, address: int) -> int:
    """A read from video RAM, the cartridge's RAM, objects or registers."""
    place = address - FIRST
    state.seen |= SEEN_LY if place == LY else SEEN_STAT if place == STAT else SEEN_MORE
    if address < 0xA000:
        return 0xFF if read_mode(state, memory, state.t) == 3 else whole(memory[address - FIRST])
    if address < 0xC000:
        return read_ram(state, memory, address)
    if address < 0xFE00:
        return whole(memory[address - FIRST - 0x2000])
    if address < 0xFEA0:
        return 0xFF if read_mode(state, memory, state.t) >= 2 else whole(memory[address - FIRST])
    if address < 0xFF00:
        return 0
    return read_register(state, memory, address - FIRST)


@inlined
def is_writable(address: int, t: int, video: int) -> bool:
    """Whether a write to an address at this time only changes plain memory."""
    if is_plain(address):
        return address != 0xFFFF
    return address >= 0x8000 and address < 0xA000 and t < video


@inlined
def write(state: Any, memory: Any, rom: Any, address: int, value: int, t: int, anything: bool) -> None:
    """Write a byte to an address at this time; without `anything`, the address must be of plain memory."""
    state.loop = NOWHERE
    if not anything or is_writable(address, t, 0):
        memory[address - FIRST & 0x7FFF] = value
    else:
        state.t = t
        write_other(state, memory, rom, address, value)


@not_inlined
def write_other(state: Any, memory: Any, rom: Any, address: int, value: int) -> None:
    """A write to the cartridge's registers, video RAM, the cartridge's RAM, objects or registers."""
    if address < 0x8000:
        write_cartridge(state, rom, address, value)
    elif address < 0xA000:
        if read_mode(state, memory, state.t) != 3:
            memory[address - FIRST] = value
    elif address < 0xC000:
        write_ram(state, memory, address, value)
    elif address < 0xFE00:
        memory[address - FIRST - 0x2000] = value
    elif address < 0xFEA0:
        if read_mode(state, memory, state.t) < 2:
            memory[address - FIRST] = value
    elif address == 0xFF46:
        memory[DMA] = value
        _copy_objects(state, memory, rom, value << 8)
    elif address == 0xFFFF:
        memory[IE] = value
        state.due = 0
    elif address >= 0xFF00:
        _write_register(state, memory, address - FIRST, value)


def _copy_objects(state: Any, memory: Any, rom: Any, source: int) -> None:
    """OAM DMA. It takes 160 machine cycles, in which a program can only run from high RAM; here all bytes are copied
    at its beginning."""
    if source >= 0xE000:
        source -= 0x2000
    for k in range(160):
        if source < 0x8000:
            value = whole(rom[(state.rom_low if source < 0x4000 else state.rom_high) + source + k])
        elif source >= 0xA000 and source < 0xC000:
            value = read_ram(state, memory, source + k)
        else:
            value = whole(memory[source + k - FIRST])
        memory[OAM + k] = value


@not_inlined
def settle(state: Any, memory: Any, now: int) -> None:
    """Let timer, LCD and serial port request the interrupts that are due."""
    if now >= state.timer_due:
        sync_timer(state, memory, now)
        schedule_timer(state, memory)
    if now >= state.lcd_due:
        sync_lcd(state, memory, now)
    if now >= state.serial_due:
        memory[SB] = 0xFF  # nothing is connected
        memory[SC] = whole(memory[SC]) & 0x7F
        memory[IF] = whole(memory[IF]) | SERIAL_BIT
        state.serial_due = NEVER


@not_inlined
def read_register(state: Any, memory: Any, place: int) -> int:
    now = state.t
    if place == LY:
        return read_ly(state, memory, now)
    if place == STAT:
        return read_stat(state, memory, now)
    if place == P1:
        return _read_keys(state, memory)
    if place == DIV:
        return ((now - state.div_at) >> 8) & 0xFF
    if place == TIMA:
        sync_timer(state, memory, now)
        schedule_timer(state, memory)
        state.due = 0
    elif place < DIV or place == IF:
        settle(state, memory, now)
        state.due = 0
    return whole(memory[place]) | whole(UNREADABLE[place - IO])


def _read_keys(state: Any, memory: Any) -> int:
    select = whole(memory[P1]) & 0x30
    low = 15
    if not select & 0x10:
        low &= ~whole(state.keys) & 15
    if not select & 0x20:
        low &= ~(whole(state.keys) >> 4) & 15
    return 0xC0 | select | low


def _write_register(state: Any, memory: Any, place: int, value: int) -> None:
    now = state.t
    state.due = 0
    settle(state, memory, now)
    if place >= DIV and place <= TAC:
        sync_timer(state, memory, now)
        if place == DIV:
            reset_divider(state, memory)
        else:
            write_timer(state, memory, place, value)
        schedule_timer(state, memory)
    elif place >= LCDC and place <= WX:
        _write_lcd_register(state, memory, place, value)
    elif place == SC:
        memory[SC] = value
        state.serial_due = now + SERIAL_DOTS if value & 0x81 == 0x81 else NEVER
    else:
        memory[place] = value & 31 if place == IF else value


def _write_lcd_register(state: Any, memory: Any, place: int, value: int) -> None:
    now = state.t
    if place == LCDC:
        write_lcdc(state, memory, value)
    elif place == STAT:
        memory[STAT] = value & 0x78
    elif place != LY:
        memory[place] = value
    if place <= STAT or place == LYC:
        if whole(memory[LCDC]) & 0x80 and place != LCDC:
            update_stat_line(state, memory, now)
        schedule_lcd(state, memory, now)
