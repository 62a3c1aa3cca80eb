"""ROMs and save states: found, checked, and refused in one clear sentence."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from rookery.errors import WorldError
from rookery.worlds.gameboy import game_profile, rom, states
from rookery.worlds.gameboy.emulator import Emulator
from worlds.gameboy.cartridges import PROFILE, folder, patched
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
        (cartridge("OTHER"), ": use profile=FILE.toml, which `rookery gameboy explore --rom` writes for a new game"),
        (cartridge("ZELDA DIN"), "is for 'PACER': use profile=oracle_of_seasons"),
        (WHOLE[:0x4000], "truncated: it has 16384 of the 32768 bytes"),
        (WHOLE[:100], "is not a Game Boy ROM: it has 100 bytes"),
        (b"", "is not a Game Boy ROM: it has 0 bytes"),
        (WHOLE + bytes(0x4000), "16384 more than given in its header"),
        (changed(0x14D, 1), "the checksum of its header is wrong"),
        (changed(0x5000, 1), "damaged or modified"),
        (b"PK\3\4" + WHOLE, "is a zip archive"),
        (gzip.compress(WHOLE), "is a gzip archive; extract the ROM from it"),
        (b"7z\xbc\xaf\x27\x1c" + WHOLE, "is a 7z archive"),
        (b"Rar!\x1a\x07" + WHOLE, "is a rar archive"),
        (patched((0x148, "52")), "unknown code of the size (82)"),
        (patched((0x149, "09"), cartridge=0x13), "unknown code of the RAM (9)"),
    ],
)
def test_a_wrong_rom(pacer, data, words):
    """Another game, a part of one, or a damaged one is told apart."""
    Path(pacer["rom"]).write_bytes(data)
    with pytest.raises(WorldError) as caught:
        rom.find_rom(game_profile.find(pacer["profile"]), pacer["rom"])
    assert words in str(caught.value)
    assert pacer["rom"] in str(caught.value)


def test_a_missing_rom(pacer):
    """The file that was named, and none named for a game that is not ours."""
    with pytest.raises(WorldError, match=r"none\.gb: the ROM cannot be read \(there is no such file in /"):
        rom.find_rom(game_profile.find(pacer["profile"]), "none.gb")
    with pytest.raises(
        WorldError, match=r"needs your own ROM of 'ZELDA DIN', which is neither shipped nor downloaded: give"
    ):
        rom.find_rom(game_profile.find("oracle_of_seasons"))


def test_the_rom_folder_is_searched_by_title(pacer, tmp_path, monkeypatch):
    """One file with the title is taken; none or two are told."""
    found, roms = game_profile.find(pacer["profile"]), tmp_path / "roms"
    monkeypatch.setenv(rom.FOLDER, str(roms))
    with pytest.raises(WorldError, match="is not a folder"):
        rom.find_rom(found)
    roms.mkdir()
    (roms / "notes.gb").write_text("short")
    (roms / "other.gb").write_bytes(cartridge("OTHER"))
    with pytest.raises(WorldError, match=r"no \.gb or \.gbc file in .* has that title"):
        rom.find_rom(found)
    (roms / "Mine.GB").write_bytes(WHOLE)
    assert rom.find_rom(found).origin.endswith("Mine.GB")
    (roms / "copy.gb").write_bytes(WHOLE)
    assert rom.find_rom(found).data == WHOLE
    other = patched((0x5000, "01"))
    (roms / "other").mkdir()
    (roms / "other" / "Mine.GB").write_bytes(other)
    with pytest.raises(
        WorldError, match=r"2 files in .* have the title 'PACER': Mine.GB, other/Mine.GB; choose one with"
    ):
        rom.find_rom(found)
    listed = f'title = "PACER"\nsha256 = ["{hashlib.sha256(other).hexdigest()}"]'
    found.path.write_text(found.path.read_text().replace('title = "PACER"', listed))
    assert rom.find_rom(game_profile.find(found.path)).data == other
    (roms / "other" / "Mine.GB").unlink()
    with pytest.raises(WorldError, match="not a version that the profile pacer lists"):
        rom.find_rom(game_profile.find(found.path))


def test_our_own_game_is_not_played_under_another_title(pacer):
    """Nor is a file taken for it because of its name."""
    path = Path(pacer["profile"])
    path.write_text(path.read_text().replace('title = "PACER"', 'title = "PACER"\nbuilt_in = "meadow"'))
    with pytest.raises(WorldError, match="meadow: this is 'MEADOW', but the profile pacer is for 'PACER'"):
        rom.find_rom(game_profile.find(path))
    assert not rom.Rom(WHOLE, "meadow").built_in and rom.find_rom(game_profile.find("meadow")).built_in


def test_paths_of_all_kinds(pacer, tmp_path):
    """Spaces and umlauts are not matter; a folder, a link in a circle and rubbish are told of."""
    found, place = game_profile.find(pacer["profile"]), tmp_path / "Große Spiele [alt]"
    place.mkdir()
    (place / "mein Spiel.gb").write_bytes(WHOLE)
    assert rom.find_rom(found, place / "mein Spiel.gb").data == WHOLE
    (place / "round.gb").symlink_to(place / "round.gb")
    for path in (place, place / "round.gb", "a\0b"):
        with pytest.raises(WorldError, match="the ROM cannot be read"):
            rom.find_rom(found, path)


def test_listed_checksums_decide(pacer):
    """A version that the profile lists is taken, even if its own checksum is wrong; another is not."""
    path, data = Path(pacer["profile"]), changed(0x5000, 1)
    Path(pacer["rom"]).write_bytes(data)
    listed = f'title = "PACER"\nsha1 = ["{hashlib.sha1(data).hexdigest().upper()}"]'
    path.write_text(path.read_text().replace('title = "PACER"', listed))
    assert rom.find_rom(game_profile.find(path), pacer["rom"]).data == data
    Path(pacer["rom"]).write_bytes(WHOLE)
    with pytest.raises(WorldError, match="not a version that the profile pacer lists: its SHA-256 is"):
        rom.find_rom(game_profile.find(path), pacer["rom"])


# --- save states ----------------------------------------------------------------------------------------------------


@pytest.fixture
def emulator(pacer):
    machine = Emulator(rom.find_rom(game_profile.find(pacer["profile"]), pacer["rom"]))
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
        "of another game, or another version of it: of 'OTHER'": states.pack(state, other),
        "or one of another version of PyBoy: it holds format 9": bytes([9]) + state[1:],
        "truncated, or of another game: it has 1000 bytes": state[:1000],
        "damaged or truncated": packed[:-10],
        "is damaged": bytes(flipped),
        "it holds nothing": b"",
    }
    for words, data in wrong.items():
        with pytest.raises(WorldError) as caught:
            states.unpack(data, emulator, "my.state")
        assert words in str(caught.value)
        assert str(caught.value).startswith("my.state: ")


def test_states_of_a_cartridge_with_more_memory_have_another_size(emulator):
    """So a bare state of it is rejected, though it names no game."""
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
        pattern = game_profile.find(folder(tmp_path)["profile"])
        text = pattern.path.read_text().replace('boot = ["nothing 100"]', f"files = {files}".replace("'", '"'))
        pattern.path.write_text(text)
        assert len(states.start_states(game_profile.find(pattern.path), emulator.rom)) == count


def test_states_can_be_anywhere(emulator, tmp_path):
    """By whole paths and patterns of them, whatever signs are in the folder's name."""
    place = tmp_path / "alt [1]"
    place.mkdir()
    (place / "one.state").write_bytes(states.pack(emulator.save(), emulator.rom))
    for pattern in (f"{tmp_path}/*/one.state", f"{place}/one.state", "**/*.state"):
        path = tmp_path / "pacer.toml"
        path.write_text(cartridge_profile(f'files = ["{pattern}"]'))
        assert len(states.start_states(game_profile.find(path), emulator.rom)) == 1
    within = place / "pacer.toml"
    within.write_text(cartridge_profile('files = ["*.state"]'))
    assert len(states.start_states(game_profile.find(within), emulator.rom)) == 1


