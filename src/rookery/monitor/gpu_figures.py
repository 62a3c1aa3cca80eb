"""Load, memory and power of the GPU that a run uses: NVIDIA's by `pynvml` or `nvidia-smi`, AMD's by `rocm-smi`.

What a GPU does not report is left out: a part of one (MIG) has no load, and many laptops no power. A GPU that fails
leaves no figures, and must not end a run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

UNKNOWN = 1 << 31  # NVML has the largest number of its type for what it does not know; no percentage or mW is so large
LARGEST_MEMORY = 1 << 60
TOOL_SECONDS, TOOL_TIMEOUT = 10.0, 30.0  # between two calls of a tool, and until it is given up
SMI_UNITS = {
    "utilization.gpu": ("system/gpu", 0.01), "memory.used": ("system/gpu_memory", 2**20),
    "memory.total": ("system/gpu_memory_total", 2**20), "power.draw": ("system/gpu_power", 1),
}  # fmt: skip
MISSING = "the load, memory and power of the GPU are shown with nvidia-ml-py: pip install 'rookery[gpu]'"


class GpuReader(Protocol):
    """Reads the figures of one GPU."""

    def read(self) -> dict[str, float]:
        """`system/gpu`, `system/gpu_memory`, `system/gpu_memory_total` and `system/gpu_power`, as far as known."""

    def close(self) -> None: ...


def open_gpu(index: int, uuid: str = "", rocm: bool = False) -> GpuReader | str:
    """A reader for the GPU that torch calls `cuda:index`; without one, a sentence for the user, or "".

    torch and NVML number GPUs differently: `uuid` tells which one it is. Without it, `CUDA_VISIBLE_DEVICES` is used.
    """
    if rocm:
        tool = shutil.which("rocm-smi")
        return RocmSmi(tool, _visible(index, ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"))) if tool else ""
    try:
        import pynvml
    except ImportError:
        tool = shutil.which("nvidia-smi")
        return NvidiaSmi(tool, uuid or _visible(index, ("CUDA_VISIBLE_DEVICES",))) if tool else MISSING
    try:
        return Nvml(pynvml, index, uuid)
    except Exception as error:  # noqa: BLE001 - no driver, another version of it, a container without rights
        return f"the GPU's load, memory and power are not known: {error}"


class Nvml:
    """NVIDIA's management library, by its Python module `pynvml`."""

    def __init__(self, pynvml: Any, index: int, uuid: str = "") -> None:
        self._nvml = pynvml
        pynvml.nvmlInit()
        self._handle = _handle(pynvml, index, uuid)

    def read(self) -> dict[str, float]:
        nvml, handle = self._nvml, self._handle
        figures: dict[str, float] = {}
        with suppress(Exception):
            figures |= _known("system/gpu", nvml.nvmlDeviceGetUtilizationRates(handle).gpu, 0.01, UNKNOWN)
        with suppress(Exception):
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            figures |= _known("system/gpu_memory", memory.used, 1, LARGEST_MEMORY)
            figures |= _known("system/gpu_memory_total", memory.total, 1, LARGEST_MEMORY)
        with suppress(Exception):
            figures |= _known("system/gpu_power", nvml.nvmlDeviceGetPowerUsage(handle), 0.001, UNKNOWN)
        return figures

    def close(self) -> None:
        with suppress(Exception):
            self._nvml.nvmlShutdown()


def _handle(nvml: Any, index: int, uuid: str) -> Any:
    """The device by its UUID, else by its number among the visible ones."""
    for prefix in ("GPU-", "MIG-") if uuid else ():
        with suppress(Exception):
            return nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(prefix) else prefix + uuid)
    place = _visible(index, ("CUDA_VISIBLE_DEVICES",))
    if isinstance(place, str):
        return nvml.nvmlDeviceGetHandleByUUID(place)
    return nvml.nvmlDeviceGetHandleByIndex(place)


def _visible(index: int, variables: tuple[str, ...]) -> int | str:
    """The number or the UUID of the device that a program sees as number `index`."""
    for name in variables:
        words = [word.strip() for word in os.environ.get(name, "").split(",")]
        if index < len(words) and words[index]:
            return int(words[index]) if words[index].isdigit() else words[index]
    return index


