"""Figures of a GPU: by a library or a tool that may be missing, old, or without an answer."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.monitor import gpu_figures
from rookery.monitor.gpu_figures import MISSING, NvidiaSmi, RocmSmi, nvidia_figures, open_gpu, rocm_figures

NO_ANSWER = 2**64 - 1
CARD = {
    "GPU use (%)": "12",
    "VRAM Total Memory (B)": "17163091968",
    "VRAM Total Used Memory (B)": "27676672",
    "Average Graphics Package Power (W)": "35.0",
}
SHOWN = {
    "system/gpu": 0.12,
    "system/gpu_memory_total": 17163091968.0,
    "system/gpu_memory": 27676672.0,
    "system/gpu_power": 35.0,
}


class NvmlError(Exception):
    pass


class FakeNvml(SimpleNamespace):
    """`pynvml` with two GPUs of 80 GB. What is given as an exception is raised."""

    def __init__(
        self, gpu: Any = 45, used: Any = 3e9, total: Any = 8e10, power: Any = 121_700, init: Any = None
    ) -> None:
        super().__init__(gpu=gpu, used=used, total=total, power=power, init=init, chosen=[], shut=0)

    def nvmlInit(self) -> None:
        _answer(self.init)

    def nvmlShutdown(self) -> None:
        self.shut += 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self.chosen.append(index)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in ("GPU-aa-bb", "MIG-cc-dd"):
            raise NvmlError("Not Found")
        self.chosen.append(uuid)
        return uuid

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:
        return SimpleNamespace(gpu=_answer(self.gpu))

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        return SimpleNamespace(used=_answer(self.used), total=_answer(self.total))

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> Any:
        return _answer(self.power)


def _answer(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def figures_of(monkeypatch: pytest.MonkeyPatch, nvml: Any, index: int = 0, uuid: str = "") -> dict[str, float]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    reader = open_gpu(index, uuid)
    assert not isinstance(reader, str), reader
    found = reader.read()
    reader.close()
    return found


def test_load_memory_and_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares from 0 to 1, bytes, watts; the library is closed."""
    nvml = FakeNvml()
    found = figures_of(monkeypatch, nvml)
    assert found == {
        "system/gpu": pytest.approx(0.45), "system/gpu_memory": 3e9, "system/gpu_memory_total": 8e10,
        "system/gpu_power": pytest.approx(121.7),
    }  # fmt: skip
    assert nvml.shut == 1


