"""Exploring a game: searching its memory, naming what was found, and the files of it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from rookery.apps.memory_explorer import explorer_files
from rookery.apps.memory_explorer.explorer_commands import Commands, Quit, follow
from rookery.apps.memory_explorer.explorer_files import Store
from rookery.apps.memory_explorer.session import Search
from rookery.errors import OptionError, RookeryError, WorldError
from rookery.worlds.gameboy import game_profile as profiles
from rookery.worlds.gameboy.env import GameBoyEnv
from rookery.worlds.gameboy.profile_schema import MemoryValue
from rookery.worlds.gameboy.rom import built_in_rom
from worlds.gameboy.cartridges import patched

HEARTS, MODE, X = 0xC0A5, 0xC0A6, 0xC0A0
SHOWN_ITEMS = 0xC0B8  # what the panel shows of the hearts
PLAYER, ROOM, WALKER = 0xC0A0, 0xC0A2, 0xC0A7


@pytest.fixture(scope="module")
def started():
    """The state of our own game when the machine has started."""
    with explorer_files.open_session(explorer_files.choose(profile="none")) as session:
        session.play(150)
        return session.save()


@pytest.fixture
def exploring(tmp_path, started):
    """Our own game, nothing of which is known."""
    with explorer_files.open_session(explorer_files.choose(profile="none")) as session:
        session.load(started, "started")
        yield Commands(session, Store(tmp_path / "states"))


@pytest.fixture
def knowing(tmp_path):
    """Our own game with its profile."""
    chosen = explorer_files.choose()
    with explorer_files.open_session(chosen) as session:
        yield Commands(session, Store(tmp_path / "states", chosen.found))


def be_hurt(session):
    """Let the walker stand where the player is."""
    x, y, room = session.peek(PLAYER, 3)
    for at, value in zip(range(WALKER, WALKER + 3), (x, y, room), strict=True):
        session.poke(at, value)
    hearts = session.peek(HEARTS)[0]
    for _ in range(120):
        session.play(1)
        if session.peek(HEARTS)[0] < hearts:
            return
    pytest.fail("the walker did not hurt")


# --- search -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("changed", [1, 2, 3, 4]), ("same", [0]), ("unchanged", [0]), ("up", [1, 4]), ("up 1", [1]), ("down", [2, 3]),
        ("down 2", [3]), ("= 4", [1]), ("equal 4", [1]), ("== 0x04", [1]), ("!= $04", [0, 2, 3, 4]), ("< 3", [2, 3]),
        ("> 200", [4]), (">= 4", [1, 4]), ("<=2", [2, 3]), ("changed 2", [3]),
    ],
)  # fmt: skip
def test_what_can_be_asked_of_a_byte(words, left):
    """Bytes are compared with the mark as numbers from 0 to 255, never around the corner."""
    search = Search(np.array([3, 3, 3, 3, 0], np.uint8))
    search.note(np.array([0, 1, 1, 1, 1], bool))
    search.note(np.array([0, 0, 0, 1, 0], bool))
    search.narrow(words, np.array([3, 4, 2, 1, 255], np.uint8))
    assert np.flatnonzero(search.left).tolist() == left


def test_each_diff_compares_with_the_one_before_and_can_be_taken_back():
    search = Search(np.array([5, 5, 5], np.uint8))
    search.narrow("up", np.array([6, 6, 5], np.uint8))
    search.narrow("same", np.array([6, 7, 5], np.uint8))
    assert np.flatnonzero(search.left).tolist() == [0]
    search.undo()
    assert np.flatnonzero(search.left).tolist() == [0, 1]
    search.undo()
    assert search.count == 3
    with pytest.raises(OptionError, match="no diff to undo"):
        search.undo()


@pytest.mark.parametrize(
    ("words", "why"),
    [("chnged", "use changed, same"), ("= ", "= needs a number"), ("= three", "not a number"), ("same 3", "= 3")],
)
def test_what_cannot_be_asked(words, why):
    search = Search(np.zeros(3, np.uint8))
    with pytest.raises(OptionError, match=why):
        search.narrow(words, np.ones(3, np.uint8))
    assert search.count == 3 and not search.begun


def test_the_hearts_are_found_by_losing_some(exploring):
    """The story of the docs: nothing happens, a heart is lost, nothing happens, another is lost."""
    session = exploring.session
    exploring.do("new")
    for _ in range(2):
        session.play(30)
        exploring.do("diff same")
        be_hurt(session)
        exploring.do("diff down 1")
        session.play(70)
        exploring.do("mark")
    assert [at for at, _, _ in session.candidates(99)] == [HEARTS]
    assert exploring.do("list")[0] == "1 of 8,319 bytes left"


WALK_THROUGH = """
    wait*120; right*180; down*85; save above_walker
    new; wait*60; diff same
    down*24; wait*120; up*24; diff down
    left*8; right*8; diff same
