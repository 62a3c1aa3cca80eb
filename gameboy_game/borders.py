"""Where path or water meets grass: a line along the border, and corners cut off."""

from __future__ import annotations

GRASS = ":"
CUT = 3  # how much of a corner is cut off, in dots


def with_border(square: list[str], beside: str, above: str, line: str) -> list[str]:
    """A square of 8 x 8 dots with grass on some of its sides.

    Args:
        square: The picture where nothing meets grass.
        beside: "left" or "right" if grass is on that side, else "".
        above: "top" or "bottom" if grass is on that side, else "".
        line: The colours of the border, from the outside in.
    """
    size = len(square)

    def dot(x: int, y: int) -> str:
        depths = []  # how far this dot is from grass
        if beside:
            depths.append(x if beside == "left" else size - 1 - x)
        if above:
            depths.append(y if above == "top" else size - 1 - y)
        if len(depths) == 2:
            depths.append(sum(depths) - CUT)
        depth = min(depths, default=size)
        if depth < 0:
            return GRASS
        return line[depth] if depth < len(line) else square[y][x]

    return ["".join(dot(x, y) for x in range(size)) for y in range(size)]
