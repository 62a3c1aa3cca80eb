"""Runs on many machines, by Ray. Nothing else of rookery imports Ray."""
