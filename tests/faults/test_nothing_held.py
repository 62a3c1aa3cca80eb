"""An engine that has failed holds nothing of the system, though its error, and with it every frame, is kept."""

from __future__ import annotations

import errno
import itertools
import os
import re
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import rookery
from faults.envs import Act, Relapsing, Walk
from faults.watch import QUICKEST_FIRST, play
from rookery.errors import MemoryShortage, RestartLimit, StepTimeout, WorkerDied

pytestmark = pytest.mark.timeout(30)
Patch = pytest.MonkeyPatch


def possessions() -> tuple[list[str], list[int]]:
    """What the open files are, and the pids of all children. No garbage is collected first: nobody need do that. Memory
    of portable workers counts only while it has a name: without one, it is open until its last array is gone."""
    files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    open_files = sorted(os.readlink(file) for file in files if os.path.lexists(file))
    nameless = re.compile(r".*/rookery-\d+-[0-9a-f]+ \(deleted\)")
    return [name for name in open_files if not nameless.fullmatch(name)], [
        child.pid for child in psutil.Process().children(recursive=True)
    ]


def engine(method: str, world: Any = Walk, **options: Any) -> rookery.Engine:
    options = {"num_envs": 4, "workers": 2, "close_timeout": 2.0, "start_method": method, **options}
    envs = rookery.make_vec(world, backend="process", **options)
    envs.reset(seed=1)
    return envs


def limit_with(spare: int) -> int:
    """The limit of descriptors that leaves so many numbers free: those in use need not be the lowest."""
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    free = (number for number in itertools.count() if number not in taken)
    return next(itertools.islice(free, spare, None))


# --- errors that end an engine --------------------------------------------------------------------------------------


def an_env_that_fails_every_time(method: str, folder: Path, _: Patch) -> None:
    fail_every_time("step", method, folder)


def a_worker_that_dies_every_time(method: str, folder: Path, _: Patch) -> None:
    fail_every_time("death", method, folder)


def fail_every_time(where: str, method: str, folder: Path) -> None:
    world = partial(Relapsing, where, folder / "diary")
    envs = engine(method, world, num_envs=1, workers=1, on_failure="restart", max_restarts=1)
    for _ in range(9):
        envs.step(np.array([0]))


def a_killed_worker(method: str, *_: Any) -> None:
    envs = engine(method, copy=False)
    kept = envs.step(np.zeros(4, np.int64))[0]  # a view of the block
    envs.step(np.array([0, 0, 0, Act.SIGKILL]))
    del kept


def a_hung_step(method: str, *_: Any) -> None:
    play(engine(method, step_timeout=0.2), 1, {(0, 1): Act.SLEEP, (0, 3): Act.SLEEP})


class Fragile(Walk):
    """Cannot be built where there are many."""

    def __init__(self, folder: Path, most: int) -> None:
        super().__init__()
        with (folder / "built").open("a") as file:
            file.write("x")
            if file.tell() > most:
                raise RuntimeError("one too many")


def an_env_that_cannot_be_built(method: str, folder: Path, _: Patch) -> None:
    engine(method, partial(Fragile, folder, 2))


def an_env_that_cannot_be_added(method: str, folder: Path, _: Patch) -> None:
    engine(method, partial(Fragile, folder, 2), num_envs=2).resize(3)


def _refuse(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_memory_at_first(method: str, _: Path, patch: Patch) -> None:
    patch.setattr(os, "posix_fallocate", _refuse)
    engine(method)


def no_memory_for_more(method: str, _: Path, patch: Patch) -> None:
    envs = engine(method)
    patch.setattr(os, "posix_fallocate", _refuse)
    envs.resize(6)


def no_process_for_more(method: str, _: Path, patch: Patch) -> None:
    envs = engine(method)
    envs.resize(1)
    patch.setattr(envs._resources.launcher, "start", _refuse)
    envs.resize(2)


def ctrl_c_while_starting(method: str, *_: Any) -> None:
    engine(method, partial(Interrupter, os.getpid()))


class Interrupter(Walk):
    """Interrupts the program that is waiting for it to be built."""

    def __init__(self, program: int) -> None:
        super().__init__()
        os.kill(program, signal.SIGINT)


ERRORS: dict[Callable[[str, Path, Patch], None], type[BaseException]] = {
    an_env_that_fails_every_time: RestartLimit,
    a_worker_that_dies_every_time: RestartLimit,
    a_killed_worker: WorkerDied,
    a_hung_step: StepTimeout,
    an_env_that_cannot_be_built: RuntimeError,
    an_env_that_cannot_be_added: RuntimeError,
    no_memory_at_first: MemoryShortage,
    no_memory_for_more: MemoryShortage,
    no_process_for_more: WorkerDied,
    ctrl_c_while_starting: KeyboardInterrupt,
}


@pytest.mark.few(3)
@pytest.mark.parametrize("method", QUICKEST_FIRST)
@pytest.mark.parametrize("fail", ERRORS)
def test_nothing_is_held_after(
    fail: Callable[[str, Path, Patch], None], method: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """No file, no child process: neither close() nor a collection of garbage is needed."""
    before = possessions()
    with pytest.raises(ERRORS[fail]) as caught:
        fail(method, tmp_path, monkeypatch)
    assert possessions() == before
    assert caught.value.__traceback__ is not None  # all this time


@pytest.mark.parametrize("method", QUICKEST_FIRST)
def test_nothing_is_held_after_close_but_what_the_caller_keeps(method: str) -> None:
    """Arrays that were returned as views keep their memory, and no descriptor of it."""
    before = possessions()
    envs = engine(method, copy=False)
    kept = play(envs, 2)[-1]
    envs.close()
    assert possessions() == before
    assert np.isfinite(kept[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", QUICKEST_FIRST)
def test_nothing_is_held_where_descriptors_run_out(method: str) -> None:
    """With a few descriptors too few, the serial backend takes over or an error says so; no worker is left."""
    before, (soft, hard) = possessions(), resource.getrlimit(resource.RLIMIT_NOFILE)
    outcomes = set()
    for spare in range(0, 14, 2):
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_with(spare), hard))
        try:
            envs = engine(method, num_envs=2)
            outcomes.add(envs.backend)
            envs.close()
        except OSError as error:  # a worker's
            outcomes.add(os.strerror(error.errno))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert possessions() == before
    assert "serial" in outcomes
    assert outcomes <= {"serial", "process", "Too many open files"}
