"""Fault 33: workers stopped or killed while they are being restarted, and fork servers hit one after the other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest

import rookery
from faults.envs import Diary, Walk
from faults.signal_storm import storm
from faults.watch import (
    SPAWN_SELDOM,
    START_METHODS,
    at_most,
    gone_within,
    needs_fork_server,
    pids_of,
    play,
    restarted,
    same,
    same_rows,
    undisturbed,
)
from rookery.engine import worker_restarts
from rookery.engine.workers.child_process import PORTABLE
from rookery.engine.workers.forkserver import Connection
from rookery.errors import RestartLimit

pytestmark = pytest.mark.timeout(60)
Make = Callable[..., rookery.Engine]
N, SEED = 4, 11
LOST, OTHERS = [2, 3], [0, 1]  # worker 1's envs, and the other's
TIMEOUT = 0.5


class Rebuilt(Walk):
    """Does something when it is built in the place of a lost env: `built` are those that came before any was lost."""

    def __init__(self, diary: Path, trouble: Callable[[int], None], built: int = N) -> None:
        super().__init__()
        number = Diary(diary).write("built") - built
        if number > 0:
            trouble(number)


def stop_first(number: int) -> None:
    if number == 1:
        os.kill(os.getpid(), signal.SIGSTOP)


def die_first(number: int) -> None:
    if number <= 2:
        os.kill(os.getpid(), signal.SIGKILL)


def sleep_long(number: int) -> None:
    time.sleep(1.0)


def team(make: Make, world: object = Walk, **options: object) -> rookery.Engine:
    envs = make(world, N, "process", 2, **{"on_failure": "restart", "step_timeout": TIMEOUT, **options})
    envs.reset(seed=SEED)
    return envs


def kill_worker(envs: rookery.Engine, number: int = 1) -> None:
    pid = pids_of(envs)[number]
    os.kill(pid, signal.SIGKILL)
    assert gone_within([pid], 5)


def until_calm(envs: rookery.Engine, first: int, most: int = 60) -> list:
    """Steps until none reports a restart."""
    results = play(envs, 1, first=first)
    while restarted(results[-1][4]):
        assert len(results) < most
        results += play(envs, 1, first=first + len(results))
    return results


# --- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("trouble", [stop_first, die_first])
@pytest.mark.parametrize("each", [2, 8])
def test_a_worker_that_is_hit_while_it_is_restarted_holds_no_step(
    make: Make, diary: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable, each: int
) -> None:
    """Steps end in time, for any number of envs, and the restart goes on until the worker is there."""
    monkeypatch.setattr(worker_restarts, "START_SECONDS", 2.0)
    monkeypatch.setattr(worker_restarts, "SLOWER", 2)
    monkeypatch.setattr(worker_restarts, "RESTART_SECONDS", 1.0)
    world = partial(Rebuilt, diary, trouble, 2 * each)
    envs = make(world, 2 * each, "process", 2, on_failure="restart", step_timeout=TIMEOUT, max_restarts=9)
    envs.reset(seed=SEED)
    results = play(envs, 3)
    kill_worker(envs)
    start = time.monotonic()
    while len(results) == 3 or restarted(results[-1][4]):
        with at_most(3 * (TIMEOUT + 1.0)):
            results += play(envs, 1, first=len(results))
        assert time.monotonic() - start < 50
    assert restarted(results[3][4]) == list(range(each, 2 * each))
    assert envs.restarts >= (2 if trouble is stop_first else 3)
    results += play(envs, 5, first=len(results))
    assert same_rows(results, undisturbed(Walk, 2 * each, len(results), SEED), list(range(each)))


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_envs_whose_worker_takes_long_to_come_back_are_truncated_until_then(
    make: Make, diary: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Their last observation is repeated, without reward; when they are back, they say so once more and go on."""
    monkeypatch.setattr(worker_restarts, "RESTART_SECONDS", 0.1)
    envs = team(make, partial(Rebuilt, diary, sleep_long), autoreset_mode=mode, step_timeout=0.2)
    results = play(envs, 3)
    envs.finished_episodes()
    last = results[-1][0][LOST]
    kill_worker(envs)
    results += until_calm(envs, 3)
    away = [result for result in results[3:] if restarted(result[4])]
    assert len(away) >= 3
    for _, rewards, terminated, truncated, infos in away:
        assert restarted(infos) == LOST
        assert truncated[LOST].all() and not terminated[LOST].any() and not rewards[LOST].any()
        if mode == "same_step":
            assert infos["_final_obs"][LOST].all() and not infos["_final_info"][LOST].any()
    assert all(same(result[0][LOST], last) for result in away[:2])
    assert not same(away[-1][0][LOST], last)  # the first observations of the new envs
    assert envs.restarts == 1
    assert not set(envs.finished_episodes()["env"].tolist()) & set(LOST)
    results += play(envs, 12, first=len(results))
    assert same_rows(results, undisturbed(Walk, N, len(results), SEED, autoreset_mode=mode), OTHERS)
    assert set(LOST) <= set(envs.finished_episodes()["env"].tolist())


