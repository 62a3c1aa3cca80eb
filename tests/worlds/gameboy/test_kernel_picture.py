"""Lines of a picture, beside a pixel at a time as Pan Docs describes it, on memory full of random bytes."""

from types import SimpleNamespace

import numpy as np
import pytest

from rookery.worlds.gameboy.kernel.layout import HEIGHT, LINES, MORE_RAM, SHOWN_OAM, SHOWN_VRAM, VRAM, WIDTH
from rookery.worlds.gameboy.kernel.picture import GREYS, draw_line, keep_picture

NO_WINDOW = 255
COLUMNS = np.arange(WIDTH)


def random_picture(rng, lcdc):
    """Kept registers of each line, video RAM, and 40 objects that lie on each other."""
    memory = rng.integers(0, 256, MORE_RAM).astype(np.uint8)
    lines = memory[LINES : LINES + 8 * HEIGHT].reshape(HEIGHT, 8)
    lines[:, 0] = lcdc
    lines[:, 6] = rng.integers(0, 167, HEIGHT)
    lines[:, 7] = np.where(rng.random(HEIGHT) < 0.5, NO_WINDOW, rng.integers(0, 144, HEIGHT))
    keep_picture(SimpleNamespace(first_frame=0), memory)
    objects = memory[SHOWN_OAM : SHOWN_OAM + 160].reshape(40, 4)
    objects[:, 1] = rng.integers(0, 40, 40)  # many at the same place
    return memory


def expected_pixel(memory, y, x):
    lcdc, scx, scy, bgp, obp0, obp1, wx, window = (int(b) for b in memory[LINES + 8 * y : LINES + 8 * y + 8])
    video = memory[SHOWN_VRAM : SHOWN_VRAM + 0x2000]

    def dot(tile_at, column):
        return (video[tile_at] >> (7 - column) & 1) + 2 * (video[tile_at + 1] >> (7 - column) & 1)

    color = 0
    if lcdc & 1:
        if window != NO_WINDOW and x + 7 >= wx:
            row, column, tiles = window, x + 7 - wx, 0x1C00 if lcdc & 0x40 else 0x1800
        else:
            row, column, tiles = (y + scy) % 256, (x + scx) % 256, 0x1C00 if lcdc & 0x08 else 0x1800
        tile = int(video[tiles + row // 8 * 32 + column // 8])
        first = tile * 16 if lcdc & 0x10 else 0x1000 + (tile - 256 * (tile > 127)) * 16
        color = dot(first + row % 8 * 2, column % 8)
    shade = bgp >> 2 * color & 3 if lcdc & 1 else 0
    if not lcdc & 2:
        return shade
    height = 16 if lcdc & 4 else 8
    objects = [list(map(int, memory[SHOWN_OAM + 4 * k : SHOWN_OAM + 4 * k + 4])) for k in range(40)]
    of_line = [k for k in range(40) if objects[k][0] - 16 <= y < objects[k][0] - 16 + height][:10]
    for k in sorted(of_line, key=lambda k: (objects[k][1], k)):
        top, left, tile, flags = objects[k]
        row, column = y + 16 - top, x + 8 - left
        if not 0 <= column < 8:
            continue
        row, column = height - 1 - row if flags & 0x40 else row, 7 - column if flags & 0x20 else column
        found = dot((tile & 0xFE if height == 16 else tile) * 16 + row * 2, column)
        if found:
            return shade if flags & 0x80 and color else (obp1 if flags & 0x10 else obp0) >> 2 * found & 3
    return shade


@pytest.mark.few(1)
@pytest.mark.parametrize("lcdc", [0xF7, 0x83, 0x93, 0xF2, 0xA1, 0xE5, 0xCB])
def test_a_line_is_its_pixels_one_by_one(lcdc):
    """Both tile maps and ways to number tiles, objects of both heights, each layer off."""
    memory = random_picture(np.random.default_rng(lcdc), lcdc)
    out = np.zeros(WIDTH, np.uint8)
    for y in range(0, HEIGHT, 24):
        draw_line(memory, y, COLUMNS, out)
        assert out.tolist() == [GREYS[expected_pixel(memory, y, x)] for x in range(WIDTH)]


@pytest.mark.parametrize("count", [1, 7, 84, 159])
def test_fewer_columns_are_those_of_the_whole_line(count):
    memory = random_picture(np.random.default_rng(count), 0xE7)
    columns = np.arange(count) * WIDTH // count
    whole, out = np.zeros(WIDTH, np.uint8), np.zeros(count, np.uint8)
    for y in range(0, HEIGHT, 16):
        draw_line(memory, y, COLUMNS, whole)
        draw_line(memory, y, columns, out)
        assert out.tolist() == whole[columns].tolist()


def test_the_video_ram_is_kept_as_it_is_when_the_last_line_is_drawn():
    memory = random_picture(np.random.default_rng(3), 0x93)
    assert (memory[SHOWN_VRAM : SHOWN_VRAM + 0x2000] == memory[VRAM : VRAM + 0x2000]).all()
