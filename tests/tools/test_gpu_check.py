"""Which GPU the doctor finds, and what it says a run does on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.tools import gpu_check
from rookery.tools.gpu_check import CUDA, MPS, ROCM, gpu_state

TOOLS = {
    "nvidia-smi": "NVIDIA H200, 143771 MiB, 570.1",
    "rocm-smi": json.dumps({"card0": {"Card Series": "Radeon RX 7900"}, "card1": {"Card series": "Instinct MI300"}}),
    "broken": "",
}


def machine(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tool: str, torch: str | None, device: tuple[str, str] | None
) -> tuple[str, str, str]:
    """The state of a machine with this tool, this version of torch, and this device that torch finds."""
    if tool:
        name = "rocm-smi" if tool == "broken" else tool
        (folder / name).write_text(f"#!/bin/sh\ncat <<'end'\n{TOOLS[tool]}\nend\n")
        (folder / name).chmod(0o755)
    (folder / "cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(gpu_check, "package_version", lambda name: torch)
    monkeypatch.setattr(gpu_check, "_torch_device", lambda: device)
    return gpu_state()


@pytest.mark.parametrize(
    ("tool", "torch", "device", "state", "words", "remedy"),
    [
        ("nvidia-smi", "2.11.0+cu130", None, "ok", ("NVIDIA H200", CUDA), ""),
        ("nvidia-smi", "2.11.0+cpu", None, "note", ("NVIDIA H200",), "built without CUDA"),
        ("nvidia-smi", "2.11.0+rocm6.4", None, "note", ("NVIDIA H200",), "built without CUDA"),
        ("rocm-smi", "2.11.0+rocm6.4", None, "ok", ("Radeon RX 7900; Instinct MI300", ROCM), ""),
        ("rocm-smi", "2.11.0+cpu", None, "note", ("Radeon RX 7900",), "built without ROCm"),
        ("broken", "2.11.0+rocm6.4", ("Radeon PRO", ROCM), "ok", ("Radeon PRO", ROCM), ""),
        ("", "2.11.0+rocm6.4", None, "note", ("none found by torch's ROCm",), "/dev/kfd"),
        ("", "2.11.0", ("Apple GPU", MPS), "ok", ("Apple GPU", "device='mps'", "CPU threads"), ""),
        ("", "2.11.0+cpu", None, "ok", ("none found",), ""),
        ("", None, None, "ok", ("none found",), ""),
    ],
)
def test_a_gpu_is_named_with_what_runs_on_it(
    tool: str,
    torch: str | None,
    device: tuple[str, str] | None,
    state: str,
    words: tuple[str, ...],
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(gpu_check.platform, "system", lambda: "Linux")
    found = machine(monkeypatch, tmp_path, tool, torch, device)
    assert found[0] == state and all(word in found[1] for word in words)
    assert remedy in found[2] and bool(remedy) == bool(found[2])


def test_a_mac_whose_torch_finds_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_check.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(gpu_check.platform, "machine", lambda: "arm64")
    state, found, remedy = machine(monkeypatch, tmp_path, "", "1.11.0", None)
    assert state == "note" and "Apple GPU" in found and "macOS" in remedy
