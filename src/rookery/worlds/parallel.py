"""Moved to `rookery.kernel.parallel_env`; found here too by programs that were written before."""

from rookery.kernel.parallel_env import KernelParallelEnv

__all__ = ["KernelParallelEnv"]
