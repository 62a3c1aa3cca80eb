"""Fault 8: shared memory larger than what is free."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import rookery
from faults.envs import Huge, Walk
from faults.watch import BACKENDS, play, same_rows, undisturbed
from rookery.engine import batch
from rookery.errors import MemoryShortage

pytestmark = pytest.mark.timeout(60)
Make = Callable[..., rookery.Engine]


def leave_free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Have the machine report only so many free bytes."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=size, total=size))


@pytest.mark.slow
def test_a_real_shortage_is_told_before_a_second_worker_starts(make: Make, workers_started: list[int]) -> None:
    """Four thousand observations of 16 MiB are rejected with what they need and what is free, by one worker alone."""
    with pytest.raises(MemoryShortage, match=r"6\d\.\d GiB.*[\d.]+ [MG]iB is free") as caught:
        make(Huge, 4000, "process", 2)
    assert isinstance(caught.value, MemoryError)
    assert workers_started == [0]


def test_both_sizes_are_named(make: Make, workers_started: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error holds the size that is needed and the size that is free."""
    leave_free(monkeypatch, 25 * 1024)
    monkeypatch.setattr(batch, "PYTHON_ENV_BYTES", 0)  # it is about the arrays
    with pytest.raises(MemoryShortage, match=r"100 envs need \d+\.\d KiB.*shared.*only 25\.0 KiB is free"):
        make(Walk, 100, "process", 4)
    assert workers_started == [0]


def test_what_cannot_even_be_listed_starts_no_worker(
    make: Make, workers_started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing need be known of such envs to refuse them."""
    leave_free(monkeypatch, 3 * 1024)
    with pytest.raises(MemoryShortage, match=r"100 envs need 21\d\.\d KiB.*only 3\.0 KiB is free"):
        make(Walk, 100, "process", 4)
    assert workers_started == []


def test_memory_that_vanishes_at_the_last_moment(
    make: Make, workers_started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the block cannot be committed, that is the same error: never a SIGBUS at some later write."""

    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(MemoryShortage, match=r"\d KiB.*No space left"):
        make(Walk, 100, "process", 4)
    assert workers_started == [0]


def test_the_block_is_committed_when_it_is_made(make: Make) -> None:
    """Every page of the shared block exists from the start, so that none can be missing later."""
    envs = make(Walk, 500, "process", 2)
    (block,) = {
        os.stat(f"/proc/self/fd/{fd}").st_ino: os.stat(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.lexists(f"/proc/self/fd/{fd}")
        and re.search("/memfd:rookery|/rookery-", os.readlink(f"/proc/self/fd/{fd}"))
    }.values()
    assert block.st_blocks * 512 >= block.st_size >= envs.batch.nbytes


def test_a_shortage_on_resize_leaves_the_engine_as_it_was(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing beyond what is free is rejected, and the envs there are continue undisturbed."""
    expected = undisturbed(Walk, 4, 8, seed=1)
    envs = make(Walk, 4, "process", 2)
    envs.reset(seed=1)
    results = play(envs, 3)
    leave_free(monkeypatch, 1024)
    with pytest.raises(MemoryShortage, match="free"):
        envs.resize(8)
    assert envs.num_envs == 4
    assert envs.observation_space.shape == (4, 3)
    results += play(envs, 5, first=3)
    assert same_rows(results, expected, [0, 1, 2, 3])


@pytest.mark.few(1)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_fits_is_not_refused(make: Make, backend: str) -> None:
    """A few large observations that do fit are not reason to complain."""
    envs = make(Walk, 1000, backend, 2 if backend != "serial" else 1)
    observations, _ = envs.reset(seed=1)
    assert np.isfinite(observations).all()
