"""Compiled GPU code on disk: what is compiled, what is read, and what makes it compile again. The driver is replaced by
a recorder, so that no GPU is needed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kernel.trial_worlds import DoublePendulum, Portfolio, portfolio
from rookery.errors import WorldError
from rookery.kernel import cuda_code
from rookery.kernel.cuda_code import CachedKernel, array_words, kernels
from rookery.kernel.tables import Table


class RecordingFunction:
    """Stands for GpuFunction."""

    launched: list[tuple] = []
    refused: set[bytes] = set()

    def __init__(self, entry: str, code: bytes) -> None:
        if code in self.refused:
            raise WorldError("no kernel image is available")
        self.entry, self.code = entry, code

    def launch(self, *arguments) -> None:
        self.launched.append((self.entry, self.code, *arguments))


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A GPU without hardware, and an empty cache."""
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path))
    monkeypatch.setattr(cuda_code, "GpuFunction", RecordingFunction)
    monkeypatch.setattr(RecordingFunction, "launched", [])
    monkeypatch.setattr(RecordingFunction, "refused", set())
    state = SimpleNamespace(device=0, capability=(9, 0))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: state.device)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: state.capability)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=7))
    return state


def compiler(calls: list, code: bytes = b"machine code"):
    def compile_for(arguments):
        calls.append(arguments)
        return "entry", code

    return compile_for


def test_a_kernel_is_compiled_once_and_then_read_from_disk(gpu):
    calls: list = []
    for _ in range(2):  # two starts
        kernel = CachedKernel("world-gpu-step", "key", compiler(calls))
        for _ in range(3):
            kernel.launch(4, (128, 1), (1, 2, 3), ((1, 2), 3))
    assert calls == [((1, 2), 3)]
    assert RecordingFunction.launched == [("entry", b"machine code", 4, (128, 1), 7, (1, 2, 3), 0)] * 6


@pytest.mark.parametrize("change", ["key", "capability"])
def test_another_world_or_another_gpu_is_compiled_again(gpu, change):
    calls: list = []
    CachedKernel("world", "key", compiler(calls)).launch(1, (1, 1), (), ())
    if change == "capability":
        gpu.capability = (8, 6)
    CachedKernel("world", "other" if change == "key" else "key", compiler(calls)).launch(1, (1, 1), (), ())
    assert len(calls) == 2


def test_each_device_loads_its_own_copy_of_one_compiled_kernel(gpu):
    calls: list = []
    kernel = CachedKernel("world", "key", compiler(calls))
    for device in (0, 1, 0, 1):
        gpu.device = device
        kernel.launch(1, (1, 1), (), ())
    assert len(calls) == 1 and len(kernel._functions) == 2


def test_code_that_the_driver_refuses_is_compiled_again_and_replaced(gpu):
    CachedKernel("world", "key", compiler([], b"too new")).launch(1, (1, 1), (), ())
    RecordingFunction.refused = {b"too new"}
    calls: list = []
    CachedKernel("world", "key", compiler(calls, b"fits")).launch(1, (1, 1), (), ())
    assert len(calls) == 1
    CachedKernel("world", "key", compiler(calls, b"fits")).launch(1, (1, 1), (), ())
    assert len(calls) == 1  # the file was replaced


def test_a_damaged_file_is_compiled_again(gpu, tmp_path):
    calls: list = []
    CachedKernel("world", "key", compiler(calls)).launch(1, (1, 1), (), ())
    (file,) = tmp_path.glob("*.kernel")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    CachedKernel("world", "key", compiler(calls)).launch(1, (1, 1), (), ())
    assert len(calls) == 2


def test_kernels_of_a_world_are_shared_and_those_of_a_changed_world_are_not():
    class Changed(DoublePendulum):
        @staticmethod
        def step(state, action, params):
            reward, terminated = DoublePendulum.step(state, action, params)
            return reward + 1.0, terminated

    assert kernels(DoublePendulum()) is kernels(DoublePendulum())
    assert kernels(DoublePendulum()) is not kernels(Changed())


def test_the_sizes_of_tables_are_in_the_key():
    """They are constants in the code."""

    class AnySize(Portfolio):
        tables = {"prices": Table((None, None), "f8"), "volumes": Table((None, None), "f4")}

    given = portfolio(300)
    worlds = (given, AnySize(**given.tables), portfolio(400))
    keys = [kernels(world).step._key for world in worlds]
    assert keys[0] != keys[1] and keys[0] == keys[2]


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_tables_are_passed_as_numba_cuda_passes_arrays(shape):
    array = np.zeros(shape, np.float32)
    tensor = torch.from_numpy(array)
    assert array_words(tensor) == (0, 0, array.size, 4, array.ctypes.data, *shape, *array.strides)


def test_a_checked_kernel_has_memory_for_what_each_thread_notes(gpu):
    kernel = CachedKernel("world-gpu-step", "key", compiler([]), checked=True)
    kernel.launch(4, (128, 1), (1, 2, 3), ((1, 2), 3))
    assert RecordingFunction.launched[0][-1] == 128 * cuda_code.NOTED_BYTES


def test_checked_and_unchecked_kernels_are_stored_apart(gpu):
    """And the lines of a checked one count: its errors name them."""
    keys = {kernels(DoublePendulum(), checked).step._key for checked in (True, False)}
    assert len(keys) == 2