"""


def test_the_walk_through_of_the_docs(tmp_path):
    """If this fails because the meadow was changed, the docs must be too."""
    with explorer_files.open_session(explorer_files.choose(profile="none")) as session:
        commands = Commands(session, Store(tmp_path / "states"))
        follow(commands, [WALK_THROUGH], io.StringIO())
        assert [at for at, _, _ in session.candidates(9)] == [HEARTS, SHOWN_ITEMS]


def test_where_the_player_is_is_found_by_walking(exploring):
    for line in ("mark", "right*12", "diff up 12", "left*7", "diff down 7"):
        exploring.do(line)
    assert X in [at for at, _, _ in exploring.session.candidates(9)]


def test_what_changed_lately_begins_with_what_seldom_does(exploring):
    session = exploring.session
    session.play(200)
    be_hurt(session)
    told = [at for at, _, _ in session.lately(200)]
    counter = 0xC0AE
    assert told.index(HEARTS) < told.index(counter)
    session.poke(WALKER + 2, 0xFF)  # in no room at all
    session.play(130)
    assert HEARTS not in [at for at, _, _ in session.lately(200)]


# --- names and values ---------------------------------------------------------------------------------------------


def test_a_value_is_named_read_and_changed(exploring):
    session = exploring.session
    assert exploring.do("watch C0A5 hearts") == ["hearts is C0A5, now 3"]
    assert exploring.do("poke C0A5 2") == ["C0A5 is 2 now"]
    session.play(1)
    assert exploring.do("values") == ["  hearts         C0A5     2"]
    named = session.watched["hearts"]
    assert (named.low, named.high) == (2, 3)
    assert exploring.do("unwatch hearts") == ["hearts is no longer watched"]
    assert session.findings == []


def test_a_value_of_several_bytes(exploring):
    exploring.do("poke C0F0 0x41")
    exploring.do("poke C0F1 0x03")
    exploring.do("watch 0xC0F0 rupees size=2 bcd")
    assert exploring.session.watched["rupees"].now == 341
    exploring.do("watch C0F0 low bits=0x0F")
    assert exploring.session.watched["low"].now == 1
    assert exploring.session.name_of(0xC0F1) == "rupees"


def test_giving_an_address_a_better_name(exploring):
    exploring.do("watch C0A5")
    exploring.do("watch C0A5 hearts")
    assert list(exploring.session.watched) == ["hearts"]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("watch", "watch needs an address"),
        ("watch hearts", "'hearts' is not an address"),
        ("watch C0A5 3hearts", "not a name for a value"),
        ("watch C0A5 hearts lives", "watch takes one name"),
        ("watch C0A5 hearts size=9", "cannot be watched"),
        ("watch C0A5 hearts colour=2", "not an option of a value"),
        ("watch E0A5 hearts", "echo of C0A5"),
        ("watch C0A0 mode", "mode is C0A6 already"),
        ("unwatch hearts", "not watched; there are mode"),
        ("poke 0100 3", "cannot be changed"),
        ("poke C0A5 300", "from 0 to 255"),
        ("peek FFFF 2", "2 bytes cannot be shown from FFFF: memory ends at FFFF"),
        ("peek C000 0", "0 bytes cannot be shown"),
        ("list -5", "should be an integer >= 1"),
        ("lately 0", "should be an integer >= 1"),
        ("watch C0A5 and", "not a name for a value"),
        ("watch C0A5 is_success", "and not and, is_success"),
        ("watch C0A5 höhe", "letters from a to z"),
        ("watch C0A5 hearts size=7", "size should be less than or equal to 4"),
        ("save .", "not a name for a state"),
        ("save /", "not a name for a state"),
        ("save a\0b", "not a name for a state"),
        ("rihgt*20", "did you mean right?"),
        ("diff", "diff needs a filter"),
        ("dance", "use the buttons"),
        ("right*0", "held for 1 to"),
        ("right*99999", "held for 1 to"),
        ("mark! now", "to replace a file"),
        ("load", "there is no saved state"),
        ("start 3", "the profile has none"),
        ("write", "needs a file"),
        ("write game.txt", "should end in .toml"),
        ("shot game.txt", "should end in .png"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(exploring, tmp_path, monkeypatch, line, why):
    monkeypatch.chdir(tmp_path)
    exploring.do("watch C0A6 mode")
    frame = exploring.session.frame
    with pytest.raises(RookeryError, match=why):
        exploring.do(line)
    assert exploring.session.frame == frame
    assert list(exploring.session.watched) == ["mode"]
    assert not list(tmp_path.iterdir())


def test_every_word_of_the_help_is_one(exploring, tmp_path):
    for line in exploring.do("help")[1:]:
        word = line.split()[0]
        if word != "quit":
            assert callable(getattr(exploring, f"_{word}"))
    with pytest.raises(Quit):
        exploring.do("quit")
    assert len(exploring.do("screen")) == 36
    assert exploring.do("# a remark") == exploring.do("  ") == []


# --- states -------------------------------------------------------------------------------------------------------


def test_a_moment_is_saved_and_found_again(exploring):
    session = exploring.session
    exploring.do("save here")
    memory, screen = session.peek(0xC000, 0x2000), session.screen
    exploring.do("right*30")
    assert session.peek(0xC000, 0x2000) != memory
    exploring.do("load here")
    assert session.peek(0xC000, 0x2000) == memory
    assert (session.screen == screen).all()
    exploring.do("save")
    exploring.do("save")
    assert exploring.store.states() == ["here", "moment-1", "moment-2"]
    assert exploring.do("states")[0] == f"3 in {exploring.store.folder}"
    exploring.do("load")  # the latest


def test_a_saved_moment_is_not_replaced_unasked(exploring):
    exploring.do("save here")
    first = (exploring.store.folder / "here.state").read_bytes()
    exploring.do("right*9")
    with pytest.raises(OptionError, match=r"`save! here\.state` replaces it"):
        exploring.do("save here")
    assert (exploring.store.folder / "here.state").read_bytes() == first
    exploring.do("save! here")
    assert (exploring.store.folder / "here.state").read_bytes() != first
    assert [file.name for file in exploring.store.folder.iterdir()] == ["here.state"]


def test_what_is_no_state_is_refused(exploring):
    exploring.do("save here")
    path = exploring.store.folder / "here.state"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(WorldError, match="damaged or truncated"):
        exploring.do("load here")
    with pytest.raises(WorldError, match=r"cannot be read .*saved are: here"):
        exploring.do("load there")


@pytest.mark.slow
def test_a_state_of_another_game_does_not_end_the_session(exploring, tmp_path):
    """PyBoy's own states name no game: one that it would not survive is rejected, and the game goes on."""
    session = exploring.session
    state = session.emulator.save()
    (tmp_path / "bare.state").write_bytes(state)
    exploring.do(f"load {tmp_path / 'bare'}")
    (tmp_path / "bare.state").write_bytes(state[:1] + bytes(len(state) - 1))
    with pytest.raises(WorldError, match="probably of another game than 'MEADOW'"):
        exploring.do(f"load {tmp_path / 'bare'}")
    frame = session.frame
    exploring.do("wait*5")
    assert session.frame == frame + 5


