"""Moved to `rookery.kernel.random`; found here too by programs that were written before."""

from rookery.kernel.random import integer, normal, uniform

__all__ = ["integer", "normal", "uniform"]
