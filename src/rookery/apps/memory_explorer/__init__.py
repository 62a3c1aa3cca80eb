"""The memory explorer: play a Game Boy game, find out what the bytes of its memory mean, and write a profile.

`session` holds the game being explored and `commands` executes text commands on it; neither reads keys nor draws.
`terminal`, `window` and `script` are the front ends.
"""
