"""Faults 1, 2 and 18 with processes that were stopped (SIGSTOP, Ctrl-Z): alive, and silent."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import rookery
from faults.envs import Walk
from faults.watch import (
    NO_FORK_SERVER,
    QUICKEST_FIRST,
    START_METHODS,
    at_most,
    pids_of,
    play,
    restarted,
    same_rows,
    undisturbed,
)
from rookery.engine import process
from rookery.engine.workers import forkserver, worker_handle
from rookery.engine.workers.channel import Channel, ChannelTimeout
from rookery.engine.workers.child_process import PORTABLE
from rookery.engine.workers.forkserver import SERVERS, Connection, ForkServer
from rookery.errors import RestartLimit, RookeryError, StepTimeout, WorkerDied

pytestmark = pytest.mark.timeout(60)
Make = Callable[..., rookery.Engine]
N, SEED = 4, 11
SOON = 15.0  # far beyond what a look at a stopped process and a new fork server take


def forked_team(make: Make, **options: object) -> tuple[rookery.Engine, int]:
    """Two workers of a fork server, and the server's pid."""
    if PORTABLE:
        pytest.skip(NO_FORK_SERVER)
    envs = make(Walk, N, "process", 2, **{"start_method": "forkserver", "on_failure": "restart", **options})
    envs.reset(seed=SEED)
    (server,) = {psutil.Process(pid).ppid() for pid in pids_of(envs)}
    return envs, server


@contextlib.contextmanager
def continued_after(seconds: float, pids: list[int]) -> Iterator[None]:
    """SIGCONT from outside while the block runs."""
    with subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {' '.join(map(str, pids))}"]):
        yield


# --- the fork server ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_is_replaced_although_its_fork_server_is_stopped(make: Make) -> None:
    """Its envs come back restarted, from a new server; the stopped server's other worker notices nothing."""
    envs, server = forked_team(make, step_timeout=2.0)
    results = play(envs, 3)
    os.kill(server, signal.SIGSTOP)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    with at_most(SOON):
        results += play(envs, 1, first=3)
    assert restarted(results[-1][4]) == [2, 3]
    results += play(envs, 6, first=4)
    assert same_rows(results, undisturbed(Walk, N, 10, SEED), [0, 1])


@pytest.mark.slow
def test_a_fork_server_that_hangs_in_another_way_is_given_up_too(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be seen to be stopped, as under a debugger; but forking does not take so long."""
    monkeypatch.setattr(forkserver, "RESPONSE_SECONDS", 1.0)
    monkeypatch.setattr(ForkServer, "stopped", False)
    envs, server = forked_team(make)
    os.kill(server, signal.SIGSTOP)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    with at_most(SOON):
        assert restarted(play(envs, 1)[0][4]) == [2, 3]


def test_a_fork_server_that_is_continued_disturbs_nobody(make: Make) -> None:
    """What it was requested while it was stopped, it does too late: nobody takes that for an answer."""
    envs, server = forked_team(make)
    os.kill(server, signal.SIGSTOP)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    play(envs, 1)
    os.kill(server, signal.SIGCONT)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    results = play(envs, 6, first=1)
    assert restarted(results[0][4]) == [2, 3]
    assert same_rows(results, undisturbed(Walk, N, 7, SEED)[1:], [0, 1])


def test_without_restarts_a_stopped_fork_server_does_not_hold_the_error(make: Make) -> None:
    """WorkerDied comes soon; only the signal is not known, as the one who could tell is stopped."""
    envs, server = forked_team(make, on_failure="raise")
    os.kill(server, signal.SIGSTOP)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    with at_most(SOON), pytest.raises(WorkerDied, match=r"worker 1 .*envs 2-3.*died"):
        play(envs, 1)


def test_a_stopped_fork_server_does_not_hold_resize_or_close(make: Make) -> None:
    """New workers come from a new server, and close() ends both."""
    envs, server = forked_team(make, close_timeout=0.5)
    results = play(envs, 3)
    os.kill(server, signal.SIGSTOP)
    with at_most(SOON):
        envs.resize(1)  # one worker goes
        envs.resize(N)  # and another comes
    envs.reset(options={"reset_mask": np.arange(N) > 0})
    results += play(envs, 5, first=3)
    assert same_rows([[part[:1] for part in r[:4]] for r in results], undisturbed(Walk, N, 8, SEED), [0])
    with at_most(SOON):
        envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGSTOP, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_make_vec_survives_its_first_fork_server(
    make: Make, monkeypatch: pytest.MonkeyPatch, signum: signal.Signals
) -> None:
    """A server that is stopped or killed while it starts is replaced by another."""
    SERVERS.close()
    servers: list[ForkServer] = []
    fork = Connection.request_fork

    def harmed(self: Connection, *args: Any) -> int:
        if not servers:
            os.kill(self.server.pid, signum)
        servers.append(self.server)
        return fork(self, *args)

    monkeypatch.setattr(Connection, "request_fork", harmed)
    with at_most(SOON):
        _envs, server = forked_team(make)
    assert len(set(servers)) == 2
    assert server == servers[-1].pid


def test_where_no_fork_server_answers_an_error_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replacement that nobody can start ends the engine, with the reason and what came before."""
    envs, server = forked_team(make)
    monkeypatch.setattr(forkserver, "interpreter", stopped_interpreter)
    os.kill(server, signal.SIGSTOP)
    os.kill(pids_of(envs)[1], signal.SIGKILL)
    words = r"(?s)first failure.*worker 1 \(pid .*could not be started: the fork server"
    with at_most(SOON), pytest.raises(RestartLimit, match=words):
        play(envs, 1)
    with pytest.raises(RookeryError, match="could not be started"):
        play(envs, 1)


def stopped_interpreter(*_: object) -> subprocess.Popen:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    child.send_signal(signal.SIGSTOP)
    return child


# --- workers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", QUICKEST_FIRST)
def test_a_stopped_worker_is_replaced_where_steps_have_a_timeout(make: Make, method: str) -> None:
    """It is as good as hung, and SIGKILL ends it all the same."""
    envs = make(Walk, N, "process", 2, start_method=method, step_timeout=0.5, on_failure="restart")
    envs.reset(seed=SEED)
    os.kill(pids_of(envs)[1], signal.SIGSTOP)
    with at_most(SOON):
        results = play(envs, 5)
    assert restarted(results[0][4]) == [2, 3]
    assert same_rows(results, undisturbed(Walk, N, 5, SEED), [0, 1])


def test_without_a_timeout_a_stopped_worker_is_waited_for(make: Make) -> None:
    """When it is continued the step ends, and nothing is lost."""
    envs = make(Walk, N, "process", 2)
    envs.reset(seed=SEED)
    pid = pids_of(envs)[1]
    os.kill(pid, signal.SIGSTOP)
    with continued_after(0.5, [pid]):
        results = play(envs, 5)
    assert same_rows(results, undisturbed(Walk, N, 5, SEED), list(range(N)))


def test_a_stopped_worker_is_found_though_it_reads_no_long_message(make: Make) -> None:
    """A message that fills the socket ends in StepTimeout too, not in a wait for the reader."""
    envs = make(Walk, 2, "process", 2, step_timeout=0.5)
    envs.reset(seed=SEED)
    os.kill(pids_of(envs)[1], signal.SIGSTOP)
    with at_most(SOON), pytest.raises(StepTimeout, match="worker 1"):
        envs.set_attr("table", np.zeros(4_000_000))


def test_a_worker_that_is_stopped_while_it_starts_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a `step_timeout`, make_vec does not wait for ever for a worker's first words."""
    monkeypatch.setattr(process, "START_SECONDS", 0.5)
    with at_most(SOON), pytest.raises(StepTimeout, match=r"worker 0 did not start its envs 0-1 within 0\.5 s"):
        make(StopsItself, N, "process", 2, step_timeout=0.5)


class StopsItself(Walk):
    def __init__(self) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)


