"""What every fault test shares: a look around before and after, and engines that are closed whatever happens."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import rookery
from faults.watch import own_shared_memory
from rookery.engine.process import ProcessEngine
from rookery.engine.workers.child_process import PORTABLE
from rookery.engine.workers.forkserver import SERVERS

SETTLE_SECONDS = 3.0  # how long processes may take to disappear after a test
FAILED = pytest.StashKey[bool]()
Possessions = tuple[set[int], set[str], dict[str, str]]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of start methods, backends, modes and faults, every push has one diagonal."""
    item.add_marker("diagonal")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """No child process, nothing new in /dev/shm, and no more open files than before."""
    before = _possessions()
    gc.freeze()  # what lives now is no garbage of the test, and takes a second to look through
    yield
    if request.node.stash.get(FAILED, True):
        return  # pytest keeps the frames of a failed test, and with them what the test had open
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := _difference(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"left behind: {left}"


def _possessions() -> Possessions:
    gc.collect()
    servers = {server.pid for server in SERVERS}  # they stay for the next test
    children = {child.pid for child in psutil.Process().children(recursive=True)} - servers
    files = {}
    for name in {*os.listdir("/proc/self/fd")} - {str(server.fileno()) for server in SERVERS}:
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone by now
            files[name] = os.readlink(f"/proc/self/fd/{name}")
    # On aarch64, torch opens descriptions of the processor when it is imported, and keeps them open.
    files = {name: target for name, target in files.items() if not target.startswith("/sys/devices/system/cpu/")}
    return children, own_shared_memory(), files


def _difference(before: Possessions) -> str:
    children, memory, files = _possessions()
    found = []
    if children - before[0]:
        found.append(f"processes {sorted(children - before[0])}")
    if memory - before[1]:
        found.append(f"in /dev/shm {sorted(memory - before[1])}")
    if len(files) > len(before[2]):
        new = [target for name, target in files.items() if before[2].get(name) != target]
        found.append(f"{len(files)} open files instead of {len(before[2])}, new: {new}")
    return "; ".join(found)


@pytest.fixture
def make() -> Iterator[Callable[..., rookery.Engine]]:
    """`rookery.make_vec`, with every engine closed at the end of the test. Workers are forked unless a test says
    otherwise: ten times quicker, and the start methods have tests of their own."""
    engines: list[rookery.Engine] = []

    def make_vec(*args: Any, **kwargs: Any) -> rookery.Engine:
        options = {"close_timeout": 2.0, "start_method": "spawn" if PORTABLE else "fork", **kwargs}
        engines.append(rookery.make_vec(*args, **options))
        return engines[-1]

    yield make_vec
    for engine in engines:
        with contextlib.suppress(Exception):  # close() may tell what the test is about
            engine.close()
    engines.clear()


@pytest.fixture
def workers_started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by the number of each worker that an engine starts."""
    started: list[int] = []
    start = ProcessEngine._start_worker

    def counted(self: ProcessEngine, number: int) -> Any:
        started.append(number)
        return start(self, number)

    monkeypatch.setattr(ProcessEngine, "_start_worker", counted)
    return started


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A file in which envs of any process write down what happened to them."""
    return tmp_path / "diary"
