"""From pictures in text to the tiles that the Game Boy draws with, and where each of them is.

A tile is 8 x 8 dots of four greys in 16 bytes: for each row the lower bits of its eight dots, then the upper bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from gameboy_game import figures, ground, status_panel
from gameboy_game.borders import with_border
from gameboy_game.hut import HUT, OPEN_DOOR
from gameboy_game.rom_image import AssemblyError

SIZE = 8
GREYS = ".:o#"

# The letters that stand for pictures of 16 x 16 in the rooms' maps.
WALKABLE = {" ": ground.GRASS, ",": ground.TUFTS, "f": ground.FLOWERS, ":": ground.PATH}
SOLID = {
    "T": ground.TREE,
    "b": ground.BUSH,
    "r": ground.ROCK,
    "w": ground.WATER,
    "=": ground.FENCE,
}
BORDERS = {":": "o", "w": "#."}  # what has a line where it ends, and the line's colours from the outside in
HUT_PIECES = "123456789"  # its nine squares from the top left; 8 is the door
DOOR = "8"
FIGURES = (
    "FROM_FRONT",
    "FROM_BEHIND",
    "FROM_THE_SIDE",
    "FROM_THE_SIDE_STRIDING",
    "UNDER_THE_HAT",
    "WALKER",
    "WALKER_STRIDING",
)


def encode(picture: list[str]) -> bytes:
    """The 16 bytes of one tile.

    >>> encode(["#......."] * 8)[:4].hex()
    '80808080'
    """
    return bytes(part for row in picture for part in _planes(row))


def _planes(row: str) -> tuple[int, int]:
    greys = [GREYS.index(dot) for dot in row]
    lower = sum((grey & 1) << (SIZE - 1 - i) for i, grey in enumerate(greys))
    upper = sum((grey >> 1) << (SIZE - 1 - i) for i, grey in enumerate(greys))
    return lower, upper


def cut(text: str, size: int = SIZE) -> list[list[list[str]]]:
    """A picture in squares of `size` dots: rows of squares, each a list of lines."""
    lines = text.split()
    width, height = len(lines[0]), len(lines)
    if any(len(line) != width or line.strip(GREYS) for line in lines) or width % size or height % size:
        raise AssemblyError(f"a picture must be made of {GREYS!r} in squares of {size} x {size}:\n{text}")
    return [
        [[line[x : x + size] for line in lines[y : y + size]] for x in range(0, width, size)]
        for y in range(0, height, size)
    ]


@dataclass
class Tiles:
    """All tiles, in the order in which they lie in video memory."""

    data: list[bytes] = field(default_factory=list)
    pieces: dict[str, list[list[int]]] = field(default_factory=dict)  # letter of a map: its 2 x 2 tiles
    bordered: dict[tuple[str, str, str, bool, bool], int] = field(default_factory=dict)  # see `quarter`
    single: dict[str, int] = field(default_factory=dict)  # panel: name of a tile: its number
    sprites: dict[str, int] = field(default_factory=dict)  # picture of a sprite: its first tile
    first_solid: int = 0  # from this tile on, nobody can walk
    open_door: list[list[int]] = field(default_factory=list)

    @property
    def bytes(self) -> bytes:
        return b"".join(self.data)

    def share(self, picture: list[str], since: int) -> int:
        """The number of a tile: of an equal one that was added from `since` on, or of a new one."""
        tile = encode(picture)
        if tile not in self.data[since:]:
            self.data.append(tile)
        return self.data.index(tile, since)

    def grid(self, text: str, since: int) -> list[list[int]]:
        """The tile numbers of a larger picture, row by row."""
        return [[self.share(square, since) for square in row] for row in cut(text)]

    def quarter(self, letter: str, beside: str, above: str, ends_beside: bool, ends_above: bool) -> int:
        """One of a letter's four tiles, such as the "left" "top" one, by whether the ground ends on those two sides."""
        if letter in BORDERS:
            return self.bordered[letter, beside, above, ends_beside, ends_above]
        return self.pieces[letter][above == "bottom"][beside == "right"]

    def add_piece(self, letter: str, text: str, since: int) -> None:
        """The tiles of a letter; if it has borders, those that `quarter` returns."""
        if letter not in BORDERS:
            self.pieces[letter] = self.grid(text, since)
            return
        squares = cut(text)
        for (j, above), (i, beside) in product(enumerate(("top", "bottom")), enumerate(("left", "right"))):
            for ends_beside, ends_above in product((False, True), repeat=2):
                sides = (beside if ends_beside else "", above if ends_above else "")
                picture = with_border(squares[j][i], *sides, BORDERS[letter])
                self.bordered[letter, beside, above, ends_beside, ends_above] = self.share(picture, since)

    def add_sprite(self, name: str, text: str) -> None:
        """A picture 16 dots high, column by column, as tall sprites want it; it starts at an even number."""
        if len(self.data) % 2:
            self.data.append(bytes(2 * SIZE))
        self.sprites[name] = len(self.data)
        upper, lower = cut(text)
        for pair in zip(upper, lower, strict=True):
            self.data += map(encode, pair)


def draw_tiles() -> Tiles:
    """All tiles of the game."""
    tiles = Tiles()
    for name, text in WALKABLE.items():
        tiles.add_piece(name, text, since=0)
    tiles.first_solid = len(tiles.data)
    hut = ["\n".join(square) for row in cut(HUT, 2 * SIZE) for square in row]
    for name, text in [*SOLID.items(), *zip(HUT_PIECES, hut, strict=True)]:
        tiles.add_piece(name, text, since=tiles.first_solid)
    tiles.open_door = tiles.grid(OPEN_DOOR, since=tiles.first_solid)
    for name in ("BLANK", "EDGE", "FULL_HEART", "NO_HEART", "NO_KEY", "OWN_KEY"):
        tiles.single[name] = tiles.grid(getattr(status_panel, name), since=tiles.first_solid)[0][0]
    for name in (" ", *status_panel.LETTERS):
        tiles.single[name] = tiles.grid(status_panel.letter(name), since=tiles.first_solid)[0][0]
    for name in (*FIGURES, "KEY", "HEART"):
        tiles.add_sprite(name, getattr(figures, name))
    if len(tiles.data) > 256:
        raise AssemblyError(f"{len(tiles.data)} tiles: the screen can tell only 256 apart; draw more alike")
    return tiles
