"""Moved to `rookery.kernel.parallel_env`; the old import path still works."""

from rookery.kernel.parallel_env import KernelParallelEnv

__all__ = ["KernelParallelEnv"]
