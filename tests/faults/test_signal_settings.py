"""A program's own ways with signals: handlers that interrupt, that raise, that collect children; signals ignored."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rookery
from faults.envs import Act, Walk
from faults.watch import (
    QUICKEST_FIRST,
    at_most,
    gone_within,
    needs_fork_server,
    pids_of,
    play,
    restarted,
    same_rows,
    undisturbed,
)
from rookery.engine.workers.channel import Channel
from rookery.errors import WorkerDied

pytestmark = pytest.mark.timeout(40)
Make = Callable[..., rookery.Engine]
Handle = Callable[[signal.Signals, Any], None]
N, SEED = 4, 7


@pytest.fixture
def handle() -> Iterator[Handle]:
    """`signal.signal`, undone at the end."""
    before: dict[signal.Signals, Any] = {}

    def set_handler(signum: signal.Signals, handler: Any) -> None:
        before[signum] = signal.signal(signum, handler)

    yield set_handler
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    for signum, handler in before.items():
        signal.signal(signum, handler)


def collect_all(*_: Any) -> None:
    """What many programs do when a child ends."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


@pytest.mark.parametrize("handler", [signal.SIG_IGN, collect_all], ids=["ignored", "collected"])
@pytest.mark.parametrize("method", QUICKEST_FIRST)
def test_a_death_is_found_though_the_program_takes_its_children_away(
    make: Make, handle: Handle, method: str, handler: Any
) -> None:
    """Workers die and are replaced as always. How, only the fork server knows: it has children of its own."""
    handle(signal.SIGCHLD, handler)
    envs = make(Walk, N, "process", 2, start_method=method, on_failure="restart")
    envs.reset(seed=SEED)
    results = play(envs, 6, {(2, 3): Act.SIGKILL})
    assert restarted(results[2][4]) == [2, 3]
    assert same_rows(results, undisturbed(Walk, N, 6, SEED), [0, 1])
    with at_most(3):
        envs.close()


@pytest.mark.parametrize(
    ("method", "words"),
    [("spawn", "exit status is not known"), pytest.param("forkserver", "SIGKILL", marks=needs_fork_server)],
)
def test_nothing_is_made_up_of_a_death_that_nobody_saw(make: Make, handle: Handle, method: str, words: str) -> None:
    """An exit status that is gone is not called 0."""
    handle(signal.SIGCHLD, signal.SIG_IGN)
    envs = make(Walk, 2, "process", 2, start_method=method)
    envs.reset(seed=SEED)
    with pytest.raises(WorkerDied, match=words):
        play(envs, 1, {(0, 1): Act.SIGKILL})


def test_a_program_that_sigpipe_ends_outlives_its_workers(make: Make, handle: Handle) -> None:
    """Words to a worker that is dead are not broken pipe, though the program has asked to die of one."""
    envs = make(Walk, 2, "process", 2)
    envs.reset(seed=SEED)
    for pid in pids_of(envs):
        os.kill(pid, signal.SIGKILL)
    assert gone_within(pids_of(envs), 2)
    handle(signal.SIGPIPE, signal.SIG_DFL)
    with pytest.raises(WorkerDied):
        envs.call("length")


def test_steps_continue_under_a_storm_of_signals(make: Make, handle: Handle) -> None:
    """System calls that a handler interrupts are taken up again."""
    seen = []
    envs = make(Walk, N, "process", 2)
    envs.reset(seed=SEED)
    handle(signal.SIGVTALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_VIRTUAL, 1e-3, 1e-3)
    results = play(envs, 300)
    envs.set_attr("table", [np.zeros(300_000)] * N)  # more than a socket holds
    assert [len(table) for table in envs.call("table")] == [300_000] * N
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    assert seen
    assert same_rows(results, undisturbed(Walk, N, 300, SEED), list(range(N)))


@pytest.mark.parametrize("policy", ["raise", "restart"])
def test_a_message_that_a_handler_broke_off_is_no_hang(
    make: Make, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """A worker that has half a message would wait for the rest for ever, and we for its answer: it is lost instead."""
    envs = make(Walk, N, "process", 2, on_failure=policy)
    envs.reset(seed=SEED)
    kind = type(envs._handles[0].channel)
    send_header = kind._send_header

    def broken_off(self: Channel, *args: Any) -> None:
        send_header(self, *args)
        monkeypatch.undo()
        raise Alarm

    monkeypatch.setattr(kind, "_send_header", broken_off)
    with pytest.raises(Alarm):
        envs.call("length")
    with at_most(5):
        if policy == "restart":
            assert restarted(play(envs, 1)[0][4]) == [0, 1]
        else:
            with pytest.raises(WorkerDied, match="worker 0"):
                play(envs, 1)


class Alarm(Exception):
    """What a program's handler raises, in the middle of anything."""
