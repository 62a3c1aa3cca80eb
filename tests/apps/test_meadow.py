"""Our own game: its ROM, its rules, its screen, and that every start can be won."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import gameboy_game as meadow
import numpy as np
import pytest
from gameboy_game import cartridge
from gameboy_game import memory_map as mem
from gameboy_game.game import assemble
from gameboy_game.hut import HUT
from gameboy_game.rom_image import AssemblyError
from gameboy_game.rooms import (
    CLEARING,
    EAST,
    GARDEN,
    KEY_PLACES,
    POND,
    ROOMS,
    SOUTH,
    WALKER_EAST,
    WALKER_WEST,
    MapPosition,
)
from gameboy_game.scent import UNREACHABLE, Ground, goals
from gameboy_game.starts import STARTS
from gameboy_game.tiles import cut, draw_tiles

from rookery.worlds.gameboy.emulator import Emulator
from rookery.worlds.gameboy.rom import ROMS, Rom, check
from rookery.worlds.gameboy.states import built_in_states

REPOSITORY = Path(__file__).parents[2]
BEFORE_THE_DOOR = MapPosition(GARDEN, 104, 84)
IN_THE_LANE = MapPosition(GARDEN, 44, 60)  # where the walker goes
ONE_STEP = {"right": (1, 0), "left": (-1, 0), "up": (0, -1), "down": (0, 1)}


class Player:
    """Someone at the buttons, who may look into memory."""

    def __init__(self) -> None:
        self.emulator = Emulator(Rom(meadow.rom(), "meadow"))
        self.start(0)

    def start(self, number: int) -> None:
        self.emulator.load(built_in_states("meadow")[number])

    def __getitem__(self, address: int) -> int:
        return self.emulator.memory[address]

    def put(self, place: MapPosition, **others: int) -> None:
        """Stand somewhere else, and let the game notice."""
        values = {"PLAYER_X": place.x, "PLAYER_Y": place.y, "ROOM": place.room, **others}
        for name, value in values.items():
            self.emulator.memory[getattr(mem, name)] = value
        self.hold(2)

    def hold(self, frames: int, *buttons: str) -> None:
        self.emulator.run(frames, buttons)

    def see(self) -> np.ndarray:
        """The screen after one more frame, as greys."""
        self.emulator.run(1, render=True)
        return self.emulator.screen[:, :, 0].copy()

    @property
    def place(self) -> MapPosition:
        return MapPosition(self[mem.ROOM], self[mem.PLAYER_X], self[mem.PLAYER_Y])

    def follow(self, distances: dict[tuple[int, int, int], int], frames: int = 1000) -> None:
        """Walk to where the distance is 0, from tile to tile; each is entered from the middle of the last."""
        for _ in range(frames):
            if self[mem.SCENT] == 0 or self[mem.MODE] != mem.PLAYING:
                return
            self.hold(1, self._next_button(distances))

    def _next_button(self, distances: dict[tuple[int, int, int], int]) -> str:
        here = self.place
        column, row, off_x, off_y = here.x // 8, here.y // 8, here.x % 8 - 4, here.y % 8 - 4

        def beyond(button: str) -> int:
            dx, dy = ONE_STEP[button]
            x, y, room = column + dx, row + dy, here.room
            if x == 20:
                x, room = 0, EAST.get(room, -1)
            if y == 16:
                y, room = 0, SOUTH.get(room, -1)
            return distances.get((room, x, y), UNREACHABLE)

        best = min(ONE_STEP, key=beyond)
        if best in ("right", "left") and off_y:
            return "up" if off_y > 0 else "down"
        if best in ("up", "down") and off_x:
            return "left" if off_x > 0 else "right"
        return best


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Player]:
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    player = Player()
    yield player
    player.emulator.close()


# The ROM


def test_the_rom_is_a_whole_cartridge_with_right_checksums():
    rom = meadow.rom()
    check(rom, "meadow")
    assert len(rom) == 0x8000
    assert rom[0x134:0x13F].rstrip(b"\0") == b"MEADOW"
    assert int.from_bytes(rom[0x14E:0x150], "big") == cartridge.image_sum(rom)
    assert not any(rom[0x104:0x134]), "no logo of others is in it"
    assert meadow.rom() is rom


def test_the_world_ships_what_the_assembler_makes():
    """If this fails because the game was changed, `make rom` writes the files again."""
    assert (ROMS / "meadow.gb").read_bytes() == meadow.rom()
    assert (ROMS / "meadow.json").read_text() == meadow.starts_file()


def test_the_module_writes_the_rom_to_a_file(tmp_path):
    file = tmp_path / "meadow.gb"
    words = [sys.executable, "-m", "gameboy_game"]
    subprocess.run([*words, str(file)], check=True, timeout=60, cwd=REPOSITORY)
    assert file.read_bytes() == meadow.rom()
    assert os.listdir(tmp_path) == ["meadow.gb"]
    assert subprocess.run(words, capture_output=True, timeout=60, cwd=REPOSITORY).returncode == 2


def test_a_real_machine_is_asked_for_nothing_but_32_kib():
    assert meadow.rom()[0x143:0x14A] == bytes(7)


# Starts


def test_every_start_is_a_state_of_its_own(player):
    seen = set()
    for number, start in enumerate(STARTS):
        player.start(number)
        assert player.place == start.player
        key = KEY_PLACES[start.key_place]
        assert (player[mem.KEY_ROOM], player[mem.KEY_X], player[mem.KEY_Y]) == (key.room, key.x, key.y)
        assert (player[mem.MODE], player[mem.HEARTS], player[mem.HAS_KEY], player[mem.DOOR_OPEN]) == (1, 3, 0, 0)
        assert 0 < player[mem.SCENT] < 60
        assert player[mem.SCENT] < player[mem.WAY] < 120
        seen.add((start.player, start.key_place))
    assert len(seen) == len(STARTS) == 8


@pytest.mark.few(2)
@pytest.mark.parametrize("number", range(len(STARTS)))
def test_every_start_can_be_won_by_following_the_scent(player, number):
    player.start(number)
    ground, wanted = Ground(draw_tiles()), goals()
    player.follow(ground.distances(wanted[STARTS[number].key_place]))
    assert player[mem.ROOM] == POND
    player.hold(1, "a")
    assert player[mem.HAS_KEY] == 1
    assert player[mem.SCENT] > 10, "now it is the door's"
    player.follow(ground.distances(wanted[-1]))
    player.hold(1, "a")
    assert (player[mem.DOOR_OPEN], player[mem.MODE]) == (1, mem.WON)


# Rules


def test_the_scent_falls_by_one_a_tile_and_ends_within_reach(player):
    player.put(MapPosition(POND, 20, 76), KEY_PLACE=3)
    scents = [player[mem.SCENT]]
    while player[mem.SCENT]:
        player.hold(8, "right")
        scents.append(player[mem.SCENT])
    assert scents == list(range(scents[0], -1, -1))


def test_the_way_goes_on_over_the_key(player):
    player.put(MapPosition(POND, KEY_PLACES[0].x, KEY_PLACES[0].y), KEY_PLACE=0)
    before = player[mem.WAY]
    player.hold(1, "a")
    assert player[mem.WAY] == player[mem.SCENT] == before


def test_walls_stop_the_player_and_ground_does_not(player):
    player.put(MapPosition(CLEARING, 60, 68))
    player.hold(30, "left")
    assert player.place == MapPosition(CLEARING, 30, 68)
    player.hold(60, "left")
    assert player.place == MapPosition(CLEARING, 20, 68), "the trees' tiles end at 15, and the feet are 4 to the left"
    player.hold(60, "up")
    assert player.place == MapPosition(CLEARING, 20, 52), "a bush"
    player.hold(30, "down")
    assert player.place == MapPosition(CLEARING, 20, 82)


def test_one_direction_counts_at_a_time(player):
    player.put(MapPosition(CLEARING, 60, 68))
    player.hold(4, "right", "up")
    assert player.place == MapPosition(CLEARING, 64, 68)


def test_the_edge_leads_to_the_next_room_and_back(player):
    player.put(MapPosition(CLEARING, 156, 68))
    player.hold(1, "right")
    assert player.place == MapPosition(POND, 4, 68)
    player.hold(1, "left")
    assert player.place == MapPosition(CLEARING, 156, 68)
    player.put(MapPosition(POND, 60, 124))
    player.hold(1, "down")
    assert player.place == MapPosition(GARDEN, 60, 4)
    player.hold(1, "up")
    assert player.place == MapPosition(POND, 60, 124)


@pytest.mark.parametrize("place", range(len(KEY_PLACES)))
def test_the_key_is_taken_with_a_next_to_it_only(player, place):
    key = KEY_PLACES[place]
    player.put(MapPosition(POND, 60, 60), KEY_PLACE=place)
    player.hold(4, "a")
    assert player[mem.HAS_KEY] == 0, "too far"
    player.put(key)
    player.hold(4)
    assert player[mem.HAS_KEY] == 0, "without A"
    player.hold(4, "b", "select")
    assert player[mem.HAS_KEY] == 0, "with other buttons"
    player.hold(1, "a")
    assert player[mem.HAS_KEY] == 1


def test_the_door_opens_with_the_key_only(player):
    player.put(BEFORE_THE_DOOR)
    player.hold(10, "a")
    assert (player[mem.DOOR_OPEN], player[mem.MODE]) == (0, mem.PLAYING)
    player.put(BEFORE_THE_DOOR, HAS_KEY=1)
    assert player[mem.SCENT] == 0
    player.hold(1, "a")
    assert (player[mem.DOOR_OPEN], player[mem.MODE]) == (1, mem.WON)


def test_the_walker_costs_a_heart_and_then_a_second_of_peace(player):
    player.put(IN_THE_LANE, HURT=0, WALKER_X=28, WALKER_LEFT=0)
    frames = 0
    while player[mem.HEARTS] == 3 and frames < 100:
        player.hold(1)
        frames += 1
    assert player[mem.HEARTS] == 2
    player.hold(60)
    assert player[mem.HEARTS] == 2
    player.put(MapPosition(GARDEN, player[mem.WALKER_X], 60), HURT=1)
    player.hold(1)
    assert player[mem.HEARTS] == 1


def test_the_walker_hurts_in_its_own_room_only(player):
    player.put(MapPosition(POND, player[mem.WALKER_X], player[mem.WALKER_Y]))
    player.hold(200)
    assert player[mem.HEARTS] == 3


def test_without_hearts_the_game_is_lost_and_stands_still(player):
    player.put(IN_THE_LANE, HEARTS=1)
    player.hold(200)
    assert (player[mem.HEARTS], player[mem.MODE]) == (0, mem.LOST)
    there = player.place, player[mem.WALKER_X]
    player.hold(30, "right", "a")
    assert (player.place, player[mem.WALKER_X]) == there
    assert player[mem.MODE] == mem.LOST


def test_the_walker_goes_to_and_fro(player):
    places = []
    for _ in range(400):
        player.hold(1)
        places.append(player[mem.WALKER_X])
    assert (min(places), max(places)) == (WALKER_WEST, WALKER_EAST)
    assert max(abs(a - b) for a, b in pairwise(places)) == 1


def test_start_begins_again_with_the_key_elsewhere(player):
    player.put(BEFORE_THE_DOOR, HAS_KEY=1, KEY_PLACE=3)
    player.hold(1, "a")
    player.hold(5)
    player.hold(2, "start")
    player.hold(5)
    assert (player[mem.MODE], player[mem.HEARTS], player[mem.HAS_KEY], player[mem.DOOR_OPEN]) == (1, 3, 0, 0)
    assert player[mem.KEY_PLACE] == 0
    assert player.place.room == CLEARING


def test_the_title_is_shown_if_start_is_held_at_power_up():
    emulator = Emulator(Rom(meadow.rom(), "meadow"))
    emulator.run(150, ["start"])
    assert emulator.memory[mem.MODE] == mem.TITLE
    emulator.run(5)
    emulator.run(2, ["start"])
    emulator.run(5)
    assert emulator.memory[mem.MODE] == mem.PLAYING
    emulator.close()


# The screen, and time


def test_every_frame_is_done_before_the_vertical_blank_ends(player):
    """Else memory would be read in the middle of a move, and pictures changed while they are drawn."""
    asleep = assemble()[1]["every_frame"]
    random = np.random.default_rng(0)
    buttons = [*ONE_STEP, "a", "b"]
    for room in range(len(ROOMS)):
        player.put(MapPosition(room, 60, 68), HURT=0)
        for _ in range(300):
            player.hold(1, *random.choice(buttons, 2, replace=False))
            doing = player.emulator._pyboy.register_file.PC
            assert doing == asleep


def test_rooms_are_seen_one_after_the_other_without_a_blank_frame(player):
    player.put(MapPosition(CLEARING, 150, 68))
    pictures = []
    for _ in range(12):
        player.emulator.run(1, ["right"], render=True)
        pictures.append(player.emulator.screen[:128, :, 0].copy())
    assert player[mem.ROOM] == POND
    assert all(set(np.unique(picture)) == {0x00, 0x55, 0x99, 0xFF} for picture in pictures)
    changes = [int((a != b).sum()) for a, b in pairwise(pictures)]
    assert sum(change > 2000 for change in changes) == 1


def test_hearts_and_the_key_are_on_the_panel(player):
    player.put(MapPosition(POND, 60, 60))
    full = player.see()[136:]
    player.put(MapPosition(POND, 60, 60), HEARTS=2)
    player.hold(1)
    less = player.see()[136:]
    assert (full[:, 24:32] != less[:, 24:32]).any() and (full[:, 8:24] == less[:, 8:24]).all()
    player.put(KEY_PLACES[0], KEY_PLACE=0)
    player.hold(3, "a")
    assert (player.see()[136:, 144:152] != full[:, 144:152]).any()


@pytest.mark.parametrize("mode", [mem.WON, mem.LOST])
def test_the_panel_rises_with_a_message_at_the_end(player, mode):
    player.put(MapPosition(CLEARING, 60, 60))
    player.put(MapPosition(CLEARING, 60, 60), MODE=mode)
    player.hold(60)
    screen = player.see()
    assert (screen[104:112] == 0).mean() > 0.9, "dark above the message"
    assert (screen[112:120] != 0).any()


def test_the_same_buttons_give_the_same_game(player):
    def play() -> tuple[bytes, bytes]:
        player.start(2)
        random = np.random.default_rng(7)
        for _ in range(300):
            player.hold(4, str(random.choice([*ONE_STEP, "a"])))
        picture = player.see()
        return bytes(player[k] for k in range(0xC000, 0xC100)), picture.tobytes()

    assert play() == play()


# Building it


def test_a_picture_that_is_not_square_or_has_other_letters_is_refused():
    with pytest.raises(AssemblyError, match="squares of 8 x 8"):
        cut(HUT[:-49])
    with pytest.raises(AssemblyError, match="squares of 8 x 8"):
        cut("abcdefgh\n" * 8)


def test_a_gap_in_the_trees_is_found(monkeypatch):
    holed = [room.replace("TTTTTTTTTT\n", "TTTT TTTTT\n", 1) for room in ROOMS]
    monkeypatch.setattr("gameboy_game.rooms.ROOMS", tuple(holed))
    with pytest.raises(AssemblyError, match="walk off the meadow's edge"):
        Ground(draw_tiles())
