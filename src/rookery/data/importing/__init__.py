"""Reads bars from files and objects that other programs made. Nothing is guessed in silence, and no pickle is read."""
