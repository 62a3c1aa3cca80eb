"""Calls of the CUDA driver, which is replaced by a recorder here: what it is given, and what its errors become."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import pytest

from rookery.errors import WorldError
from rookery.kernel import gpu_driver


class RecordingDriver:
    """Stands for libcuda: notes its calls and succeeds, or returns an error from one of them."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[str] = []
        self.failing, self.words = failing, []
        self.threads: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            self.threads.add(threading.get_ident())
            if name == "cuLaunchKernel":
                self._read_words(arguments[-1])
                self.grid = arguments[1:7]
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"no kernel image"
            return 209 if name == self.failing else 0

        return call

    def _read_words(self, extra: Any) -> None:
        """The arguments, as the driver reads them: a list of markers and addresses."""
        assert (extra[0], extra[2], extra[4]) == (1, 2, None)
        size = ctypes.c_size_t.from_address(extra[3]).value
        self.words = list((ctypes.c_int64 * (size // 8)).from_address(extra[1]))


@pytest.fixture
def driver(monkeypatch):
    made = RecordingDriver()
    monkeypatch.setattr(gpu_driver, "load_driver", lambda: made)
    return made


def test_a_launch_passes_its_words_in_order(driver):
    gpu_driver.GpuFunction("entry", b"code").launch(3, (32, 8), 7, (1, -2, 2**40))
    assert driver.calls == ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"]
    assert driver.words == [1, -2, 2**40]
    assert driver.grid == (3, 1, 1, 32, 8, 1)


def test_an_error_names_the_call_and_the_reason(driver):
    driver.failing = "cuModuleLoadData"
    with pytest.raises(WorldError, match=r"cuModuleLoadData of the CUDA driver failed: no kernel image \(209\)"):
        gpu_driver.GpuFunction("entry", b"code")


@pytest.mark.parametrize(("device", "opened"), [("cuda", 1), ("cuda:1", 1), ("cpu", 0), ("auto", 0), ("mps", 0)])
def test_a_context_is_opened_early_in_a_thread(driver, device, opened):
    gpu_driver.open_context_early(device)
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.daemon:
            thread.join(2.0)
    assert driver.calls.count("cuDevicePrimaryCtxRetain") == opened
    assert threading.get_ident() not in driver.threads


def test_without_a_driver_nothing_happens(monkeypatch):
    tried = []

    def missing() -> Any:
        tried.append(True)
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(gpu_driver, "load_driver", missing)
    gpu_driver._retain_context(0)
    assert tried == [True]
