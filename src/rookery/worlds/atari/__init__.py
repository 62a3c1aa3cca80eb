"""Atari games of ale-py, with the preprocessing that the field uses."""
