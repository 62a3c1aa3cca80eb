"""The hut, 48 x 48 dots, with its door in the middle below; and the door when it stands open."""

from __future__ import annotations

HUT = """
:::::::::::::::::::::::::::::::::########:::::::
:::::::::::#######################......#:::::::
:::::::::::#::#::::::#::::::#::::#......#:::::::
:::::::::::#o:#o:ooo:#o:ooo:#o:oo########:::::::
::::::::::#oo:#o:ooo:#o:ooo:#o:oo#o:oo:o#:::::::
::::::::::#oo:#o:ooo:#o:ooo:#o:oo#:oo:oo#:::::::
:::::::::#ooo:#o:ooo:#o:ooo:#o:oo#oo:oo:#:::::::
::::::::#ooooo#oooooo#oooooo#oooo#o:oo:o#:::::::
::::::::##########################:oo:oo#:::::::
:::::::#::::#::::::#::::::#::::::#::::::#:::::::
:::::::#ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#:::::::
::::::#:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:##::::::
:::::#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o#:::::
:::::#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o#:::::
::::##oooooo#oooooo#oooooo#oooooo#oooooo#oo#::::
::::########################################::::
:::#::::::#::::::#::::::#::::::#::::::#:::::#:::
::##o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#::
::##o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#::
:#:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:##:
:#:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:##:
:#o#oooooo#oooooo#oooooo#oooooo#oooooo#oooooo##:
:##############################################:
:#::::::#::::::#::::::#::::::#::::::#::::::#::#:
:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:#:
:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:#:
:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:#:
:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:ooo:#o:#:
:#oooooo#oooooo#oooooo#oooooo#oooooo#oooooo#oo#:
:##############################################:
:#::::#::::::#::::::#::::::#::::::#::::::#::::#:
################################################
:oooooooooooooooooooooooooooooooooooooooooooooo:
:::ooooooooooooo..############..ooooooooooooo:::
:::#o............##oooooooooo##............o#:::
:::#o............#o:oo:oo:oo:o#............o#:::
:::#o.########...#o:oo:oo:oo:o#...########.o#:::
:::#o.#:.#o.:#...#o:oo:oo:oo:o#...#.:#o::#.o#:::
:::#o.#.:#o::#...##############...#::#o:.#.o#:::
:::#o.########...#o:oo:oo:oo:o#...########.o#:::
:::#o:#:.#o.:#::.#o:oo:oo:##:o#.::#.:#o::#:o#:::
:::#o.#.:#o::#...#o:oo:oo#..#o#...#::#o:.#.o#:::
:::#o.########...#o:oo:oo:##:o#...########.o#:::
:::#oo#o#o#o#o#..#o:oo:oo:##:o#..o#o#o#o#o#o#:::
:::#o............##############............o#:::
:::#o............#o:oo:oo:oo:o#............o#:::
:::#############.##############.#############:::
:::ooooooooooooo::............::ooooooooooooo:::
"""

OPEN_DOOR = """
oooooooooooooooo
..############..
.##############.
.#o##########o#.
.#oo########oo#.
.#:o########o:#.
.#:o########o:#.
.#:o########o:#.
.#:o########o:#.
.##o########o##.
.#:o########o:#.
.#:o#oooooo#o:#.
.#:oo::::::oo:#.
.#o::......::o#.
.#:..........:#.
::............::
"""
