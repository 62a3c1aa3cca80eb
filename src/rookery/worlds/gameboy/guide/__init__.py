"""Guidance: hints from outside the game, from a program or a language model, that add to the reward and fade out."""
