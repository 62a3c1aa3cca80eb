"""Meadow: a small game of our own for the Game Boy, written with our own assembler.

Fetch the key, open the door of the hut, mind the walker. `rom()` is the cartridge; `start_states()` are moments to
begin an episode at. Read setup.py first, then loop.py, walking.py, rules.py, screen.py and sprites.py.
"""

from rookery.apps.meadow.game import rom
from rookery.apps.meadow.starts import start_states

__all__ = ["rom", "start_states"]
