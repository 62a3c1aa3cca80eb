"""Moved to `rookery.kernel.kernel_env`; found here too by programs that were written before."""

from rookery.kernel.kernel_env import KernelEnv

__all__ = ["KernelEnv"]
