"""What holds for the whole suite."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

import diagonal
import times

# Threads of torch that wait for their next part would keep other tests from the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What this user trusts is kept apart from what tests train with.
STATE = os.environ["ROOKERY_STATE"] = tempfile.mkdtemp(prefix="rookery-state-")


def pytest_configure(config: pytest.Config) -> None:
    """Tests see the notes of rookery in `caplog`, whose handler is at the root, which shows warnings only."""
    if folder := os.environ.get("ROOKERY_TEST_TIMES"):
        config.pluginmanager.register(times.Recorder(Path(folder)))
    config.pluginmanager.register(diagonal)
    logging.getLogger("rookery").setLevel(logging.INFO)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as for a script's background jobs, and all that they start
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What collection makes stays: to look for garbage in it takes an eighth of its time. A module adds its folder to
    the path although it is there: without its 30 copies, each import, in processes that tests start too, is faster."""
    gc.disable()
    try:
        return (yield)
    finally:
        sys.path[:] = dict.fromkeys(sys.path)
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Files without an example are not searched for one: each process of the tests does so, for a fifth of its
    collection."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule) or b">>> " in file_path.read_bytes()]


@pytest.fixture(autouse=True, scope="module")
def old_objects_are_no_garbage() -> None:
    """Tests that look for what is left behind collect garbage first, and Python does so by itself. What modules, the
    list of tests and compilers keep is none: looking through its millions of objects takes more than a second each
    time, a third of the whole suite."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_remembered(request, monkeypatch):
    """What another test has measured would change what this one does. The folder is made if it is requested."""
    monkeypatch.setattr("rookery.engine.cost_memory.cache_folder", lambda kind: request.getfixturevalue("tmp_path"))


@pytest.fixture(autouse=True)
def no_contest(request, monkeypatch):
    """Engines follow from the cost of a step: a busy machine does not change what is tested, and nothing is measured
    that is not asked for. `contests` are for tests of what is fastest."""
    if "contests" not in request.fixturenames:
        monkeypatch.setattr("rookery.engine.contest.LONG_ROUND", 0.0)


@pytest.fixture
def contests():
    """`auto` measures engines in turns, as it does for users."""


@pytest.fixture(autouse=True)
def runs_end_without_a_drawing(request, monkeypatch):
    """An empty file stands for the plot of a run, which takes half a second to draw, unless the test is about it."""
    if not request.node.get_closest_marker("draws"):
        monkeypatch.setattr("rookery.monitor.plot_process.plot_run", _empty_plot)


def _empty_plot(folder):
    from rookery.monitor.plots import learning_plot

    path = learning_plot(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def plain_python(request, monkeypatch):
    """Kernel worlds run in plain Python: to compile one that a single test steps a few times takes four CPU seconds. In
    `make test-all` they are compiled."""
    if diagonal.is_push(request.config):
        monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)


@pytest.fixture
def short_checks(request, monkeypatch):
    """`check_world` measures speeds for a moment, unless the test compares them."""
    if not request.node.get_closest_marker("alone"):
        monkeypatch.setattr("rookery.tools.kernel_checks.SPEED_SECONDS", 0.05)
        monkeypatch.setattr("rookery.tools.kernel_checks.BATCH_SECONDS", 0.05)
        monkeypatch.setattr("rookery.tools.kernel_checks.SPEED_WALL_SECONDS", 0.5)


@pytest.fixture
def all_allowed(monkeypatch):
    """For tests below the functions that users call, which allow what the user names (see rookery/gate.py)."""
    monkeypatch.setattr("rookery.gate._follows_parent", [True])


def pytest_unconfigure() -> None:
    shutil.rmtree(STATE, ignore_errors=True)
