"""Fault 3: an env that fails every time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rookery
from faults.envs import Act, Diary, Relapsing, Walk
from faults.watch import BACKENDS, at_most, play, restarted
from rookery.errors import RestartLimit, RookeryError

pytestmark = pytest.mark.timeout(25)
Make = Callable[..., rookery.Engine]


def step_until_limit(envs: rookery.Engine) -> RestartLimit:
    envs.reset(seed=1)
    with pytest.raises(RestartLimit) as caught:
        for _ in range(60):
            envs.step(np.zeros(envs.num_envs, np.int64))
    return caught.value


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("where", ["step", "reset", "__init__"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_exactly_so_many_restarts(make: Make, diary: Path, backend: str, where: str, limit: int) -> None:
    """An env that raises every time is built once and then exactly `max_restarts` times more."""
    world = partial(Relapsing, where, diary)
    envs = make(world, 1, backend, 1, on_failure="restart", max_restarts=limit)
    error = step_until_limit(envs)
    assert Diary(diary).count("built") == 1 + limit
    assert envs.restarts == limit
    assert "Traceback" in str(error)
    assert "RuntimeError: step in life 1" in str(error).splitlines()[0]
    assert f"max_restarts={limit}" in str(error)


@pytest.mark.few(1)
@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("where", ["death", "death in reset"])
def test_exactly_so_many_new_workers(make: Make, diary: Path, where: str, limit: int) -> None:
    """A worker that dies every time is started once and then exactly `max_restarts` times more."""
    envs = make(partial(Relapsing, where, diary), 1, "process", 1, on_failure="restart", max_restarts=limit)
    error = step_until_limit(envs)
    assert Diary(diary).count("built") == 1 + limit
    assert envs.restarts == limit
    assert "worker 0" in str(error)
    assert "SIGKILL" in str(error)


def test_a_replacement_worker_that_cannot_build_its_env(make: Make, diary: Path) -> None:
    """A worker's death followed by envs that cannot be built any more ends in the limit, telling of the death."""
    world = partial(DiesThenCannotStart, "__init__", diary)
    envs = make(world, 1, "process", 1, on_failure="restart", max_restarts=2)
    error = step_until_limit(envs)
    assert Diary(diary).count("built") == 3
    assert "SIGKILL" in str(error)


def test_failures_far_apart_do_not_add_up(make: Make) -> None:
    """Only failures within `restart_window` seconds count together."""
    envs = make(Walk, 1, "serial", on_failure="restart", max_restarts=1, restart_window=0.2)
    envs.reset(seed=1)
    for _ in range(4):
        assert restarted(play(envs, 1, {(0, 0): Act.RAISE})[0][4]) == [0]
        play(envs, 1)  # the reset that follows a truncated episode
        time.sleep(0.25)
    assert envs.restarts == 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_env_has_a_count_of_its_own(make: Make, backend: str) -> None:
    """Failures of one env do not use up another's restarts, and the error names the one that failed too often."""
    envs = make(Walk, 2, backend, 2 if backend == "process" else 1, on_failure="restart", max_restarts=2)
    envs.reset(seed=1)
    for env in (0, 1, 0, 1):
        assert restarted(play(envs, 1, {(0, env): Act.RAISE})[0][4]) == [env]
        play(envs, 1)
    with pytest.raises(RestartLimit, match="env 1 failed again after 2 restarts"):
        play(envs, 1, {(0, 1): Act.RAISE})


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["step", "death", "death in reset", "__init__", "dies, then cannot be built"])
def test_after_the_limit_nothing_hangs(make: Make, diary: Path, where: str) -> None:
    """Once the limit is reached, further calls return or raise an error of ours, soon; close() is quick."""
    world = partial(DiesThenCannotStart, "__init__", diary) if "then" in where else partial(Relapsing, where, diary)
    envs = make(world, 1, "process", 1, on_failure="restart", max_restarts=1)
    step_until_limit(envs)
    for call in (lambda: envs.step(np.array([0])), envs.recv, lambda: envs.reset(seed=1), lambda: envs.call("steps")):
        with at_most(3):
            complaint = complaint_of(call)
        assert "call recv()" not in complaint  # that would be bad advice
    with at_most(3):
        envs.close()


def complaint_of(call: Callable[[], object]) -> str:
    """The text of the error that a call raises, which must be one of ours or the env's own; empty if it returns."""
    try:
        call()
    except (RookeryError, RuntimeError) as error:
        return str(error)
    return ""


class DiesThenCannotStart(Relapsing):
    """Dies in its first step; whoever builds it again fails."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.diary.write("died")
        Walk.step(self, Act.SIGKILL)
        raise AssertionError("never reached")
