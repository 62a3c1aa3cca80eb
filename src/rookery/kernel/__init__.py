"""Kernel worlds: the contract, the compilers for CPU and GPU, and what runs the compiled code.

The names here are for authors of worlds: the class to derive from, its tables, random numbers, helpers of
large worlds, and one env of a world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.kernel.declarations import inlined, mark_problem, not_inlined, whole
    from rookery.kernel.kernel_env import KernelEnv
    from rookery.kernel.parallel_env import KernelParallelEnv
    from rookery.kernel.random import integer, normal, uniform
    from rookery.kernel.tables import Table, TableWindow
    from rookery.kernel.world import KernelWorld

__all__ = [
    "KernelEnv",
    "KernelParallelEnv",
    "KernelWorld",
    "Table",
    "TableWindow",
    "inlined",
    "integer",
    "mark_problem",
    "normal",
    "not_inlined",
    "uniform",
    "whole",
]

__getattr__, __dir__ = lazy_names(__name__)
