"""Faster code that replaces methods of algorithms, with the same results."""
