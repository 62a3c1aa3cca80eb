"""Meadow: a small game for the Game Boy, written with the assembler in this package.

The goal: fetch the key, open the door of the hut, and avoid the walker. `rom()` assembles the cartridge;
`starts_file()` describes how episodes begin. The Game Boy world ships both results as data files, in the folder
worlds/gameboy/roms. After a change of the game, write them again:
`python -m rookery.apps.meadow FOLDER/meadow.gb FOLDER/meadow.json`.

Read power_up.py first, then frame.py, walking.py, rules.py, background.py and sprites.py.
"""

from rookery.apps.meadow.game import rom
from rookery.apps.meadow.starts import starts_file

__all__ = ["rom", "starts_file"]
