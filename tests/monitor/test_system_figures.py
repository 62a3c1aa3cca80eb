"""CPU, memory and GPU of a run: as metrics, and in the panel."""

from __future__ import annotations

import os
from typing import Any

import pytest

from monitor import telling
from monitor.test_gpu_figures import FakeCuda
from monitor.test_live_panel import rendered
from rookery.monitor import system_figures
from rookery.monitor.system_figures import GpuFigures, SystemFigures


class Machine:
    """A clock and processes that are set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int = 4) -> None:
        self.now, self.cost = 100.0, 0.0
        self.main: dict[str, Any] = {"pid": os.getpid(), "cpu_seconds": 10.0, "memory": 400e6}
        monkeypatch.setattr(system_figures, "process_usage", self.usage)
        monkeypatch.setattr(system_figures, "usable_cores", lambda: cores)
        monkeypatch.setattr(system_figures, "available_memory", lambda: 4e9)

    def usage(self, pid: int) -> dict[str, Any]:
        assert pid == os.getpid()
        self.now += self.cost
        return self.main

    def clock(self) -> float:
        return self.now


def worker(pid: int, cpu_seconds: float, memory: float = 100e6) -> dict[str, Any]:
    return {"pid": pid, "cpu_seconds": cpu_seconds, "memory": memory, "envs": 4, "steps": 7}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_main_process_and_workers_are_added_up(machine: Machine) -> None:
    """Two of four cores were busy for ten seconds: the main process half of the time, the workers three quarters."""
    figures = SystemFigures(clock=machine.clock)
    first = figures.sample([worker(11, 0.0), worker(12, 50.0)])
    assert "system/cpu" not in first
    machine.now += 10.0
    machine.main["cpu_seconds"] += 5.0
    assert figures.sample([worker(11, 7.5), worker(12, 57.5, 250e6)]) == {
        "system/cpu": 0.5, "system/memory": 750e6, "system/memory_main": 400e6, "system/memory_worker_0": 100e6,
        "system/memory_worker_1": 250e6,
    }  # fmt: skip


def test_workers_in_this_process_are_not_counted_twice(machine: Machine) -> None:
    """Threads and kernels: `stats()` names the main process for each of them."""
    figures = SystemFigures(clock=machine.clock)
    mine = [machine.main, machine.main]
    assert figures.sample(mine) == {"system/memory": 400e6}
    machine.now += 10.0
    machine.main = {**machine.main, "cpu_seconds": 30.0}
    assert figures.sample([machine.main, machine.main]) == {"system/cpu": 0.5, "system/memory": 400e6}


def test_a_restarted_worker_counts_from_its_beginning(machine: Machine) -> None:
    figures = SystemFigures(clock=machine.clock)
    figures.sample([worker(11, 1000.0)])
    machine.now += 10.0
    assert figures.sample([worker(99, 4.0)])["system/cpu"] == pytest.approx(0.1)


def test_samples_are_taken_by_the_clock_and_cost_little(machine: Machine) -> None:
    """Every two seconds; where a sample takes long, seldom enough."""
    figures = SystemFigures(clock=machine.clock)
    assert figures.due
    figures.sample([])
    assert not figures.due
    machine.now += 2.0
    assert figures.due
    machine.cost = 0.1
    figures.sample([])
    machine.now += 20.0
    assert not figures.due
    machine.now += 20.0
    assert figures.due


def test_growing_memory_is_told_once(machine: Machine) -> None:
    """By whose it is; notes from the start come first."""
    figures = SystemFigures(notes=["from the start"], clock=machine.clock)
    told = []
    for k in range(100):
        machine.now += 6.0
        figures.sample([worker(11, 0.0, 1e9 + 1e8 * k)])
        told += figures.take_notes()
    assert len(told) == 2 and told[0] == "from the start" and "memory of the workers grows" in told[1]


def test_more_envs_are_no_leak(machine: Machine) -> None:
    """Their number is changed all the time, as in an adaptive run."""
    figures = SystemFigures(clock=machine.clock)
    for k in range(100):
        machine.now += 6.0
        figures.sample([{**worker(11, 0.0, 1e9 + 1e8 * k), "envs": 8 + k // 4}])
    assert not figures.take_notes()


def test_the_gpu_is_read_with_the_rest(machine: Machine) -> None:
    figures = SystemFigures(GpuFigures(FakeCuda(gpu=50), 0), clock=machine.clock)
    assert figures.sample([])["system/gpu"] == 0.5


@pytest.mark.parametrize("width", [80, 120])
def test_the_panel_shows_them(width: int) -> None:
    """In one row or two; no text is divided."""
    used = {
        "system/cpu": 0.874, "system/memory": 1.25e9, "system/memory_main": 4e8, "system/memory_worker_0": 4e8,
        "system/memory_worker_1": 4.5e8, "system/gpu": 0.45, "system/gpu_memory": 3.1e9,
        "system/gpu_memory_total": 85e9, "system/gpu_power": 121.7,
    }  # fmt: skip
    text = "\n".join(rendered([telling.start(), telling.progress(500, 1010.0, **used)], width, 40))
    for expected in (
        "system     CPU 87 % of 8 cores   memory 1.2 GB   largest worker 450.0 MB",
        "GPU 45 %",
        "GPU memory 3.1 GB of 85.0 GB",
        "122 W",
    ):
        assert expected in text
