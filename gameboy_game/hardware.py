"""The Game Boy's hardware registers: bytes of memory that are wires to the machine instead of storage."""

from __future__ import annotations

# The joypad. Writing chooses a row of buttons, reading gives four of them, with 0 for a button that is down.
JOYPAD = 0xFF00
CHOOSE_DIRECTIONS = 0x20  # then bits 0 to 3 are right, left, up, down
CHOOSE_BUTTONS = 0x10  # then bits 0 to 3 are A, B, SELECT, START

# The screen. 160 x 144 dots, built from tiles of 8 x 8. It is drawn line by line, 60 times a second; after the last
# line comes a pause of about 1,100 instructions' time, the vertical blank. Only then may pictures be changed.
LCD_CONTROL = 0xFF40
LCD_ON = 0x80
WINDOW_FROM_9C00 = 0x40  # which of the two tile maps the window shows
WINDOW_ON = 0x20
TILES_AT_8000 = 0x10
BACKGROUND_FROM_9C00 = 0x08  # which of the two tile maps the background shows (without it, the one at $9800)
TALL_SPRITES = 0x04  # sprites are two tiles high: 8 x 16 dots
SPRITES_ON = 0x02
BACKGROUND_ON = 0x01
SCROLL_Y = 0xFF42  # which row of the tile map the screen begins with, in dots
SCROLL_X = 0xFF43
LCD_LINE = 0xFF44  # the line being drawn; 144 to 153 are the vertical blank
SPRITE_COPY = 0xFF46  # writing $XX copies 160 bytes from $XX00 to the sprite table
PALETTE = 0xFF47  # background: which grey each of the four colours is, two bits each, colour 0 lowest
SPRITE_PALETTE = 0xFF48  # the same for sprites, whose colour 0 is see-through
WINDOW_Y = 0xFF4A  # the window lies over the background from this line down
WINDOW_X = 0xFF4B  # plus 7

# Interrupts: which events may wake or divert the processor.
INTERRUPTS_PENDING = 0xFF0F
INTERRUPTS_WANTED = 0xFFFF
VERTICAL_BLANK = 0x01

# Memory
VIDEO_TILES = 0x8000  # 16 bytes a tile
FIRST_MAP, SECOND_MAP = 0x9800, 0x9C00  # 32 x 32 tile numbers each, a row after the other
MAP_WIDTH = 32
HIGH_MEMORY = 0xFF80  # 127 bytes that the processor reaches even during a sprite copy
STACK_TOP = 0xFFFE

# A sprite is four bytes: y + 16, x + 8, tile, and these:
MIRRORED = 0x20  # left and right exchanged
