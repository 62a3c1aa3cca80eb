"""How far it is: for each thing to fetch, how many tiles to walk to it from every tile of every room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gameboy_game import rooms
from gameboy_game.rom_image import AssemblyError
from gameboy_game.rooms import EAST, HEIGHT, KEY_PLACES, NORTH, REACH, ROOMS, SOUTH, WEST, WIDTH
from gameboy_game.tiles import SIZE, Tiles

UNREACHABLE = 255
Tile = tuple[int, int, int]  # room, column, row


class Ground:
    """Where one can walk: tiles that are free, and how they join."""

    def __init__(self, tiles: Tiles) -> None:
        self.free: set[Tile] = {
            (room, column, row)
            for room in range(len(ROOMS))
            for row, line in enumerate(rooms.tile_rows(room, tiles))
            for column, tile in enumerate(line)
            if tile < tiles.first_solid
        }
        for tile in self.free:
            self._check_edges(tile)

    def _check_edges(self, tile: Tile) -> None:
        for beyond in _beside(*tile):
            if beyond is None:
                raise AssemblyError(f"room, column, row {tile}: one can walk off the meadow's edge; put a tree there")

    def beside(self, tile: Tile) -> list[Tile]:
        """The free tiles one step away, in the next room where the edge is crossed."""
        return [beyond for beyond in _beside(*tile) if beyond in self.free]

    def distances(self, goal: set[Tile]) -> dict[Tile, int]:
        """For every tile from which the goal can be walked to: how many tiles that takes."""
        if not goal & self.free:
            raise AssemblyError(f"none of {sorted(goal)} can be walked to: free one of them")
        found = dict.fromkeys(goal & self.free, 0)
        waiting = deque(found)
        while waiting:
            tile = waiting.popleft()
            for beyond in self.beside(tile):
                if beyond not in found:
                    found[beyond] = found[tile] + 1
                    waiting.append(beyond)
        return found


def _beside(room: int, column: int, row: int) -> Iterator[Tile | None]:
    yield (room, column + 1, row) if column < WIDTH - 1 else _in(EAST.get(room), 0, row)
    yield (room, column - 1, row) if column > 0 else _in(WEST.get(room), WIDTH - 1, row)
    yield (room, column, row + 1) if row < HEIGHT - 1 else _in(SOUTH.get(room), column, 0)
    yield (room, column, row - 1) if row > 0 else _in(NORTH.get(room), column, HEIGHT - 1)


def _in(room: int | None, column: int, row: int) -> Tile | None:
    return None if room is None else (room, column, row)


def goals() -> list[set[Tile]]:
    """What can be fetched: the key at each of its places, then the door; each by the tiles it is in reach from."""
    keys = [_around(place.room, place.x // SIZE, place.y // SIZE) for place in KEY_PLACES]
    room, column, row = rooms.door_tile()
    before_the_door = {(room, column + i, row + j) for i in range(-1, 3) for j in (2, 3)}
    return [*keys, before_the_door]


def _around(room: int, column: int, row: int) -> set[Tile]:
    reach = range(-REACH, REACH + 1)
    return {(room, column + i, row + j) for i in reach for j in reach}


def tables(tiles: Tiles) -> list[bytes]:
    """For each goal, the distance from every tile, laid out as the rooms' tile maps are."""
    ground = Ground(tiles)
    found = [ground.distances(goal) for goal in goals()]
    return [b"".join(_table(room, distances) for room in range(len(ROOMS))) for distances in found]


def _table(room: int, distances: dict[Tile, int]) -> bytes:
    return rooms.map_bytes(
        [
            [min(distances.get((room, column, row), UNREACHABLE), UNREACHABLE) for column in range(WIDTH)]
            for row in range(HEIGHT)
        ]
    )


def from_key_to_door(tiles: Tiles) -> list[int]:
    """How far the door is from each place of the key."""
    to_door = Ground(tiles).distances(goals()[-1])
    keys = [(place.room, place.x // SIZE, place.y // SIZE) for place in KEY_PLACES]
    for key in keys:
        if key not in to_door:
            raise AssemblyError(f"room, column, row {key}: a key lies where nobody can walk; free it or move the key")
    return [to_door[key] for key in keys]
