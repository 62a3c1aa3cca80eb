"""Profiles: what is read, and what is said of those that are wrong."""

from __future__ import annotations

import pytest

from rookery.errors import ConfigError, WorldError
from rookery.worlds.gameboy import game_profile
from rookery.worlds.gameboy.conditions import parse
from rookery.worlds.gameboy.rom import find_rom
from worlds.gameboy.cartridges import PROFILE

GOOD = PROFILE.format(title="PACER", boot='["nothing 10"]')

WRONG = {
    ("weight = 1.0", "weigth = 1.0"): "line 33: [[reward]] number 1 (new room): unknown key `weigth`; did you mean",
    ("weight = 1.0", ""): "line 29: [[reward]] number 1 (new room): the key `weight` is missing",
    ('kind = "first_visit"', 'kind = "visit"'): "line 31: [[reward]] number 1 (new room), `kind`: it should be 'step',",
    ('of = "room"', 'of = "rom"'): "`of`: there is no value `rom` in [memory]; did you mean `room`?",
    ('"room == 3"', '"room = 3"'): "[[reward]] number 3 (far), `when`: 'room = 3' cannot be read: a condition is",
    ('"room == 3"', '"rooms == 3"'): "[[reward]] number 3 (far), `when`: there is no value `rooms`",
    ('kind = "threshold"', 'kind = "step"'): "`once` is for the kind \"threshold\"",
    ('when = "room == 3"', ""): "needs `when`",
    ("jump = 100", "jump = 0"): "[[reward]] number 2 (walk), `jump`: it should be greater than or equal to 1, got 0",
    ('of = "x"', 'of = ["x", "room"]'): "`direction`, `by` and `jump` need a single value in `of`",
    ('name = "walk"', 'name = "far"'): "another reward has the name 'far'",
    ("0xC002 }", "0xE002 }"): "line 12: [memory.x]: E002 is an echo of C002: write C002",
    ("0xC000", "0x4000"): "line 10: [memory.pad]: 4000 is in the ROM",
    ("0xC000", "0x1C000"): "[memory.pad]: 1C000 is outside of the Game Boy's memory",
    ("0xC000", "0xFEA0"): "[memory.pad]: FEA0 is in the unused area",
    ("0xC002, size = 2", "0xFFFF, size = 2"): "[memory.x_and_frames]: FFFF is outside",
    ('"C004"', '"C0G4"'): "line 14: [memory.room], `address`: 'C0G4' is not a number in hexadecimal digits",
    ("pad     =", '"my pad" ='): 'line 10: [memory.my pad]: a name is letters, digits and _',
    ("weight = 0.5", "weight = nan"): "[[reward]] number 2 (walk), `weight`: it should be a finite number",
    ("[episode]", "[[episode]]"): "line 50: [[episode]]: it should be a table with keys",
    ("size = 2", "size = 2, bits = 0x10000"): "bits 0x10000 are more than 2 bytes have",
    ("size = 2", "size = 2, bcd = true, signed = true"): "use only one of bits, signed and bcd",
    ('{ value = "x" }', '{ value = "y" }'): "[observation], `memory` number 1 (y), `value`: there is no value `y`",
    ('{ value = "x" }', '{ value = "x", hihg = 3 }'): "number 1 (x): unknown key `hihg`; did you mean `high`?",
    ('{ value = "x" }', '{ value = "x", high = 0 }'): "high (0) should be above low (0)",
    ("values = 8", "values = 8, high = 3"): "use one way only",
    ("[observation]", "[observation]\nsize = 10"): "line 18: [observation], `size`: it is 10, but `memory` makes 11",
    ("shrink = 4", "shrink = 3"): "line 25: [observation.pixels]: shrink should be one of 1, 2, 4, 8",
    ("[observation.pixels]", "[observation.pixel]"): "line 25: [observation]: unknown key `pixel`; did you mean",
    ('"a+right"', '"c"'): "[actions], `buttons` number 5: 'c': there is no button 'c'",
    ('"a+right"', '"a"'): "[actions], `buttons`: a is listed twice",
    ("frame_skip = 4", "frame_skip = 4\nhold = 5"): "hold is 5, but a step takes only 4 frames",
    ("length = 40", 'length = "long"'): "[episode], `length`: it should be a valid integer, got 'long'",
    ('title = "PACER"', ""): "line 2: [game]: the key `title` is missing",
    ("[actions]", "[action]"): "line 5: unknown key `action`; did you mean `actions`?",
    ('["nothing 10"]', '["nothing"]'): "[start], `boot` number 1: 'nothing' should be buttons and a number of frames",
    ('boot = ["nothing 10"]', 'boot = ["a 1"]\nfiles = ["x"]'): "from save states (files) or from power-on (boot)",
    ('boot = ["nothing 10"]', "files = []"): 'files is empty: write files = ["states/*.state"]',
    ('boot = ["nothing 10"]', 'files = "a.state"'): '[start], `files`: it should be a list: write ["a.state"]',
    ('end = ["room == 4"]', 'end = "room == 4"'): "[episode], `end`: it should be a list: write [\"room == 4\"]",
    ('"room == 4"', '"x == 300"'): "[episode], `end`: `x` ranges from 0 to 255, so this is never true: x == 300",
    ('"room == 4"', '"x < 0"'): "so this is never true: x < 0",
    ('"room == 4"', '"x == 1.5"'): "so this is never true: x == 1.5",
    ('"room == 3"', '"room == 1 or room == 2"'): "There is no `or`: write two conditions in `end`, or two rewards",
    ('{ value = "x" }', '{ value = "x", low = 300 }'): "(x): `x` ranges from 0 to 255, so it is never 300",
    ('{ value = "x" }', '{ value = "x", equals = 256 }'): "so it is never 256",
    ("values = 8", "values = [1, -1]"): "number 2 (room): `room` ranges from 0 to 255, so it is never -1",
    ("pad     =", "restarted ="): "line 10: [memory.restarted]: this name is reserved by rookery",
    ("pad     =", "_pad ="): "[memory._pad]: a name is letters, digits and _, a letter first",
    ("0xC002, size = 2", "0xDFFF, size = 2"): "DFFF with 2 bytes ends at E000, which is only an echo of C000",
    ('buttons = ["nothing", "left", "right", "a", "a+right"]', "buttons = []"): "`buttons`: it must not be empty",
    ("[observation]", "[observation]\nsize = 5000000000"): "`size`: it should be less than or equal to 65536",
    ('title = "PACER"', 'title = ""'): "a game without a title needs its checksum",
    ('[[reward]]\nname = "new room"', '[reward]\nname = "new room"'): "is not valid TOML",
    ("[info]", "[info"): "is not valid TOML",
}  # fmt: skip


