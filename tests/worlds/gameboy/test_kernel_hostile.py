"""Broken and hostile ROMs on the compiled console: no crash, no endless step."""

import numpy as np
import pytest
from tests.worlds.gameboy.test_kernel_console import STAY, console, rom_with, run

import rookery
from rookery.errors import WorldError
from rookery.worlds.gameboy.kernel.header import KINDS, cartridge_of
from rookery.worlds.gameboy.kernel.layout import FIRST
from rookery.worlds.gameboy.rom import ROMS

FRAMES = 8
OURS = (ROMS / "meadow.gb").read_bytes()
pytestmark = pytest.mark.timeout(600)  # the first test compiles the console


def random_bytes(rng):
    data = rng.integers(0, 256, 0x8000 << int(rng.integers(0, 3)), np.uint8)
    data[0x143], data[0x147], data[0x149] = 0, rng.choice(list(KINDS)), rng.integers(6)
    return data.tobytes()


def cut(rng):
    return OURS[: int(rng.integers(0, len(OURS)))]


def lying(rng):
    """Our game with another header: more banks than there are, RAM that is not there."""
    data = bytearray(OURS)
    data[0x143:0x14A] = rng.integers(0, 256, 7, np.uint8).tobytes()
    data[0x147], data[0x149] = int(rng.choice(list(KINDS))), int(rng.integers(8))
    return bytes(data)


def random_programs(rng):
    """Random instructions with interrupts, the timer and STAT interrupts on."""
    setup = [0x3E, 0xFF, 0xE0, 0xFF, 0x3E, 0x07, 0xE0, 0x07, 0x3E, 0x78, 0xE0, 0x41, 0xFB]
    return rom_with(
        [*setup, *rng.integers(0, 256, 400).tolist()], int(rng.choice(list(KINDS))), 0, int(rng.integers(6))
    )


def outcome(data):
    """The sentence with which a ROM is refused; none if it runs."""
    try:
        run(data, FRAMES, FRAMES)
    except WorldError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(250, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [random_bytes, cut, lying, random_programs])
def test_a_hostile_rom_runs_or_is_refused(make, count):
    rng = np.random.default_rng(7)
    told = [outcome(make(rng)) for _ in range(count)]
    assert all("\n" not in text for text in told)
    assert told.count("") > count // 10


@pytest.mark.parametrize(
    "program",
    [
        STAY,
        [0xF3, 0x76, *STAY],  # DI, HALT: nothing ever wakes it
        [0x10, 0x00, *STAY],  # STOP
        [0xD3],  # there is no such instruction
        [0x31, 0x00, 0x00, 0xC7],  # RST 0 for ever: the stack runs through everything
        [0x3E, 0x00, 0xE0, 0x40, 0x3E, 0x80, 0xE0, 0x40, 0x18, 0xF6],  # the LCD off and on for ever
        [0x3E, 0xC0, 0xE0, 0x46, 0x18, 0xFC],  # OAM DMA for ever
    ],
)
def test_an_endless_program_ends_its_frames(program):
    envs = rookery.make_vec(console(rom_with(program), FRAMES), 1, backend="kernel", workers=1)
    envs.reset(seed=1)
    for _ in range(20):
        envs.step(np.zeros(1, np.int64))
    assert envs.arena.states["frames"][0] == 20 * FRAMES


def test_the_largest_rom_is_read_in_all_its_banks():
    select_last = [0x3E, 0xFF, 0xEA, 0x00, 0x20, 0x3E, 0x01, 0xEA, 0x00, 0x30]
    program = [*select_last, 0xFA, 0x00, 0x40, 0xEA, 0x00, 0xC0, *STAY]
    assert run(rom_with(program, 0x19, 8), 2, 2)[0xC000 - FIRST] == 511 & 0xFF
    with pytest.raises(WorldError, match="8 MiB"):
        cartridge_of(bytes(9 << 20), "huge.gb")
