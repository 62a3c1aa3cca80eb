"""The game put together: routines, tables, pictures, and the cartridge's header around them."""

from __future__ import annotations

from functools import cache

from gameboy_game import background, cartridge, frame, power_up, rooms, rules, scent, sprites, walking
from gameboy_game.asm import Assembler
from gameboy_game.background import BELOW_MESSAGE_ROW
from gameboy_game.hardware import MAP_WIDTH
from gameboy_game.rooms import EAST, KEY_PLACES, NORTH, ROOMS, SOUTH, WEST, WIDTH
from gameboy_game.status_panel import BELOW_A_MESSAGE, MESSAGES
from gameboy_game.tiles import Tiles, draw_tiles

TITLE = "MEADOW"
PANEL_ROWS = 7
PAGE = 256


@cache
def assemble() -> tuple[bytes, dict[str, int]]:
    """The ROM, and the addresses of its labels."""
    a = Assembler()
    tiles = draw_tiles()
    cartridge.begin(a)
    _routines(a, tiles)
    _tables(a, tiles)
    return cartridge.seal(a.finish(), TITLE), a.labels


def rom() -> bytes:
    """The game as a cartridge of 32 KiB, ready for an emulator or a file."""
    return assemble()[0]


def _routines(a: Assembler, tiles: Tiles) -> None:
    power_up.power_up(a)
    power_up.screen_off_and_on(a)
    power_up.filling(a, len(tiles.bytes), len(_panel(tiles)))
    power_up.copy_sprites(a)
    frame.every_frame(a)
    frame.read_joypad(a)
    walking.walk(a)
    walking.is_solid(a, tiles.first_solid)
    walking.find_tile(a)
    rules.use_button_a(a)
    rules.walk_walker(a)
    rules.touch_walker(a)
    rules.place_key(a)
    rules.smell(a)
    background.show_room(a)
    background.show_hearts_and_key(a, tiles)
    background.show_message(a, tiles)
    sprites.draw_player(a, tiles)
    sprites.draw_figure(a)
    sprites.draw_walker(a, tiles)
    sprites.draw_key_or_heart(a, tiles)


def _tables(a: Assembler, tiles: Tiles) -> None:
    small = {
        "rooms_right": _beyond(EAST),
        "rooms_left": _beyond(WEST),
        "rooms_up": _beyond(NORTH),
        "rooms_down": _beyond(SOUTH),
        "key_places": bytes(value for place in KEY_PLACES for value in (place.x, place.y, place.room)),
        "from_key_to_door": bytes(scent.from_key_to_door(tiles)),
        "room_views": background.room_views(),
        "messages": b"".join(_line(tiles, message) for message in MESSAGES),
        "panel": _panel(tiles),
        "tiles": tiles.bytes,
    }
    for label, values in small.items():
        a.label(label)
        a.data(values)
    a.align(PAGE)  # so that the lower byte of an address in these tables is the tile's own
    a.label("rooms")
    for room in range(len(ROOMS)):
        a.label(f"room_{room}")
        a.data(rooms.map_bytes(rooms.tile_rows(room, tiles)))
    a.label("scents")
    for table in scent.tables(tiles):
        a.data(table)


def _beyond(edge: dict[int, int]) -> bytes:
    return bytes(edge.get(room, room) for room in range(len(ROOMS)))


def _line(tiles: Tiles, text: str) -> bytes:
    """A row of a tile map with a text in the middle of the screen."""
    row = [tiles.single[letter] for letter in text.center(WIDTH)]
    return bytes(row).ljust(MAP_WIDTH, b"\0")


def _panel(tiles: Tiles) -> bytes:
    rows = [_line(tiles, "")] * PANEL_ROWS
    rows[0] = bytes([tiles.single["EDGE"]] * MAP_WIDTH)
    rows[BELOW_MESSAGE_ROW] = _line(tiles, BELOW_A_MESSAGE)
    return b"".join(rows)
