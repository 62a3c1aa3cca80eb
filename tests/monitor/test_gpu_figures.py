"""Figures of a GPU: by libraries that may be missing, old, or without an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rookery.monitor.system_figures import MISSING, GpuFigures

NO_ANSWER = 2**64 - 1


class FakeCuda(SimpleNamespace):
    """`torch.cuda` with GPUs of 80 GB. What is given as an exception is raised."""

    def __init__(self, gpu: Any = 45, free: Any = 77e9, power: Any = 121_700) -> None:
        super().__init__(gpu=gpu, free=free, power=power, asked=set())

    def utilization(self, device: Any) -> Any:
        self.asked.add(device)
        return _answer(self.gpu)

    def mem_get_info(self, device: Any) -> Any:
        self.asked.add(device)
        return _answer(self.free), 8e10

    def power_draw(self, device: Any) -> Any:
        self.asked.add(device)
        return _answer(self.power)


def _answer(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def test_load_memory_and_power() -> None:
    """Shares from 0 to 1, bytes, watts, all of the run's own GPU."""
    cuda = FakeCuda()
    gpu = GpuFigures(cuda, 1)
    assert gpu.problem() == "" and gpu.read() == {
        "system/gpu": pytest.approx(0.45), "system/gpu_memory": 3e9, "system/gpu_memory_total": 8e10,
        "system/gpu_power": pytest.approx(121.7),
    }  # fmt: skip
    assert cuda.asked == {1}


def test_torch_has_watts_of_amds_gpus() -> None:
    """Milliwatts are those of NVIDIA's alone."""
    assert GpuFigures(FakeCuda(power=35), 0, rocm=True).read()["system/gpu_power"] == 35


@pytest.mark.parametrize("missing", [RuntimeError("Not Supported"), None, NO_ANSWER, "N/A", AttributeError("old")])
def test_what_a_gpu_does_not_say_is_left_out(missing: Any) -> None:
    """A part of a GPU (MIG) knows its memory alone."""
    found = GpuFigures(FakeCuda(gpu=missing, power=missing), 0).read()
    assert found == {"system/gpu_memory": 3e9, "system/gpu_memory_total": 8e10}


def test_a_gpu_that_fails_has_no_figures() -> None:
    error = RuntimeError("the driver is gone")
    assert GpuFigures(FakeCuda(error, error, error), 0).read() == {}


def test_without_the_package_there_is_a_hint() -> None:
    """Of AMD's package, which comes with ROCm, torch says what is missing."""
    cuda = FakeCuda(gpu=ModuleNotFoundError("amdsmi does not seem to be installed"))
    assert GpuFigures(cuda, 0).problem() == MISSING and "pip install 'rookery[gpu]'" in MISSING
    assert "amdsmi" in GpuFigures(cuda, 0, rocm=True).problem()


@pytest.mark.parametrize("error", [RuntimeError("Driver Not Loaded"), OSError("libnvidia-ml.so.1")])
def test_without_a_driver_the_reason_is_told(error: Exception) -> None:
    assert str(error) in GpuFigures(FakeCuda(gpu=error), 0).problem()
