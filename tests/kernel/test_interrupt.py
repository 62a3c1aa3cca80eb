"""A step of compiled code that never ends can be ended."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import rookery
from kernel import planted
from rookery.errors import StepTimeout, UsageError, WorldError
from rookery.kernel.kernel_env import KernelEnv

ACTIONS = np.zeros(4, np.int64)
LONG = 30.0  # seconds; what is interrupted after half a second takes no more, even on a busy machine


def engine(kind, threads=1, **options):
    envs = rookery.make_vec(planted.Endless(kind=kind), 4, backend="kernel", workers=threads, **options)
    if threads > 1:
        envs._thread_choice.use_threads()
    envs.reset(seed=1)
    return envs


def step_until_it_stops(envs):
    start = time.monotonic()
    try:
        for _ in range(30):
            envs.step(ACTIONS)
    finally:
        assert time.monotonic() - start < LONG


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "threads"), [(1, 1), (1, 2), (2, 1), (4, 1)])
def test_a_step_that_takes_longer_than_its_timeout_is_stopped(kind, threads):
    """In a `while`, on several threads, in nested `for` loops, at a reset. A reset makes the envs usable again."""
    envs = engine(kind, threads, step_timeout=0.3)
    with pytest.raises(StepTimeout, match=r"Endless: a step did not end within step_timeout=0.3 s"):
        step_until_it_stops(envs)
    with pytest.raises(UsageError, match=r"call reset\(\)"):
        envs.step(ACTIONS)
    envs.set_parameters(kind=0)
    envs.reset(seed=2)
    step_until_it_stops(envs)
    envs.close()


@pytest.mark.alone
def test_steps_in_time_are_not_stopped():
    """The limit holds for each step, which takes microseconds here, not for all of them together."""
    envs = engine(2, step_timeout=0.8)
    envs.set_parameters(many=20)
    start, steps = time.monotonic(), 0
    while time.monotonic() - start < 1.0:
        envs.step(ACTIONS)
        steps += 1
    assert steps > 10


def test_a_loop_of_more_turns_than_anyone_can_wait_for_is_refused():
    envs = engine(3)
    with pytest.raises(WorldError, match=r"range of 1,000,000,000,000,000,000 numbers(.|\n)*planted.py"):
        step_until_it_stops(envs)


@pytest.mark.few(1)
@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_step_that_does_not_end(threads):
    envs = engine(1, threads)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        step_until_it_stops(envs)
    timer.join()
    envs.set_parameters(kind=0)
    envs.reset(seed=2)
    step_until_it_stops(envs)


@pytest.mark.alone
def test_what_a_handler_raises_comes_out_of_the_step():
    """As anywhere else in Python; handlers that return let the step go on."""

    class Alarm(Exception):
        pass

    calls = []

    def handler(number, frame):
        calls.append(number)
        if len(calls) > 2:
            raise Alarm("the third time")

    env = KernelEnv(planted.Endless(kind=1))
    env.reset(seed=1)
    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    try:
        with pytest.raises(Alarm, match="the third time"):
            for _ in range(30):
                env.step(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(calls) == 3


@pytest.mark.slow
def test_a_world_that_is_slow_in_plain_python_is_compiled_all_the_same(monkeypatch):
    """Trying it in plain Python first is given up after a while. (One that never ends is rejected: see
    test_bounds_check.py.)"""
    monkeypatch.setattr("rookery.kernel.plain.DRY_RUN_SECONDS", 0.2)

    class Slow(planted.Endless):
        @staticmethod
        def reset(state):
            for k in range(10**7):
                state.x += 1.0 / (1.0 + k)

    envs = rookery.make_vec(Slow(), 1, backend="kernel")
    assert envs.reset(seed=1)[0][0] > 16.0