def test_numbers_as_people_write_them(exploring):
    assert exploring.do("poke C0A5 03") == exploring.do("poke C0A5 $3") == ["C0A5 is 3 now"]


def test_the_profile_s_start_states_and_power_on(knowing):
    session = knowing.session
    assert len(session.starts) > 1
    knowing.do("start 1")
    second = session.peek(PLAYER, 2)
    knowing.do("start")
    assert session.peek(PLAYER, 2) != second
    knowing.do("reset")
    assert session.peek(HEARTS) == [0]


# --- profiles -----------------------------------------------------------------------------------------------------


def test_findings_become_a_profile_that_can_be_trained_in(exploring, tmp_path):
    exploring.do("watch C0A5 hearts")
    exploring.do("watch C0A0 x")
    exploring.do("save begin")
    told = exploring.do(f"write {tmp_path / 'mine.toml'}")
    assert told == [f"{tmp_path / 'mine.toml'}: a new profile with hearts, x"]
    found = profiles.find(tmp_path / "mine.toml")
    assert found.profile.memory == {"hearts": MemoryValue(address=HEARTS), "x": MemoryValue(address=X)}
    assert found.profile.start.files == ["states/begin.state"]
    env = GameBoyEnv(profile=str(tmp_path / "mine.toml"))
    observation, info = env.reset(seed=1)
    assert observation.shape == (2,) and info["hearts"] == 3
    env.close()


