"""Consoles to start from: after the boot ROM, or from a save state of PyBoy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.errors import WorldError
from rookery.kernel.plain_values import PlainRecord, PlainRows
from rookery.worlds.gameboy.kernel.cartridge import MBC1, MBC5, SECOND_BITS, select_banks
from rookery.worlds.gameboy.kernel.header import Cartridge
from rookery.worlds.gameboy.kernel.layout import (
    BGP,
    CART_RAM,
    DMA,
    FIRST,
    HALTS,
    HEIGHT,
    IE,
    IF,
    IO,
    LCDC,
    LYC,
    MORE_RAM,
    NEVER,
    OAM,
    OBP0,
    OBP1,
    P1,
    RAM_BANK,
    SB,
    SC,
    SCX,
    SCY,
    STAT,
    STATE,
    STOPS,
    TAC,
    TIMA,
    TMA,
    VRAM,
    WIDTH,
    WRAM,
    WX,
    WY,
)
from rookery.worlds.gameboy.kernel.lcd import schedule_lcd, update_stat_line
from rookery.worlds.gameboy.kernel.timer import schedule_timer

CONSOLE = np.dtype([(n, *kind) if isinstance(kind, tuple) else (n, kind) for n, kind in STATE.items()], align=True)
PYBOY_FORMAT = 29
BOOTED_AT = 1 << 20  # any time: all times are relative
SHADES = {0xFF: 0, 0x99: 1, 0x55: 2, 0x00: 3}  # of PyBoy's greys
# Bytes of PyBoy's sound in a save state, besides its buffer.
SOUND_BEFORE_BUFFER, SOUND_AFTER_BUFFER = 24, 25 + 16 + 16 + 3 + 8 + 1 + 105 + 60 + 74 + 90


@dataclass(frozen=True)
class StartConsole:
    """A console, with the picture that its screen shows."""

    console: np.ndarray  # one record
    memory: np.ndarray
    screen: np.ndarray  # shades, (144, 160)


def power_on(cartridge: Cartridge) -> StartConsole:
    """A console when the boot ROM of the first model has ended."""
    console, memory = np.zeros(1, CONSOLE), np.zeros(cartridge.memory, np.uint8)
    state = PlainRecord(console[0])
    state.registers, state.flags = _registers(b=0x00, c=0x13, d=0x00, e=0xD8, h=0x01, l=0x4D, a=0x01), 0xB0
    state.pc, state.sp, state.mbc, state.bank = 0x100, 0xFFFE, cartridge.mbc, 1
    state.t = state.timer_at = state.frame_at = BOOTED_AT
    state.div_at = BOOTED_AT - 0xABCC
    memory[LCDC], memory[BGP], memory[IF], memory[P1] = 0x91, 0xFC, 0x01, 0x30
    return _finished(console, memory, cartridge, np.zeros((HEIGHT, WIDTH), np.uint8))


def _registers(*, b: int, c: int, d: int, e: int, h: int, l: int, a: int) -> int:  # noqa: E741 - the register L
    """The registers as one number."""
    return int.from_bytes([c, b, e, d, l, h, a], "little")


def _finished(console: np.ndarray, memory: np.ndarray, cartridge: Cartridge, screen: np.ndarray) -> StartConsole:
    """With everything that follows from the rest."""
    state, rows, rom = PlainRecord(console[0]), PlainRows(memory), PlainRows(cartridge.rom)
    state.ram_banks = cartridge.ram_banks
    select_banks(state, rom)
    schedule_timer(state, rows)
    requested = memory[IF]
    if memory[LCDC] & 0x80:
        update_stat_line(state, rows, state.t)  # only for the line itself
    memory[IF] = requested
    schedule_lcd(state, rows, state.t)
    state.serial_due = NEVER
    return StartConsole(console, memory, screen)


class _Reader:
    """The bytes of a save state, in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise WorldError("the save state is truncated")
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.bytes(1)[0]

    def word(self, size: int = 8) -> int:
        return int.from_bytes(self.bytes(size), "little")

    def array(self, count: int) -> np.ndarray:
        return np.frombuffer(self.bytes(count), np.uint8)


def from_pyboy(data: bytes, cartridge: Cartridge) -> StartConsole:
    """The console in a save state of PyBoy; a WorldError if it is of another format."""
    reader = _Reader(data)
    if reader.byte() != PYBOY_FORMAT:
        raise WorldError(f"the save state has format {data[0]}, and the compiled Game Boy reads {PYBOY_FORMAT}")
    boot_rom, *_, colour = reader.bytes(5)
    if boot_rom or colour:
        raise WorldError("the save state is of a Game Boy Color, or was saved before the game began")
    console, memory = np.zeros(1, CONSOLE), np.zeros(cartridge.memory, np.uint8)
    state = PlainRecord(console[0])
    _read_cpu(reader, state, memory)
    copying, _, source, copied = reader.bytes(4)
    reader.word()
    memory[DMA] = source
    _read_lcd(reader, state, memory)
    screen = _read_screen(reader, state)
    _read_ram(reader, memory)
    _read_timer(reader, state, memory)
    _read_cartridge(reader, state, memory, cartridge)
    directions, buttons = reader.bytes(2)
    state.keys = (~directions & 15) | (~buttons & 15) << 4
    memory[SB], memory[SC] = reader.bytes(2)
    memory[SC] &= 0x7F
    start = _finished(console, memory, cartridge, screen)
    if copying and source >= 0x80:
        place = (source << 8) - FIRST
        memory[OAM + copied : OAM + 160] = memory[place + copied : place + 160]
    return start