@pytest.mark.parametrize("missing", [NvmlError("Not Supported"), None, NO_ANSWER, "N/A", AttributeError("old")])
def test_what_a_gpu_does_not_say_is_left_out(missing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a GPU (MIG) knows its memory alone."""
    found = figures_of(monkeypatch, FakeNvml(gpu=missing, power=missing))
    assert found == {"system/gpu_memory": 3e9, "system/gpu_memory_total": 8e10}
    assert figures_of(monkeypatch, FakeNvml(missing, missing, missing, missing)) == {}


def test_without_the_package_there_is_a_hint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert open_gpu(0) == MISSING and "pip install 'rookery[gpu]'" in MISSING


@pytest.mark.parametrize(("uuid", "chosen"), [("", "--id=3"), ("aa-bb", "--id=GPU-aa-bb"), ("MIG-c", "--id=MIG-c")])
def test_without_the_package_the_drivers_tool_is_asked(
    uuid: str, chosen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It comes with every driver, and runs beside the training."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    fake_tool(tmp_path, f"echo '45, 3000, 80000, 121.7'; echo $* > {tmp_path}/given", "nvidia-smi")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    reader = open_gpu(0, uuid)
    assert isinstance(reader, NvidiaSmi) and reader.read() == {}
    for _ in range(500):
        if found := reader.read():
            break
        time.sleep(0.01)
    assert found["system/gpu"] == pytest.approx(0.45) and found["system/gpu_power"] == pytest.approx(121.7)
    assert found["system/gpu_memory"] == 3000 * 2**20 and chosen in (tmp_path / "given").read_text().split()
    reader.close()


def test_what_the_drivers_tool_does_not_say_is_left_out() -> None:
    assert nvidia_figures(b"[N/A], 12, 100, [Not Supported]\n").keys() == {
        "system/gpu_memory",
        "system/gpu_memory_total",
    }
    assert nvidia_figures(b"No devices were found\n") == nvidia_figures(b"") == nvidia_figures(b"\xff") == {}


@pytest.mark.parametrize("error", [NvmlError("Driver Not Loaded"), OSError("libnvidia-ml.so.1"), AttributeError("x")])
def test_without_a_driver_the_reason_is_told(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(init=error))
    told = open_gpu(0)
    assert isinstance(told, str) and str(error) in told


@pytest.mark.parametrize(
    ("index", "uuid", "visible", "chosen"),
    [
        (0, "", None, 0),
        (1, "", None, 1),
        (0, "", "3,1", 3),
        (1, "", "3, 1", 1),
        (0, "", "GPU-aa-bb", "GPU-aa-bb"),
        (1, "aa-bb", "3,1", "GPU-aa-bb"),
        (0, "GPU-aa-bb", "", "GPU-aa-bb"),
        (0, "cc-dd", None, "MIG-cc-dd"),
        (1, "not-known", "0,2", 2),
    ],
)
def test_it_is_the_gpu_that_torch_uses(
    index: int, uuid: str, visible: str | None, chosen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch counts visible GPUs, NVML counts all of them."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = FakeNvml()
    figures_of(monkeypatch, nvml, index, uuid)
    assert nvml.chosen == [chosen]


# --- AMD ----------------------------------------------------------------------------------------------------------


def test_the_output_of_rocm_smi() -> None:
    newer = {**CARD, "Current Socket Graphics Package Power (W)": CARD["Average Graphics Package Power (W)"]}
    del newer["Average Graphics Package Power (W)"]
    for card in (CARD, newer, {**CARD, "Max Graphics Package Power (W)": "225.0"}):
        assert rocm_figures(json.dumps({"card0": {}, "card1": card, "system": {}}).encode(), "card1") == SHOWN
    assert rocm_figures(json.dumps({"card1": {**CARD, "GPU use (%)": "N/A"}}).encode(), "card1").keys() < SHOWN.keys()


@pytest.mark.parametrize(
    "output", [b"", b"[]", b"{}", b"WARNING: no GPU", b'{"card0": []}', b'{"card0": null}', b"\xff"]
)
def test_other_output_is_no_figures(output: bytes) -> None:
    assert rocm_figures(output, "card0") == {}


def fake_tool(folder: Path, body: str, name: str = "rocm-smi") -> Path:
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    return tool


def test_the_tool_runs_beside_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found on the path; nobody waits for it; its figures come with a later reading, once."""
    fake_tool(tmp_path, f"echo '{json.dumps({'card2': CARD})}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0,2")
    reader = open_gpu(1, rocm=True)
    assert isinstance(reader, RocmSmi)
    assert reader.read() == {}
    for _ in range(500):
        if found := reader.read():
            break
        time.sleep(0.01)
    assert found == SHOWN and reader.read() == {}
    reader.close()


def test_a_tool_that_hangs_is_given_up(tmp_path: Path) -> None:
    ticks = [0.0]
    reader = RocmSmi(str(fake_tool(tmp_path, "exec sleep 60")), 0, lambda: ticks[0])
    assert reader.read() == {} and reader._process is not None
    process = reader._process
    ticks[0] = gpu_figures.TOOL_TIMEOUT + 1
    assert reader.read() == {} and process.poll() is not None
    ticks[0] *= 2
    assert reader.read() == {} and reader._process is None


def test_no_tool_no_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert open_gpu(0, rocm=True) == ""
    reader = RocmSmi(str(tmp_path / "gone"), 0)
    assert reader.read() == reader.read() == {}
    reader.close()
