"""The compiled console: blargg's test ROMs, cartridges, timers, and PyBoy beside it."""

import os
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.errors import WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.gameboy.game_profile import find
from rookery.worlds.gameboy.kernel.header import cartridge_of
from rookery.worlds.gameboy.kernel.layout import FIRST
from rookery.worlds.gameboy.kernel.starts import power_on
from rookery.worlds.gameboy.kernel.world import GameBoyWorld
from rookery.worlds.gameboy.rom import COLOUR, ROMS

TEST_ROMS = os.environ.get("ROOKERY_TEST_ROMS", "build/roms")  # the files of retrio/gb-test-roms
pytestmark = pytest.mark.timeout(600)  # the first test compiles the console


def console(data, frames=60, name="rom"):
    """A game without an end, with the values of the game that comes with rookery: compiled code depends on what a
    profile lists, so that tests of consoles and of that game compile it once."""
    cartridge, game = cartridge_of(data, name), find("meadow").profile
    actions = game.actions.model_copy(update={"frame_skip": frames})
    episode = game.episode.model_copy(update={"length": 100_000_000, "end": []})
    profile = game.model_copy(update={"actions": actions, "episode": episode})
    return GameBoyWorld.of(profile, cartridge, [power_on(cartridge)])


def run(data, frames, each=60):
    """The memory of a console after so many frames."""
    envs = rookery.make_vec(console(data, each), 1, backend="kernel", workers=1)
    envs.reset(seed=1)
    for _ in range(frames // each):
        envs.step(np.zeros(1, np.int64))
    return envs.arena.memory[0].copy()


def text_on_screen(memory):
    """The tiles of the background, which are letters in these ROMs."""
    rows = memory[0x1800:0x1C00].reshape(32, 32)[:18, :20]
    lines = ["".join(chr(tile) if 32 <= tile < 127 else " " for tile in row).rstrip() for row in rows]
    return "\n".join(line for line in lines if line)


@pytest.mark.parametrize(
    ("file", "seconds", "expected"),
    [
        ("cpu_instrs/cpu_instrs.gb", 58, "Passed all tests"),
        ("instr_timing/instr_timing.gb", 5, "Passed"),
        ("mem_timing/mem_timing.gb", 5, "Passed all tests"),
        ("mem_timing-2/mem_timing.gb", 6, "Passed"),
        ("halt_bug.gb", 6, "Passed"),
        ("oam_bug/rom_singles/1-lcd_sync.gb", 5, "Passed"),
        # It is for a Game Boy Color, and its second half needs the double speed of one. The first half is right.
        ("interrupt_time/interrupt_time.gb", 5, "00 00 00\n00 08 0D"),
    ],
)
def test_blargg(file, seconds, expected):
    path = Path(TEST_ROMS) / file
    if not path.exists():
        pytest.skip(f"there is no {path}: set ROOKERY_TEST_ROMS to a copy of retrio/gb-test-roms")
    data = bytearray(path.read_bytes())
    data[COLOUR] = 0
    assert expected in text_on_screen(run(bytes(data), 60 * seconds))


def rom_with(program, kind=0, size=0, ram=0, fill=0x00):
    """A ROM whose program begins at 0150."""
    data = bytearray([fill] * (0x8000 << size))
    data[0x100:0x104] = [0x00, 0xC3, 0x50, 0x01]
    data[0x147:0x14A] = [kind, size, ram]
    for bank in range(2, 2 << size):
        data[bank * 0x4000] = bank & 0xFF
    data[0x150 : 0x150 + len(program)] = program
    return bytes(data)


STAY = [0x18, 0xFE]  # JR -2


def selecting(bank_writes):
    """Select a bank, and copy the first byte of 4000 to C000."""
    code = [byte for address, value in bank_writes for byte in (0x3E, value, 0xEA, address & 0xFF, address >> 8)]
    return [*code, 0xFA, 0x00, 0x40, 0xEA, 0x00, 0xC0, *STAY]


@pytest.mark.parametrize(
    ("kind", "size", "writes", "bank"),
    [
        (0x01, 4, [(0x2000, 7)], 7),
        (0x01, 4, [(0x2000, 0)], 0),  # bank 1, whose first byte is not set
        (0x01, 5, [(0x2000, 3), (0x4000, 1)], 35),
        (0x05, 3, [(0x2100, 9)], 9),
        (0x11, 6, [(0x2000, 77)], 77),
        (0x19, 7, [(0x2000, 200)], 200),
    ],
)
def test_banks_of_the_rom(kind, size, writes, bank):
    memory = run(rom_with(selecting(writes), kind, size), 2, each=2)
    assert memory[0xC000 - FIRST] == bank


def test_ram_of_a_cartridge_must_be_enabled():
    write = [0x3E, 0x42, 0xEA, 0x00, 0xA0]  # LD A,42; LD (A000),A
    enable = [0x3E, 0x0A, 0xEA, 0x00, 0x00]
    read_back = [0xFA, 0x00, 0xA0, 0xEA, 0x00, 0xC0, *STAY]
    assert run(rom_with([*write, *read_back], 0x03, 0, 2), 2, each=2)[0xC000 - FIRST] == 0xFF
    assert run(rom_with([*enable, *write, *read_back], 0x03, 0, 2), 2, each=2)[0xC000 - FIRST] == 0x42


def test_when_the_first_line_after_the_lcd_is_switched_on_ends():
    """112 cycles after the LCD was switched on, LY is read as 0, and one later as 1. (Each switch ends a frame.)"""
    code = []
    for waits, place in ((109, 0x00), (110, 0x01)):
        code += [0xAF, 0xE0, 0x40, 0x3E, 0x81, 0xE0, 0x40]  # off and on
        code += [*[0x00] * waits, 0xF0, 0x44, 0xEA, place, 0xC0]  # LDH A,(LY); LD (C000 + place),A
    assert run(rom_with([*code, *STAY]), 8, each=8)[0xC000 - FIRST : 0xC002 - FIRST].tolist() == [0, 1]


def test_a_cartridge_that_the_kernel_does_not_run_is_named():
    with pytest.raises(WorldError, match="Game Boy Color"):
        cartridge_of(bytes(0x143) + b"\xc0" + bytes(0x8000), "game.gbc")
    with pytest.raises(WorldError, match="kind of cartridge"):
        cartridge_of(rom_with([], 0xFC), "camera.gb")


def test_plain_python_and_compiled_code_agree_for_300_frames():
    data = (ROMS / "meadow.gb").read_bytes()
    compiled, plain = (KernelEnv(console(data, 4), plain=plain) for plain in (False, True))
    for env in (compiled, plain):
        env.reset(seed=1)
    rng = np.random.default_rng(0)
    for _ in range(75):
        action = int(rng.integers(6))
        assert np.array_equal(compiled.step(action)[0], plain.step(action)[0])
    first, second = compiled.get_state(), plain.get_state()
    assert np.array_equal(first["memory"], second["memory"])
    assert np.array_equal(first["states"], second["states"])