def test_a_profile_of_another_s_rom_names_it_by_its_checksum(tmp_path):

    file = tmp_path / "game.gb"
    file.write_bytes(built_in_rom("meadow").data)
    chosen = explorer_files.choose(rom=str(file), profile="none")
    with explorer_files.open_session(chosen) as session:
        Store(tmp_path).write_profile(str(tmp_path / "game.toml"), chosen.rom, session.findings)
    game = profiles.find(tmp_path / "game.toml").profile.game
    assert (game.title, game.sha256, game.built_in) == ("MEADOW", [chosen.rom.sha256], None)


@pytest.mark.few(1)
@pytest.mark.parametrize("title", ["", "A\x01B", "A\x7fB", 'A"B\\', "A\xfcB"])
def test_a_rom_with_a_strange_title_or_none(tmp_path, title):
    """Homebrew has such; its profile is written, fits it, and does so too where the file is called as our own game."""
    raw = title.encode("latin-1").ljust(8, b"\0")
    (tmp_path / "meadow").write_bytes(patched((0x134, raw.hex())))
    rom = str(tmp_path / "meadow")
    assert run_script("wait*120; watch C002 x; write mine.toml", tmp_path, rom)[-1].endswith("a new profile with x")
    env = GameBoyEnv(str(tmp_path / "mine.toml"), rom=rom)
    assert env.profile.game.built_in is None and env.reset(seed=1)[1] == {"x": 0}
    env.close()


def run_script(script, folder, rom=None, profile=None):
    out, before = io.StringIO(), os.getcwd()
    os.chdir(folder)
    try:
        chosen = explorer_files.choose(rom and os.path.basename(rom), profile)
        with explorer_files.open_session(chosen) as session:
            follow(Commands(session, Store(Path("states"), chosen.found)), [script], out)
    finally:
        os.chdir(before)
    return out.getvalue().splitlines()


