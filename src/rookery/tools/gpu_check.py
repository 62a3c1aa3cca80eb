"""Whether there is a GPU, and whether torch can use it."""

from __future__ import annotations

import shutil
import subprocess

from rookery.tools.machine_facts import package_version

_QUERY = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]


def gpu_state() -> tuple[str, str, str]:
    """The state ("ok" or "note"), what was found, and the remedy."""
    cards, torch = _cards(), package_version("torch")
    if cards and torch and "+cpu" in torch:
        remedy = "torch is built without CUDA: install it from https://download.pytorch.org/whl/ for your driver"
        return "note", "; ".join(cards), remedy
    if cards:
        return "ok", "; ".join(cards), ""
    if torch and "+cpu" not in torch and (name := _torch_device()):
        return "ok", f"{name}, found by torch", ""
    return "ok", "none found; stepping envs does not need one", ""


def _cards() -> list[str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        answer = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def _torch_device() -> str | None:
    """Last resort: imports torch, which takes seconds."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "Apple GPU" if torch.backends.mps.is_available() else None
