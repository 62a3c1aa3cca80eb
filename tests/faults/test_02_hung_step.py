"""Fault 2: a step that never returns."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import rookery
from faults.envs import SLOW_SECONDS, Act, Relapsing, Unhurried, Walk
from faults.watch import at_most, pids_of, play, restarted, same_rows, undisturbed
from rookery.errors import OptionError, RestartLimit, StepTimeout, WorkerDied

pytestmark = pytest.mark.timeout(25)
Make = Callable[..., rookery.Engine]
HANGS = [Act.SLEEP, Act.SPIN, Act.HOLD_GIL]
TIMEOUT, SEED = 0.5, 3


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("act", HANGS)
def test_a_hung_worker_is_replaced_and_the_rest_keep_their_results(make: Make, act: Act, mode: str) -> None:
    """Within the timeout and two seconds the step returns: the hung env restarted, the others as if nothing was."""
    envs = make(Walk, 4, "process", 2, step_timeout=TIMEOUT, on_failure="restart", autoreset_mode=mode)
    envs.reset(seed=SEED)
    results = play(envs, 3)
    with at_most(TIMEOUT + 2):
        results += play(envs, 1, {(3, 3): act}, first=3)
    assert restarted(results[-1][4]) == [2, 3]
    results += play(envs, 8, first=4)
    assert same_rows(results, undisturbed(Walk, 4, 12, SEED, autoreset_mode=mode), [0, 1])


@pytest.mark.few(1)
@pytest.mark.parametrize("act", HANGS)
def test_raise_names_the_hung_env(make: Make, act: Act) -> None:
    """With on_failure="raise" a StepTimeout, which is also a TimeoutError and a WorkerDied, names the env."""
    envs = make(Walk, 4, "process", 2, step_timeout=TIMEOUT)
    envs.reset(seed=SEED)
    with at_most(TIMEOUT + 2), pytest.raises(StepTimeout, match=r"env 2 .*0\.5") as caught:
        play(envs, 1, {(0, 2): act})
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, WorkerDied)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_timeout_shorter_than_a_workers_start_still_restarts(make: Make, method: str) -> None:
    """`step_timeout` limits steps, not the time that the replacement takes to start."""
    envs = make(Walk, 2, "process", 2, step_timeout=0.1, on_failure="restart", start_method=method)
    envs.reset(seed=SEED)
    with at_most(8):
        results = play(envs, 1, {(0, 1): Act.SLEEP})
    assert restarted(results[0][4]) == [1]
    assert np.isfinite(play(envs, 3, first=1)[-1][0]).all()


def test_many_short_steps_are_not_one_long_step(make: Make) -> None:
    """The timeout counts for each env: a worker with many envs may take longer than that in all."""
    envs = make(Unhurried, 4, "process", 1, step_timeout=1.0)
    envs.reset(seed=SEED)
    start = time.monotonic()
    play(envs, 1)
    assert time.monotonic() - start > 1.2
    assert same_rows(play(envs, 1, first=1), undisturbed(Walk, 4, 2, SEED)[1:], [0, 1, 2, 3])


def test_many_short_calls_are_not_one_long_call(make: Make) -> None:
    """So it is with what envs are called for between steps."""
    envs = make(Unhurried, 4, "process", 1, step_timeout=1.0)
    envs.reset(seed=SEED)
    start = time.monotonic()
    assert len(envs.call("step", 0)) == 4
    assert time.monotonic() - start > 1.2


def test_a_slow_step_within_the_timeout_is_let_be(make: Make) -> None:
    """A step that takes most of its time is not a hang."""
    envs = make(Walk, 2, "process", 2, step_timeout=SLOW_SECONDS + 1, on_failure="restart")
    envs.reset(seed=SEED)
    results = play(envs, 3, {(1, 0): Act.SLOW})
    assert envs.restarts == 0
    assert not any(restarted(result[4]) for result in results)


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", ["restart", "raise"])
def test_a_hang_is_found_while_other_envs_continue(make: Make, policy: str) -> None:
    """With batch_size, one hung env is found in time although recv() always has other envs to return."""
    envs = make(Walk, 4, "process", 4, batch_size=2, step_timeout=TIMEOUT, on_failure=policy)
    envs.reset(seed=SEED)
    start = time.monotonic()

    def until_found() -> float:
        envs.send(np.array([0, 0, 0, Act.SLEEP]))
        while time.monotonic() - start < TIMEOUT + 30:
            infos = envs.recv()[4]
            if restarted(infos):
                assert infos["env_id"][restarted(infos)].tolist() == [3]
                return time.monotonic() - start
            time.sleep(0.005)
            envs.send(np.zeros(len(infos["env_id"]), np.int64))
        pytest.fail("no env was restarted")

    if policy == "restart":
        with at_most(TIMEOUT + 2):
            until_found()
    else:
        with at_most(TIMEOUT + 2), pytest.raises(StepTimeout, match="env 3"):
            until_found()


def test_a_hang_in_one_group_leaves_the_other_its_results(make: Make) -> None:
    """With groups, the hung env's group returns in time and another worker's envs keep their trajectory."""
    envs = make(Walk, 4, "process", 2, groups=2, step_timeout=TIMEOUT, on_failure="restart")
    envs.reset(seed=SEED)
    first, second = envs.groups
    with at_most(TIMEOUT + 2):
        first.send(np.array([0, Act.SLEEP]))
        second.send(np.array([0, 0]))
        one, two = first.recv(), second.recv()
    assert restarted(one[4]) == [1]
    serial = rookery.make_vec(Walk, 4, "serial")
    serial.reset(seed=SEED)
    expected = serial.step(np.zeros(4, np.int64))
    serial.close()
    assert one[0][0].tobytes() == expected[0][0].tobytes()
    assert two[0][0].tobytes() == expected[0][2].tobytes()


def test_a_hang_in_reset_is_found(make: Make) -> None:
    """A reset that never returns is ended by the same timeout."""
    envs = make([Walk, Sleeper], backend="process", workers=2, step_timeout=TIMEOUT)
    with at_most(TIMEOUT + 2), pytest.raises(StepTimeout):
        envs.reset(seed=SEED)


def test_a_replacement_that_hangs_too_uses_up_the_restarts(make: Make, diary: Path) -> None:
    """An env that hangs again in the reset after its restart ends in RestartLimit, not in silence."""
    world = partial(Relapsing, "reset hangs", diary)
    envs = make(world, 1, "process", 1, step_timeout=TIMEOUT, on_failure="restart", max_restarts=2)
    envs.reset(seed=SEED)
    with at_most(3 * (TIMEOUT + 2)), pytest.raises(RestartLimit, match="did not return within"):
        for _ in range(9):  # the first ones may end before the restarts are used up
            envs.step(np.array([0]))


def test_a_hang_while_reporting_is_found(make: Make) -> None:
    """A worker that finished its step but never gets its report out is replaced in time."""
    envs = make(partial(Walk, talkative=True), 4, "process", 2, step_timeout=TIMEOUT, on_failure="restart")
    envs.reset(seed=SEED)
    with at_most(TIMEOUT + 2):
        results = play(envs, 1, {(0, 3): Act.HANG_TELLING})
    assert restarted(results[0][4]) == [2, 3]
    results += play(envs, 5, first=1)
    assert same_rows(results, undisturbed(Walk, 4, 6, SEED), [0, 1])


def test_a_long_pause_between_steps_is_no_hang(make: Make) -> None:
    """Time in which nothing is stepped does not count, nor do earlier steps of the same env."""
    envs = make(Unhurried, 2, "process", 2, step_timeout=0.8)
    envs.reset(seed=SEED)
    play(envs, 1)
    time.sleep(1)
    results = play(envs, 3, first=1)
    assert same_rows(results, undisturbed(Walk, 2, 4, SEED)[1:], [0, 1])


@pytest.mark.slow
def test_the_hung_process_is_gone(make: Make) -> None:
    """The worker that hung does not live on beside its replacement."""
    envs = make(Walk, 2, "process", 2, step_timeout=TIMEOUT, on_failure="restart")
    envs.reset(seed=SEED)
    before = pids_of(envs)
    play(envs, 1, {(0, 1): Act.SPIN})
    after = pids_of(envs)
    assert after[0] == before[0]
    assert after[1] != before[1]


@pytest.mark.parametrize("backend", ["serial", "thread"])
def test_backends_that_cannot_stop_a_step_say_so(backend: str) -> None:
    """`step_timeout` is rejected where a hung step could not be ended."""
    with pytest.raises(OptionError, match="step_timeout"):
        rookery.make_vec(Walk, 2, backend, step_timeout=1.0)


class Sleeper(Walk):
    """Never gets out of reset."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        time.sleep(1000)
        raise AssertionError("never reached")