def test_a_copy_in_another_folder_starts_from_the_same_states(tmp_path):
    """Paths in a profile are from its own folder."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    run_script("wait*150; save one; watch C0A5 hearts; write mine.toml", here, profile="none")
    with_more = run_script("watch C0A0 x; write ../there/copy.toml", here, profile="mine.toml")
    assert with_more[-1].endswith("a copy of mine with x added")
    assert profiles.find(there / "copy.toml").profile.start.files == ["../here/states/one.state"]
    env = GameBoyEnv(str(there / "copy.toml"))
    assert env.reset(seed=1)[1] == {"hearts": 3}
    env.close()


def test_findings_are_added_to_a_profile_and_the_rest_stays(knowing, tmp_path):
    path = tmp_path / "mine.toml"
    knowing.do("watch C0AE frames")
    assert knowing.do(f"write {path}") == [f"{path}: a copy of meadow with frames added"]
    before = path.read_text()
    assert before.splitlines()[0] == profiles.find("meadow").path.read_text().splitlines()[0], "remarks are kept"
    knowing.do("watch C0B1 hurt")
    assert knowing.do(f"write {path}") == [f"{path}: added hurt to its [memory]; the rest is unchanged"]
    added = [line for line in path.read_text().splitlines() if line not in before.splitlines()]
    assert added == ["hurt = { address = 0xC0B1 }  # seen from 0 to 0"]
    assert [line for line in path.read_text().splitlines() if line not in added] == before.splitlines()
    assert "hurt" in profiles.find(path).profile.memory
    assert knowing.do(f"write {path}") == [f"{path}: nothing to add, it has frames, hurt"]


GAME = '[game]\ntitle = "MEADOW"\n'
OTHERS = '[actions]\nbuttons = ["a"]\n[observation]\nkind = "pixels"\n'


@pytest.mark.parametrize(
    "text",
    [
        GAME + OTHERS,
        (GAME + "[memory]\n" + OTHERS).rstrip(),
        "[memory]  # all of it\nx = { address = 0xC0A0 }\n# more\n\n" + GAME + OTHERS,
        GAME + "[memory.x]\naddress = 0xC0A0\n" + OTHERS,
    ],
)
def test_profiles_of_all_kinds_can_be_added_to(exploring, tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    exploring.do("watch C0A5 hearts")
    exploring.do(f"write {path}")
    assert profiles.find(path).profile.memory["hearts"].address == HEARTS
    kept = path.read_text().splitlines()
    assert all(line in kept for line in text.splitlines())


def test_a_profile_is_never_changed_for_the_worse(exploring, tmp_path):
    path = tmp_path / "mine.toml"
    exploring.do("watch C0A5 hearts")
    for text, why in (
        (GAME + OTHERS + "[memory]\nhearts = { address = 0xC0A6 }\n", "hearts already exists, at C0A6"),
        ("memory = { x = { address = 0xC0A0 } }\n" + GAME + OTHERS, "written in an unusual way.*\nhearts = "),
        ("[game]\n", "title"),
    ):
        path.write_text(text)
        with pytest.raises(RookeryError, match=why):
            exploring.do(f"write {path}")
        assert path.read_text() == text
    exploring.do(f"write! {path}")
    assert list(profiles.find(path).profile.memory) == ["hearts"]


# --- scripts and games --------------------------------------------------------------------------------------------


def test_a_script_tells_each_command_with_its_answer(exploring):
    out = io.StringIO()
    follow(exploring, ["mark; right*4\n", "peek C0A5; quit; jump"], out)
    frame = exploring.session.frame - 4
    assert out.getvalue().splitlines() == [
        "> mark", f"marked frame {frame}", "> right*4", "> peek C0A5", "  C0A5  03", "> quit",
    ]  # fmt: skip
    with pytest.raises(OptionError, match=r"^command 2: 'jmup' is not a command"):
        follow(exploring, ["mark; jmup; mark"], io.StringIO())


def test_the_same_script_gives_the_same_memory(tmp_path):
    seen = []
    for _ in range(2):
        with explorer_files.open_session(explorer_files.choose()) as session:
            follow(Commands(session, Store(tmp_path)), ["right*40; a; down*17; a+left*9; wait*30"], io.StringIO())
            seen.append((session.peek(0xC000, 0x2000), session.screen.tobytes()))
    assert seen[0] == seen[1]


def test_a_rom_alone_is_known_by_the_profile_of_its_title(tmp_path):

    file = tmp_path / "game.gb"
    file.write_bytes(built_in_rom("meadow").data)
    assert explorer_files.choose(rom=str(file)).found == profiles.find("meadow")
    assert explorer_files.choose(rom=str(file), profile="none").found is None
    with pytest.raises(WorldError, match="cannot be read"):
        explorer_files.choose(rom=str(tmp_path / "other.gb"))
    assert [path.name for path in tmp_path.iterdir()] == ["game.gb"]


def test_start_states_that_are_missing_do_not_keep_one_from_making_them(tmp_path, caplog):
    caplog.set_level("INFO", "rookery")
    text = profiles.find("meadow").path.read_text() + '\n[start]\nfiles = ["begin.state"]\n'
    (tmp_path / "mine.toml").write_text(text)
    with explorer_files.open_session(explorer_files.choose(profile=str(tmp_path / "mine.toml"))) as session:
        assert session.starts == ()
    assert "starting at power-on" in caplog.text
