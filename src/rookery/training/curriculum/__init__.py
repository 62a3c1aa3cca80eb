"""Phases of a run, opponents, shaped rewards."""
