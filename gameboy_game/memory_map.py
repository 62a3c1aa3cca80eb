"""The addresses of the game's variables in working memory, as used by the game, its profile and the tests."""

from __future__ import annotations

SPRITES = 0xC000  # 40 sprites of 4 bytes, copied to the screen's own table once a frame

PLAYER_X = 0xC0A0  # in dots, the middle between the feet
PLAYER_Y = 0xC0A1
ROOM = 0xC0A2
HAS_KEY = 0xC0A3  # 0 or 1
DOOR_OPEN = 0xC0A4  # 0 or 1
HEARTS = 0xC0A5  # 3 to 0
MODE = 0xC0A6
WALKER_X = 0xC0A7
WALKER_Y = 0xC0A8
WALKER_ROOM = 0xC0A9
SCENT = 0xC0AA  # tiles to walk to what is to be fetched next, first the key, then the door; 0 is within reach
KEY_X = 0xC0AB
KEY_Y = 0xC0AC
KEY_ROOM = 0xC0AD
FRAME = 0xC0AE  # counts frames, from 255 on to 0
KEY_PLACE = 0xC0AF  # which of the places the key lies at; KEY_X, KEY_Y and KEY_ROOM follow it
WAY = 0xC0B0  # tiles to walk until the game is won: by the key to the door
HURT = 0xC0B1  # frames for which the walker cannot hurt again
FACING = 0xC0B2
STEPS = 0xC0B3  # dots walked, for the legs
WALKER_LEFT = 0xC0B4  # 1 while the walker goes left
HELD = 0xC0B5  # buttons that are down
PRESSED = 0xC0B6  # buttons that have just gone down
SHOWN_MODE = 0xC0B7  # the mode whose message is on the panel
SHOWN_ITEMS = 0xC0B8  # the hearts and the key that are on the panel: 4 for the key, and the number of hearts

# MODE
TITLE, PLAYING, WON, LOST = range(4)

# FACING
DOWN, UP, RIGHT, LEFT = range(4)

# Bits of HELD and PRESSED
BUTTON_A, BUTTON_B, BUTTON_SELECT, BUTTON_START, PAD_RIGHT, PAD_LEFT, PAD_UP, PAD_DOWN = range(8)

FULL_HEARTS = 3
HURT_FRAMES = 60
