"""Looking into a game: play it, find out which bytes of its memory mean what, and write that into a profile.

`session` is a game that is being explored, `commands` are the words for it, and `terminal`, `window` and `script` are
the places where these come from. None of the first two reads a key or draws anything.
"""
