"""Moved to `rookery.kernel.random`; the old import path still works."""

from rookery.kernel.random import integer, normal, uniform

__all__ = ["integer", "normal", "uniform"]