# --- everybody ------------------------------------------------------------------------------------------------------

SLOW_STEPS = """
import numpy as np, rookery, time
from faults.envs import Walk

class Slow(Walk):
    def step(self, action):
        for _ in range(8):
            time.sleep(0.05)  # in one, it would be over by the time that all are continued
        return super().step(action)

envs = rookery.make_vec(Slow, 2, "process", 2, start_method="fork", step_timeout=0.7, on_failure="restart")
envs.reset(seed=1)
print("ready", flush=True)
envs.step(np.zeros(2, int))
print(envs.restarts, flush=True)
"""


def test_ctrl_z_is_no_hang() -> None:
    """A program that is suspended with its workers, for longer than `step_timeout`, continues where it was."""
    folder = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
    program = subprocess.Popen(
        [sys.executable, "-c", SLOW_STEPS], stdout=subprocess.PIPE, text=True, env=env, start_new_session=True
    )
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        time.sleep(0.1)
        os.killpg(program.pid, signal.SIGSTOP)
        time.sleep(1.7)
        os.killpg(program.pid, signal.SIGCONT)
        assert program.stdout.read() == "0\n"


def test_an_answer_that_is_late_because_all_were_stopped_is_waited_for(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait that lasted longer than it should have says that the one who waited was stopped."""
    envs = make(Walk, 2, "process", 2, step_timeout=0.2, on_failure="restart")
    envs.reset(seed=SEED)
    gather, waits = Channel.gather, []

    def stopped_at_first(self: Channel, timeout: float | None = None) -> bytearray:
        waits.append(timeout)
        if len(waits) > 1:
            return gather(self, timeout)
        time.sleep(0.5)
        raise ChannelTimeout

    monkeypatch.setattr(worker_handle, "OVERSLEPT_SECONDS", 0.2)
    monkeypatch.setattr(Channel, "gather", stopped_at_first)
    assert len(envs.call("length")) == 2
    assert envs.restarts == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", START_METHODS)
def test_signals_at_random_never_hold_a_call(make: Make, method: str) -> None:
    """Whatever is stopped, continued or killed, every call comes back, and close() leaves nothing behind."""
    draw = random.Random(method)
    options = {"step_timeout": 1.0, "on_failure": "restart", "max_restarts": 10**6}
    envs = make(Walk, 6, "process", 3, start_method=method, **options)
    envs.reset(seed=SEED)
    signals = [signal.SIGSTOP, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL, signal.SIGTERM]

    def grow_or_shrink() -> None:
        envs.resize(draw.randrange(3, 9))
        envs.reset(seed=SEED)

    calls = [lambda: play(envs, 3), lambda: envs.reset(seed=SEED), lambda: envs.call("length"), grow_or_shrink]
    end = time.monotonic() + 15
    while time.monotonic() < end:
        victim = draw.choice(psutil.Process().children(recursive=True))
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(draw.choice(signals))
        with at_most(SOON):
            draw.choice(calls)()
    with at_most(SOON):
        envs.close()
