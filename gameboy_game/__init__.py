"""Meadow: a small game for the Game Boy, written with the assembler in this package.

The goal: fetch the key, open the door of the hut, and avoid the walker. `rom()` assembles the cartridge;
`starts_file()` describes how episodes begin. The Game Boy world ships both results as data files, in the folder
src/rookery/worlds/gameboy/roms. After a change of the game, `make rom` writes them again.

Read power_up.py first, then frame.py, walking.py, rules.py, background.py and sprites.py.
"""

from gameboy_game.game import rom
from gameboy_game.starts import starts_file

__all__ = ["rom", "starts_file"]
