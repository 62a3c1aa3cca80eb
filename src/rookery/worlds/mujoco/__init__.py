"""Robots simulated by MuJoCo, whose own C functions compiled code calls."""