def _known(name: str, value: Any, unit: float, limit: float) -> dict[str, float]:
    """The value in other units; {} if the library has no number."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < limit
    return {name: value * unit} if known else {}


class GpuTool:
    """A vendor's tool. It takes up to a second, so it runs beside the training: a reading is that of the last call."""

    def __init__(
        self,
        command: list[str],
        figures: Callable[[bytes], dict[str, float]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`figures` reads them from what the command prints."""
        self._command, self._figures, self._clock = command, figures, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._called = -TOOL_SECONDS
        self._fails = False

    def read(self) -> dict[str, float]:
        figures = self._take()
        if self._process is None and not self._fails and self._clock() - self._called >= TOOL_SECONDS:
            self._called = self._clock()
            self._start()
        return figures

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError:
            self._fails = True

    def _take(self) -> dict[str, float]:
        """The figures of a call that is over. One that hangs is given up, and not tried again."""
        if self._process is None:
            return {}
        if self._process.poll() is None:
            if self._clock() - self._called > TOOL_TIMEOUT:
                self._fails = True
                self.close()
            return {}
        output, _ = self._process.communicate()
        self._process = None
        return self._figures(output)


class NvidiaSmi(GpuTool):
    """NVIDIA's tool, which comes with the driver: for machines without `pynvml`."""

    def __init__(self, tool: str, gpu: int | str, clock: Callable[[], float] = time.monotonic) -> None:
        """`gpu` is its number or its UUID."""
        named = gpu if isinstance(gpu, int) or gpu.startswith(("GPU-", "MIG-")) else f"GPU-{gpu}"
        command = [tool, f"--query-gpu={','.join(SMI_UNITS)}", "--format=csv,noheader,nounits", f"--id={named}"]
        super().__init__(command, nvidia_figures, clock)


class RocmSmi(GpuTool):
    """AMD's tool."""

    def __init__(self, tool: str, index: int | str, clock: Callable[[], float] = time.monotonic) -> None:
        command = [tool, "--showuse", "--showmeminfo", "vram", "--showpower", "--json"]
        super().__init__(command, partial(rocm_figures, card=f"card{index}"), clock)


def nvidia_figures(output: bytes) -> dict[str, float]:
    """The figures in the output of nvidia-smi, which has a word in brackets for what is not known.

    >>> nvidia_figures(b"45, 3000, 81559, [N/A]")
    {'system/gpu': 0.45, 'system/gpu_memory': 3145728000.0, 'system/gpu_memory_total': 85520809984.0}
    """
    line = output.decode(errors="replace").strip().partition("\n")[0]
    figures: dict[str, float] = {}
    for (name, unit), word in zip(SMI_UNITS.values(), line.split(","), strict=False):
        with suppress(ValueError):
            figures |= _known(name, float(word), unit, UNKNOWN)
    return figures


def rocm_figures(output: bytes, card: str) -> dict[str, float]:
    """The figures in the JSON output of rocm-smi. The names of the power differ between its versions.

    >>> rocm_figures(b'{"card0": {"GPU use (%)": "12", "Average Graphics Package Power (W)": "35.0"}}', "card0")
    {'system/gpu': 0.12, 'system/gpu_power': 35.0}
    """
    try:
        found = json.loads(output)[card]
        values = {str(name).lower(): float(value) for name, value in _numbers(found)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    figures: dict[str, float] = {}
    for name, value in values.items():
        if name == "gpu use (%)":
            figures |= _known("system/gpu", value, 0.01, UNKNOWN)
        elif name == "vram total used memory (b)":
            figures |= _known("system/gpu_memory", value, 1, LARGEST_MEMORY)
        elif name == "vram total memory (b)":
            figures |= _known("system/gpu_memory_total", value, 1, LARGEST_MEMORY)
        elif name.endswith("package power (w)") and "max" not in name:
            figures |= _known("system/gpu_power", value, 1, UNKNOWN)
    return figures


def _numbers(found: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        with suppress(ValueError, TypeError):
            yield name, float(value)
