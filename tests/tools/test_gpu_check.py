"""Which GPU the doctor finds, and what it says a run does on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.tools import doctor
from rookery.tools.doctor import CUDA, MPS, ROCM, gpu_state


class Driver:
    """NVIDIA's driver, as a machine with these cards has it."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def cuInit(self, flags: int) -> int:
        return 0 if self._names else 100

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self._names)
        return 0

    def cuDeviceGet(self, handle: Any, number: int) -> int:
        handle._obj.value = number
        return 0

    def cuDeviceGetName(self, name: Any, size: int, handle: Any) -> int:
        name.value = self._names[handle.value].encode()
        return 0

    def cuDeviceTotalMem_v2(self, size: Any, handle: Any) -> int:
        size._obj.value = 143771 << 20
        return 0


def no_driver() -> Driver:
    raise OSError("libcuda.so.1: cannot open shared object file")


def machine(
    monkeypatch: pytest.MonkeyPatch, folder: Path, card: str, torch: str | None, device: tuple[str, str] | None
) -> tuple[str, str, str]:
    """The state of a machine with this card, this version of torch, and this device that torch finds."""
    monkeypatch.setattr(doctor, "load_driver", (lambda: Driver(card)) if card.startswith("NVIDIA") else no_driver)
    monkeypatch.setattr(doctor, "AMD_DRIVER", folder if card == "AMD" else folder / "none")
    monkeypatch.setattr(doctor, "package_version", lambda name: torch)
    monkeypatch.setattr(doctor, "_torch_device", lambda: device)
    return gpu_state()


@pytest.mark.parametrize(
    ("card", "torch", "device", "state", "words", "remedy"),
    [
        ("NVIDIA H200", "2.11.0+cu130", None, "ok", ("NVIDIA H200, 143771 MiB", CUDA), ""),
        ("NVIDIA H200", "2.11.0+cpu", None, "note", ("NVIDIA H200",), "built without CUDA"),
        ("NVIDIA H200", "2.11.0+rocm6.4", None, "note", ("NVIDIA H200",), "built without CUDA"),
        ("AMD", "2.11.0+rocm6.4", ("Radeon PRO", ROCM), "ok", ("Radeon PRO", ROCM), ""),
        ("AMD", "2.11.0+cpu", None, "note", ("AMD GPU",), "built without ROCm"),
        ("", "2.11.0+rocm6.4", None, "note", ("none found by torch's ROCm",), "/dev/kfd"),
        ("", "2.11.0", ("Apple GPU", MPS), "ok", ("Apple GPU", "device='mps'", "CPU threads"), ""),
        ("", "2.11.0+cpu", None, "ok", ("none found",), ""),
        ("", None, None, "ok", ("none found",), ""),
    ],
)
def test_a_gpu_is_named_with_what_runs_on_it(
    card: str,
    torch: str | None,
    device: tuple[str, str] | None,
    state: str,
    words: tuple[str, ...],
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(doctor.platform, "system", lambda: "Linux")
    found = machine(monkeypatch, tmp_path, card, torch, device)
    assert found[0] == state and all(word in found[1] for word in words)
    assert remedy in found[2] and bool(remedy) == bool(found[2])


def test_a_driver_without_a_card_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "load_driver", Driver)
    assert doctor.nvidia_cards() == []
    monkeypatch.setattr(doctor, "load_driver", lambda: Driver("NVIDIA A", "NVIDIA B"))
    assert doctor.nvidia_cards() == ["NVIDIA A, 143771 MiB", "NVIDIA B, 143771 MiB"]


def test_a_mac_whose_torch_finds_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "arm64")
    state, found, remedy = machine(monkeypatch, tmp_path, "", "1.11.0", None)
    assert state == "note" and "Apple GPU" in found and "macOS" in remedy
