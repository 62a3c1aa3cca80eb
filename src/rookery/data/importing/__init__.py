"""Reads bars from files and objects that other programs made. Nothing is guessed silently, and no pickle is read."""
