"""Moved to `rookery.kernel.kernel_env`; the old import path still works."""

from rookery.kernel.kernel_env import KernelEnv

__all__ = ["KernelEnv"]
