"""Accelerators: the same numbers as the plain learners, sooner."""
