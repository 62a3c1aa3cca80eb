"""Runs: a world, a learner and a folder that remembers."""
