"""Kernel worlds: the contract, the compilers for CPU and GPU, and what runs the compiled code.

The names here are for authors of worlds: the class to derive from, its tables, random numbers, helpers of
large worlds, and one env of a world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.kernel.declarations import (
        inlined as inlined,
        mark_problem as mark_problem,
        not_inlined as not_inlined,
        whole as whole,
    )
    from rookery.kernel.kernel_env import KernelEnv as KernelEnv
    from rookery.kernel.parallel_env import KernelParallelEnv as KernelParallelEnv
    from rookery.kernel.random import integer as integer, normal as normal, uniform as uniform
    from rookery.kernel.tables import Table as Table, TableWindow as TableWindow
    from rookery.kernel.world import KernelWorld as KernelWorld

__getattr__, __dir__, __all__ = lazy_names(__name__)