def _read_cpu(reader: _Reader, state: Any, memory: np.ndarray) -> None:
    a, state.flags, b, c, d, e = reader.bytes(6)
    hl, state.sp, state.pc = (reader.word(2) for _ in range(3))
    state.registers = _registers(b=b, c=c, d=d, e=e, h=hl >> 8, l=hl & 0xFF, a=a)
    ime, delay, halted, stopped, enabled, _, requested = reader.bytes(7)
    state.ime, state.ei = ime, 1 if delay and not ime else 0
    state.halted = STOPS if stopped else HALTS if halted else 0
    state.pc = (state.pc + 1) & 0xFFFF if halted else state.pc  # PyBoy stays at the HALT
    memory[IE], memory[IF] = enabled, requested & 31
    state.t = reader.word()


def _read_lcd(reader: _Reader, state: Any, memory: np.ndarray) -> None:
    memory[VRAM : VRAM + 0x2000] = reader.array(0x2000)
    memory[OAM : OAM + 160] = reader.array(160)
    for place in (LCDC, BGP, OBP0, OBP1, STAT):
        memory[place] = reader.byte()
    reader.byte()  # LY, which follows from the clock
    for place in (LYC, SCY, SCX, WY, WX):
        memory[place] = reader.byte()
    memory[STAT] &= 0x78
    reader.bytes(1 + 5 * HEIGHT)  # object priority of the Color, and what was drawn
    _, _, _, _, first_frame, switched_on = reader.bytes(6)
    last, clock = reader.word(), reader.word()
    reader.bytes(8 + 2)
    state.first_frame = first_frame
    state.frame_at = state.t if switched_on else last - clock


def _read_screen(reader: _Reader, state: Any) -> np.ndarray:
    """The picture, which comes after the sound."""
    samples = int.from_bytes(reader.data[reader.at + 8 : reader.at + 16], "little")
    reader.bytes(SOUND_BEFORE_BUFFER + 2 * (samples + 1) + SOUND_AFTER_BUFFER)
    pixels = reader.array(HEIGHT * WIDTH * 5).reshape(HEIGHT, WIDTH, 5)[:, :, 0]
    state.window_open = reader.byte() & 1
    if not np.isin(pixels, list(SHADES)).all():
        raise WorldError("the save state is of another version of PyBoy: its screen is not where it should be")
    return np.select([pixels == grey for grey in SHADES], list(SHADES.values())).astype(np.uint8)


def _read_ram(reader: _Reader, memory: np.ndarray) -> None:
    memory[WRAM : WRAM + 0x2000] = reader.array(0x2000)
    reader.bytes(0x60)
    ports = reader.array(0x4C)
    memory[P1], memory[IO + 0x0E] = ports[0] & 0x30, ports[0x0E]
    memory[IO + 0x80 : IO + 0xFF] = reader.array(0x7F)
    reader.byte()  # the RAM bank of the Color


def _read_timer(reader: _Reader, state: Any, memory: np.ndarray) -> None:
    reader.byte()
    memory[TIMA] = reader.byte()
    divider, left = reader.word(2), reader.word(2)
    memory[TMA], memory[TAC], reloading = reader.bytes(3)
    last = reader.word()
    reader.word()
    state.div_at, state.timer_at = last - divider, last
    if reloading == 1:
        memory[TIMA], state.reload_at = 0, last + left


def _read_cartridge(reader: _Reader, state: Any, memory: np.ndarray, cartridge: Cartridge) -> None:
    state.mbc = cartridge.mbc
    state.bank, state.bank2, state.ram_on, state.bank_mode = reader.bytes(4)
    banks = max(cartridge.ram_banks, 1)  # PyBoy has one at least
    ram = reader.array(banks * RAM_BANK)
    memory[CART_RAM : CART_RAM + RAM_BANK] = ram[:RAM_BANK]
    memory[MORE_RAM:] = ram[RAM_BANK:]
    state.clock_at = state.t
    if cartridge.has_clock:
        _, _, _, _, _, _, _, _, _, _, seconds, minutes, hours, day, more_days = reader.bytes(15)
        reader.bytes(18)
        passed = seconds + 60 * minutes + 3600 * hours + 86400 * (day + 256 * more_days)
        state.clock_at = state.t - (passed << SECOND_BITS)
    if cartridge.mbc == MBC1:
        state.bank, state.bank2 = reader.bytes(2)
    elif cartridge.mbc == MBC5 and reader.byte():
        reader.byte()
