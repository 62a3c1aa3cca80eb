"""ROMs and save states: found, checked, and refused in one clear sentence."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from rookery.errors import WorldError
from rookery.worlds.gameboy import profile, rom, states
from rookery.worlds.gameboy.emulator import Emulator
from worlds.gameboy.cartridges import folder
from worlds.gameboy.cartridges import rom as cartridge

WHOLE = cartridge()


def changed(at: int, value: int) -> bytes:
    data = bytearray(WHOLE)
    data[at] = value
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (cartridge("OTHER"), "this is 'OTHER', but the profile pacer is for 'PACER'"),
        (WHOLE[:0x4000], "cut short: 16384 of the 32768 bytes"),
        (WHOLE[:100], "is no Game Boy ROM: it has 100 bytes"),
        (b"", "is no Game Boy ROM: it has 0 bytes"),
        (WHOLE + bytes(0x4000), "16384 more than its header tells of"),
        (changed(0x14D, 1), "the checksum of its header is wrong"),
        (changed(0x5000, 1), "damaged or was changed"),
        (b"PK\3\4" + WHOLE, "is a zip archive"),
    ],
)
def test_a_wrong_rom(pacer, data, words):
    """Another game, a part of one, or a damaged one is told apart."""
    Path(pacer["rom"]).write_bytes(data)
    with pytest.raises(WorldError) as caught:
        rom.find_rom(profile.find(pacer["profile"]), pacer["rom"])
    assert words in str(caught.value)
    assert pacer["rom"] in str(caught.value)


def test_a_missing_rom(pacer):
    """The file that was named, and none named for a game that is not ours."""
    with pytest.raises(WorldError, match=r"none\.gb: the ROM cannot be read \(No such file"):
        rom.find_rom(profile.find(pacer["profile"]), "none.gb")
    with pytest.raises(
        WorldError, match=r"needs your own ROM of 'ZELDA DIN', which is neither shipped nor fetched: give"
    ):
        rom.find_rom(profile.find("oracle_of_seasons"))


def test_the_rom_folder_is_searched_by_title(pacer, tmp_path, monkeypatch):
    """One file with the title is taken; none or two are told."""
    found, roms = profile.find(pacer["profile"]), tmp_path / "roms"
    monkeypatch.setenv(rom.FOLDER, str(roms))
    with pytest.raises(WorldError, match="is no folder"):
        rom.find_rom(found)
    roms.mkdir()
    (roms / "notes.gb").write_text("short")
    (roms / "other.gb").write_bytes(cartridge("OTHER"))
    with pytest.raises(WorldError, match=r"no \.gb or \.gbc file in .* has that title"):
        rom.find_rom(found)
    (roms / "Mine.GB").write_bytes(WHOLE)
    assert rom.find_rom(found).origin.endswith("Mine.GB")
    (roms / "again.gbc").write_bytes(WHOLE)
    with pytest.raises(WorldError, match=r"2 files in .* have the title 'PACER': Mine.GB, again.gbc; give rom=PATH"):
        rom.find_rom(found)


def test_listed_checksums_decide(pacer):
    """A version that the profile lists is taken, even if its own checksum is wrong; another is not."""
    path, data = Path(pacer["profile"]), changed(0x5000, 1)
    Path(pacer["rom"]).write_bytes(data)
    listed = f'title = "PACER"\nsha1 = ["{hashlib.sha1(data).hexdigest().upper()}"]'
    path.write_text(path.read_text().replace('title = "PACER"', listed))
    assert rom.find_rom(profile.find(path), pacer["rom"]).data == data
    Path(pacer["rom"]).write_bytes(WHOLE)
    with pytest.raises(WorldError, match="not a version that the profile pacer lists: its SHA-256 is"):
        rom.find_rom(profile.find(path), pacer["rom"])


# --- save states ----------------------------------------------------------------------------------------------------


@pytest.fixture
def emulator(pacer):
    machine = Emulator(rom.find_rom(profile.find(pacer["profile"]), pacer["rom"]))
    yield machine
    machine.close()


def test_a_state_comes_back(emulator):
    """Packed or as PyBoy writes it."""
    emulator.run(30, ["right"])
    state = emulator.save()
    packed = states.pack(state, emulator.rom)
    assert len(packed) < len(state) / 10
    assert states.unpack(packed, emulator, "x") == states.unpack(state, emulator, "x") == state


def test_a_wrong_state(emulator, tmp_path):
    """Of another game, of another PyBoy, cut short, damaged, or no state at all."""
    state = emulator.save()
    packed = states.pack(state, emulator.rom)
    other = rom.Rom(cartridge("OTHER"), "other.gb")
    flipped = bytearray(packed)
    flipped[-1] ^= 1
    wrong = {
        "of another game or version of it: of 'OTHER'": states.pack(state, other),
        "of another version of PyBoy, or is none at all: it holds format 9": bytes([9]) + state[1:],
        "cut short, or of another game: it has 1000 bytes": state[:1000],
        "damaged or cut short": packed[:-10],
        "is damaged": bytes(flipped),
        "it holds nothing": b"",
    }
    for words, data in wrong.items():
        with pytest.raises(WorldError) as caught:
            states.unpack(data, emulator, "my.state")
        assert words in str(caught.value)
        assert str(caught.value).startswith("my.state: ")


def test_states_of_a_cartridge_with_more_memory_have_another_size(emulator):
    """So a bare state of it is refused, though it names no game."""
    large = Emulator(rom.Rom(cartridge(cartridge=0x13, memory=3), "large.gb"))
    with pytest.raises(WorldError, match="or of another game"):
        states.unpack(large.save(), emulator, "large.state")
    large.close()


def test_episodes_start_from_the_profiles_files(emulator, tmp_path):
    """One or many of them, by name or pattern, from the profile's own folder."""
    for name, frames in (("near", 10), ("far", 40)):
        emulator.run(100)
        emulator.run(frames, ["right"])
        (tmp_path / f"{name}.state").write_bytes(states.pack(emulator.save(), emulator.rom))
    for files, count in ((["near.state"], 1), (["*.state"], 2)):
        pattern = profile.find(folder(tmp_path)["profile"])
        text = pattern.path.read_text().replace('boot = ["nothing 100"]', f"files = {files}".replace("'", '"'))
        pattern.path.write_text(text)
        assert len(states.start_states(profile.find(pattern.path), emulator.rom)) == count


@pytest.mark.parametrize(("file", "words"), [("none.state", "cannot be read"), ("*.sav", "no file matches '\\*.sav'")])
def test_files_that_are_not_there(emulator, tmp_path, file, words):
    """The file or the pattern is named."""
    path = tmp_path / "pacer.toml"
    path.write_text(path.read_text().replace('boot = ["nothing 100"]', f'files = ["{file}"]'))
    with pytest.raises(WorldError, match=words):
        states.start_states(profile.find(path), emulator.rom)
