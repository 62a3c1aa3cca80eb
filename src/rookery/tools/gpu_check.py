"""Whether there is a GPU, whether torch can use it, and what a run does on it.

NVIDIA's are found by `nvidia-smi`, AMD's by `rocm-smi` or the version of torch, Apple's by torch.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess

from rookery.tools.machine_facts import package_version

WHEELS = "https://download.pytorch.org/whl/"
CUDA = "device='cuda' trains on it: kernel worlds step on the GPU too (backend='cuda'), others on CPU cores"
ROCM = "device='cuda' trains on it, by torch's ROCm; kernel worlds step on CPU threads (backend='kernel')"
MPS = "device='mps' trains on it, in single precision; kernel worlds step on CPU threads (backend='kernel')"
_NVIDIA = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
_AMD = ["rocm-smi", "--showproductname", "--json"]


def gpu_state() -> tuple[str, str, str]:
    """The state ("ok" or "note"), what was found, and the remedy."""
    torch = package_version("torch") or ""
    nvidia, amd = _nvidia_cards(), _amd_cards()
    if nvidia:
        return _found(nvidia, CUDA, "CUDA" if "+cpu" in torch or "+rocm" in torch else "")
    if amd or "+rocm" in torch:
        if torch and "+rocm" not in torch:
            return _found(amd, ROCM, "ROCm")
        name = "; ".join(amd) or (_torch_device() or ("",))[0]
        return ("ok", f"{name}: {ROCM}", "") if name else ("note", "none found by torch's ROCm", _no_rocm_device())
    found = _torch_device() if torch and "+cpu" not in torch else None
    if found is not None:
        return "ok", f"{found[0]}, found by torch: {found[1]}", ""
    if platform.system() == "Darwin" and platform.machine() == "arm64" and torch:
        return "note", f"an Apple GPU, which torch {torch} does not find", "update macOS (12.3 or later) and torch"
    return "ok", "none found; stepping envs does not need one", ""


def _found(cards: list[str], what: str, missing: str) -> tuple[str, str, str]:
    """Cards that are there; `missing` is what torch was built without."""
    if missing:
        remedy = f"torch is built without {missing}: install it from {WHEELS} for your driver"
        return "note", "; ".join(cards), remedy
    return "ok", f"{'; '.join(cards)}: {what}", ""


def _no_rocm_device() -> str:
    return "the user needs access to /dev/kfd and /dev/dri: usually by the groups render and video"


def _nvidia_cards() -> list[str]:
    return [line.strip() for line in _output(_NVIDIA).splitlines() if line.strip()]


def _amd_cards() -> list[str]:
    try:
        cards = json.loads(_output(_AMD))
        names = [card.get("Card Series") or card.get("Card series") or name for name, card in cards.items()]
    except (ValueError, AttributeError):
        return []
    return [str(name) for name in names]


def _output(command: list[str]) -> str:
    """What a tool prints; "" if it is missing or fails."""
    program = shutil.which(command[0])
    if program is None:
        return ""
    try:
        answer = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout


def _torch_device() -> tuple[str, str] | None:
    """The name of the GPU that torch finds, and what a run does on it. Imports torch, which takes seconds."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name(), CUDA if torch.version.hip is None else ROCM
    return ("Apple GPU", MPS) if torch.backends.mps.is_available() else None