def cartridge_profile(start: str) -> str:
    return PROFILE.format(title="PACER", boot="[]").replace("boot = []", start)


BANKED = {"cartridge": 0x1B, "memory": 3}
FAR_BANK = patched((0x150, "3E01EA0030 3EFFEA0020 C30040"), (0x1FF * 0x4000, "C30040"), size=8, **BANKED)
STANDS_STILL = patched(
    (0x150, "C30002"), (0x200, "18FE")
)  # and where it stands, the other game has an instruction less


def states_of_another_game(folder, ours, theirs):
    """The states of a profile in `folder` for our game, after a state of the other was put there."""
    other = Emulator(rom.Rom(theirs, "theirs.gb"))
    other.run(150)
    (folder / "a.state").write_bytes(other.save())
    other.close()
    path = folder / "pacer.toml"
    path.write_text(cartridge_profile('files = ["a.state"]'))
    return states.start_states(game_profile.find(path), rom.Rom(ours, "ours.gb"))


@pytest.mark.slow
def test_a_state_in_which_our_game_stands_still(tmp_path, monkeypatch):
    """It has the right size and names no game; it is told of, and does not hang this process."""
    monkeypatch.setattr(states, "SECONDS", 5.0)
    with pytest.raises(WorldError) as caught:
        states_of_another_game(tmp_path, patched((0x200, "D3D3")), STANDS_STILL)
    assert str(caught.value).startswith(f"{tmp_path}/a.state: the save state is probably of another game than 'PACER'")
    assert "the game hangs" in str(caught.value)


@pytest.mark.slow
def test_a_state_in_a_bank_that_our_game_has_not(tmp_path):
    """PyBoy then reads whatever lies beyond the game in memory: mostly it crashes, which is reported; if there is
    something to be read, the state is taken. This process goes on in any case."""
    told = ""
    try:
        taken = states_of_another_game(tmp_path, patched(size=1, **BANKED), FAR_BANK)
    except WorldError as error:
        told = str(error)
    assert "PyBoy crashes (SIGSEGV)" in told if told else len(taken) == 1


@pytest.mark.slow
def test_a_state_of_this_game_that_pyboy_wrote(emulator, tmp_path):
    """It is taken; of several, the one that is wrong is named."""
    emulator.run(130)
    bare = emulator.save()
    assert states.take({"a": bare, "b": states.pack(bare, emulator.rom), "c": bare}, emulator) == [bare] * 3
    mixed = bare[:1] + bytes(len(bare) - 1)
    with pytest.raises(WorldError, match=r"^b: .*Samples per frame"):
        states.take({"a": bare, "b": mixed, "c": bare}, emulator)


@pytest.mark.parametrize(("file", "words"), [("none.state", "cannot be read"), ("*.sav", "no file matches '\\*.sav'")])
def test_files_that_are_not_there(emulator, tmp_path, file, words):
    """The file or the pattern is named."""
    path = tmp_path / "pacer.toml"
    path.write_text(path.read_text().replace('boot = ["nothing 100"]', f'files = ["{file}"]'))
    with pytest.raises(WorldError, match=words):
        states.start_states(game_profile.find(path), emulator.rom)
