"""Kernel worlds: the contract, the compilers for CPU and GPU, and what runs the compiled code."""