@pytest.mark.slow
def test_calls_wait_for_a_worker_that_is_being_restarted(
    make: Make, diary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no result without it, unlike a step."""
    monkeypatch.setattr(worker_restarts, "RESTART_SECONDS", 0.1)
    envs = team(make, partial(Rebuilt, diary, sleep_long), step_timeout=0.2)
    expected = envs.reset(seed=SEED)[0]
    kill_worker(envs)
    assert restarted(play(envs, 1)[0][4]) == LOST
    assert len(envs.call("length")) == N
    kill_worker(envs)
    assert restarted(play(envs, 1)[0][4]) == LOST
    assert same(envs.reset(seed=SEED)[0], expected)
    assert envs.restarts == 2
    assert same_rows(play(envs, 8), undisturbed(Walk, N, 8, SEED), list(range(N)))


def test_other_envs_are_received_while_a_worker_is_restarted(make: Make, diary: Path) -> None:
    """With batch_size, `recv` never waits for it, and the restart goes on in the meantime."""
    envs = team(make, partial(Rebuilt, diary, sleep_long), batch_size=1, step_timeout=5.0)
    kill_worker(envs)
    envs.send(np.zeros(N, np.int64))
    received, seen = 0, set()
    deadline = time.monotonic() + 30
    while not seen >= set(LOST) and time.monotonic() < deadline:
        infos = envs.recv()[4]
        if restarted(infos):
            seen |= set(infos["env_id"].tolist())
        received += not seen
        time.sleep(0.01)
        envs.send(np.zeros(len(infos["env_id"]), np.int64))
    assert seen == set(LOST)
    assert received > 20


def test_a_slow_constructor_is_not_taken_for_a_hang(make: Make, diary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restart may take is learnt from the first start."""
    monkeypatch.setattr(worker_restarts, "START_SECONDS", 0.1)
    envs = team(make, partial(Rebuilt, diary, lambda _: time.sleep(0.5), 0), step_timeout=0.1)
    kill_worker(envs)
    until_calm(envs, 0)
    assert envs.restarts == 1


def test_close_ends_a_restart(make: Make, diary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the new worker is doing."""
    monkeypatch.setattr(worker_restarts, "RESTART_SECONDS", 0.1)
    envs = team(make, partial(Rebuilt, diary, stop_first), step_timeout=0.2)
    kill_worker(envs)
    play(envs, 1)
    assert envs._restarting
    with at_most(6):
        envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_stopped_workers_and_servers_do_not_hold_close(make: Make, method: str) -> None:
    """Stopped while idle, after a step that was well: they get `close_timeout`, all together."""
    if PORTABLE and method != "spawn":
        pytest.skip("portable workers are started by spawn")
    envs = team(make, start_method=method, close_timeout=1.0)
    play(envs, 2)
    for child in psutil.Process().children(recursive=True):
        child.send_signal(signal.SIGSTOP)
    with at_most(9):
        envs.close()


# --- fork servers -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_fork_server
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_fork_servers_that_are_hit_one_after_the_other(
    make: Make, monkeypatch: pytest.MonkeyPatch, signum: signal.Signals
) -> None:
    """Each is replaced: starts belong to the restart, and count as restarts do."""
    envs = team(make, start_method="forkserver", max_restarts=9, step_timeout=2.0)
    results = play(envs, 2)
    hit, request_fork = [], Connection.request_fork

    def harmed(self: Connection, *args: object) -> int:
        if len(hit) < 3 and self.server.pid not in hit:  # the first one's death is that of both workers
            os.kill(self.server.pid, signum)
            hit.append(self.server.pid)
        return request_fork(self, *args)

    monkeypatch.setattr(Connection, "request_fork", harmed)
    kill_worker(envs)
    results += until_calm(envs, 2)
    assert len(hit) == 3
    assert envs.restarts >= 4
    if signum == signal.SIGSTOP:  # the first server lives on with the other worker, which notices nothing
        results += play(envs, 5, first=len(results))
        assert same_rows(results, undisturbed(Walk, N, len(results), SEED), OTHERS)
        kill_worker(envs)
        until_calm(envs, len(results))
        assert gone_within(hit[1:], 5)  # the others had no workers


@needs_fork_server
def test_fork_servers_that_are_always_hit_end_in_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly `max_restarts` attempts, and the error has the first failure and the last."""
    envs = team(make, start_method="forkserver", max_restarts=2)
    request_fork = Connection.request_fork

    def harmed(self: Connection, *args: object) -> int:
        os.kill(self.server.pid, signal.SIGKILL)  # the first one's death is that of both workers
        return request_fork(self, *args)

    monkeypatch.setattr(Connection, "request_fork", harmed)
    kill_worker(envs)
    with pytest.raises(
        RestartLimit, match=r"(?s)\(max_restarts=2\).*worker [01] \(pid.*could not be started: the fork server"
    ):
        until_calm(envs, 0)


# --- all of it --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(PORTABLE, reason="the storm is for what Linux offers")
def test_a_short_storm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signals at random for some seconds: every number of every env is as it should be, and nothing is left."""
    run = storm("fork", 4.0, seed=1)
    assert run.signals and not run.problems, run.line()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(PORTABLE, reason="the storm is for what Linux offers")
@pytest.mark.parametrize("method", START_METHODS)
def test_a_minute_of_signals(method: str) -> None:
    """`python -m faults.signal_storm` repeats it ten times."""
    run = storm(method, 60.0, seed=0)
    assert not run.problems, run.line()
