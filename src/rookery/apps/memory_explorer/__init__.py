"""The memory explorer: play a Game Boy game, find out what the bytes of its memory mean, and write a profile.

`session` holds the game being explored and `explorer_commands` executes text commands on it; neither reads keys nor
draws. `explorer_terminal` and `window` are the front ends, with the same `controls`.
"""
