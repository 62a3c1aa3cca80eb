"""What a console keeps: registers and clocks in its state, and where everything is in its memory.

Times are in dots: 4,194,304 a second, four to a machine cycle. `t` counts them. Nothing is stepped dot by dot: timer,
LCD and serial port are computed from `t` when the program looks at them, and `due` says when the next of them needs
attention.
"""

from __future__ import annotations

import numpy as np

STATE = {
    "t": "i8",  # now
    "due": "i8",  # when `attend` is called next, at the latest; 0 means after this instruction
    "div_at": "i8",  # when the divider was 0
    "timer_at": "i8",  # up to when the timer's ticks are counted
    "timer_due": "i8",  # its next interrupt
    "reload_at": "i8",  # when an overflown timer is loaded again; 0 if it has not overflown
    "reloaded_at": "i8",  # when it was loaded last
    "frame_at": "i8",  # when line 0 of this frame began
    "lcd_due": "i8",  # the LCD's next event
    "serial_due": "i8",  # when the byte is out
    "clock_at": "i8",  # when the cartridge's clock was 0
    "registers": "i8",  # a byte each, from the lowest byte up: C B E D L H A
    "loop_t": "i8",  # when the last round of a loop began
    "loop_registers": "i8",  # and with which registers and flags
    "loop_sp": "i4",
    "loop": "i4",  # and where; -1 if something was written since
    "pc": "i4",
    "sp": "i4",
    "rom_low": "i4",  # what is added to an address below 4000 to get the place in the ROM
    "rom_high": "i4",  # the same for 4000-7FFF
    "ram_at": "i4",  # where the cartridge's RAM at A000 is in the memory; -1 if there is none now
    "bank": "i4",  # registers of the cartridge
    "bank2": "i4",
    "window_line": "i4",  # of the window, that is drawn next
    "frames": "i4",  # frames since the start, those that were cut short included
    "flags": "u1",
    "ime": "u1",
    "ei": "u1",  # 1 after EI, 2 during the instruction after it
    "halted": "u1",  # RUNS, HALTS, STOPS, LOCKED
    "halt_bug": "u1",
    "done": "u1",  # the frame is over
    "first_frame": "u1",  # since the LCD is on: it shows nothing
    "window_open": "u1",  # LY was WY in this frame
    "stat_line": "u1",  # whether any STAT interrupt is requested: only its rising edge counts
    "draw": "u1",  # whether this frame is looked at
    "seen": "u1",  # what a loop has read beside plain memory: the bits SEEN_
    "shown": "u1",  # whether the last picture shows anything
    "keys": "u1",  # right left up down A B select start
    "mbc": "u1",  # the kind of cartridge
    "ram_banks": "u1",  # of 8 KiB
    "ram_on": "u1",
    "bank_mode": "u1",
    "latch": "u1",
    "clock": ("u1", (5,)),  # the cartridge's clock as latched
}
RUNS, HALTS, STOPS, LOCKED = 0, 1, 2, 3
Z_FLAG, N_FLAG, H_FLAG, C_FLAG = 0x80, 0x40, 0x20, 0x10
NEVER = 1 << 62
SEEN_LY, SEEN_STAT, SEEN_MORE = 1, 2, 4

# The memory of a console. The first 32 KiB are addresses 8000-FFFF. In place of the echo of the working RAM is what the
# picture needs: registers of each line, objects of each line, and the objects' attributes. Then follow a copy of the
# video RAM, made when the last line was drawn, and the cartridge's RAM beyond its first 8 KiB.
FIRST = 0x8000  # the address of the first byte
VRAM, CART_RAM, WRAM, OAM, IO = 0x0000, 0x2000, 0x4000, 0x7E00, 0x7F00
LINES, LINE_OBJECTS, SHOWN_OAM = 0x6000, 0x6480, 0x6B00
LINE_BYTES, OBJECTS_BYTES = 8, 11
SHOWN_VRAM, MORE_RAM = 0x8000, 0xA000
RAM_BANK = 0x2000

P1, SB, SC, DIV, TIMA, TMA, TAC, IF = IO, IO + 1, IO + 2, IO + 4, IO + 5, IO + 6, IO + 7, IO + 0x0F
LCDC, STAT, SCY, SCX, LY, LYC, DMA = IO + 0x40, IO + 0x41, IO + 0x42, IO + 0x43, IO + 0x44, IO + 0x45, IO + 0x46
BGP, OBP0, OBP1, WY, WX, IE = IO + 0x47, IO + 0x48, IO + 0x49, IO + 0x4A, IO + 0x4B, 0x7FFF
VBLANK_BIT, STAT_BIT, TIMER_BIT, SERIAL_BIT, KEYS_BIT = 1, 2, 4, 8, 16

LINE_DOTS, FRAME_DOTS, VBLANK_DOTS = 456, 70224, 144 * 456
HEIGHT, WIDTH = 144, 160

# Bits of registers FF00-FF7F that always read as 1.
UNREADABLE = np.full(0x80, 0xFF, np.uint8)
UNREADABLE[0x00:0x08] = [0xC0, 0x00, 0x7E, 0xFF, 0x00, 0x00, 0x00, 0xF8]
UNREADABLE[0x0F] = 0xE0
UNREADABLE[0x10:0x27] = [
    0x80, 0x3F, 0x00, 0xFF, 0xBF, 0xFF, 0x3F, 0x00, 0xFF, 0xBF, 0x7F, 0xFF, 0x9F, 0xFF, 0xBF, 0xFF, 0xFF, 0x00, 0x00,
    0xBF, 0x00, 0x00, 0x70,
]  # fmt: skip
UNREADABLE[0x30:0x40] = 0
UNREADABLE[0x40:0x4C] = [0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