@pytest.mark.parametrize(("change", "words"), WRONG.items(), ids=[" -> ".join(change) for change in WRONG])
def test_a_mistake_is_named_with_its_place(change, words):
    """Each wrong profile is rejected in a sentence that says where, and what would be right."""
    assert change[0] in GOOD
    with pytest.raises(ConfigError) as caught:
        game_profile.read(GOOD.replace(*change), "my.toml")
    assert str(caught.value).startswith("my.toml")
    assert words in str(caught.value)


def test_a_reward_in_single_brackets():
    """The commonest slip with lists of tables."""
    start, rest = GOOD.split("[[reward]]", 1)
    with pytest.raises(ConfigError, match=r"\[reward\]: it is a list of tables, so write two brackets: \[\[reward"):
        game_profile.read(start + "[reward]" + rest.split("[[reward]]")[0])


def test_texts_of_other_editors(tmp_path):
    """A mark at the beginning is passed over; another encoding than UTF-8 is told of."""
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert game_profile.find(path).profile.game.title == "PACER"
    path.write_bytes(("# grün\n" + GOOD).encode("latin-1"))
    with pytest.raises(WorldError, match=r"mine.toml: is not UTF-8 text.* save it as UTF-8 in your editor"):
        game_profile.find(path)


def test_a_profile_is_looked_for_in_this_folder(tmp_path, monkeypatch):
    """The message says in which: perhaps it is another than was thought."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorldError, match=f"mine.toml: there is no such file in {tmp_path};"):
        game_profile.find("mine.toml")


def test_all_mistakes_are_told_at_once():
    """One message for all of them, each on its line."""
    wrong = GOOD.replace("weight = 1.0", "weigth = 1.0").replace("0xC000", "0x4000")
    with pytest.raises(ConfigError) as caught:
        game_profile.read(wrong, "my.toml")
    assert str(caught.value).count("\n  line ") == 2


def test_shipped_profiles_are_right():
    """They are found by name, and hold what they are known for."""
    assert game_profile.shipped() == ["meadow", "oracle_of_seasons"]
    meadow, oracle = (game_profile.find(name).profile for name in game_profile.shipped())
    assert meadow.game.built_in == "meadow"
    assert oracle.observation.size == 128
    assert {term.name: term.weight for term in oracle.reward} == {
        "step": 0.01, "moving": 0.01, "low health": -0.1, "rupees": 0.001, "new room": 10.0, "first dungeon": 25.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "words"),
    [("medow", "did you mean 'meadow'?"), ("chess", "one of meadow, oracle_of_seasons"), ("a/b.toml", "no such file")],
)
def test_an_unknown_profile(name, words):
    """The nearest name, or what there is."""
    with pytest.raises(WorldError, match=words.replace("?", r"\?")):
        game_profile.find(name)


def test_a_profile_that_was_changed_is_read_again(pacer):
    """Whoever writes at one can try it at once."""
    found = game_profile.find(pacer["profile"])
    changed = found.path.read_text().replace("length = 40", "length = 41")
    found.path.write_text(changed)
    assert game_profile.find(pacer["profile"]).profile.episode.length == 41
    assert find_rom(found, pacer["rom"]).title == "PACER"


@pytest.mark.parametrize(
    ("text", "values", "holds"),
    [
        ("a == 3", [3, 0], True), ("a != 0x03", [3, 0], False), ("a<b", [1, 2], True), ("a >= 2 * b", [4, 2], True),
        ("a > 0.5*b and b > 0", [1, 2], False), ("a == 1 and b == 2", [1, 2], True), ("a <= -1", [0, 0], False),
    ],
)  # fmt: skip
def test_conditions(text, values, holds):
    """Numbers, other values, shares of other values, and several at once."""
    assert parse(text).test({"a": 0, "b": 1})(values) is holds
