"""Fault 19: envs that print, fork, start threads, exit, use global random state or reuse their buffers."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

import rookery
from faults.envs import Act, Forking, ForksAndWaits, GlobalRandom, Printing, Reusing, Threading, Walk
from faults.watch import (
    BACKENDS,
    SPAWN_SELDOM,
    START_METHODS,
    at_most,
    gone_within,
    pids_of,
    play,
    restarted,
    same,
    same_rows,
    undisturbed,
)
from rookery.errors import OptionError, WorkerDied

pytestmark = pytest.mark.timeout(30)
Make = Callable[..., rookery.Engine]
ALL_ROWS = [0, 1, 2, 3]


# --- printing -------------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("backend", "method"), [("serial", None), ("thread", None), *[("process", method) for method in START_METHODS]]
)
def test_what_envs_print_arrives(
    make: Make, capfd: pytest.CaptureFixture[str], backend: str, method: str | None
) -> None:
    """All that envs write to stdout and stderr is there after close(), once, and disturbs nothing."""
    envs = make(Printing, 4, backend, 1 if backend == "serial" else 2, start_method=method)
    envs.reset(seed=1)
    results = play(envs, 3)
    envs.close()
    printed = capfd.readouterr()
    steps = 12
    assert printed.out.count("a word on stdout") == steps
    assert printed.err.count("a word on stderr") == steps
    assert same_rows(results, undisturbed(Walk, 4, 3, seed=1), ALL_ROWS)


# --- processes and threads of the env's own -------------------------------------------------------------------------


@contextlib.contextmanager
def children_of(envs: rookery.Engine) -> Iterator[list[int]]:
    """Reset envs that each start a process; those are removed at the end, as their env does not do it."""
    _, infos = envs.reset(seed=1)
    children = infos["child"].tolist()
    try:
        yield children
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        gone_within(children, 2)


@pytest.mark.parametrize("way", ["fork", "subprocess"])
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_envs_with_child_processes_work_and_close(make: Make, method: str, way: str) -> None:
    """An env may start processes that nobody ends: stepping and close() do not wait for them."""
    envs = make(partial(Forking, way), 2, "process", 2, start_method=method)
    with children_of(envs):
        results = play(envs, 3)
        with at_most(1.5):
            envs.close()
    assert same_rows(results, undisturbed(Walk, 2, 3, seed=1), [0, 1])


@pytest.mark.parametrize("way", ["fork", "subprocess"])
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_an_envs_child_processes_can_be_terminated(make: Make, method: str, way: str) -> None:
    """SIGTERM does not end a worker, but the processes that its envs have started."""
    envs = make(partial(Forking, way), 2, "process", 2, start_method=method)
    with children_of(envs) as children:
        for pid in (*children, *pids_of(envs)):
            os.kill(pid, signal.SIGTERM)
        gone_within(children, 2)
        assert same_rows(play(envs, 3), undisturbed(Walk, 2, 3, seed=1), [0, 1])


@pytest.mark.parametrize("way", ["fork", "subprocess"])
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_a_death_is_found_though_the_envs_child_holds_its_files(make: Make, method: str, way: str) -> None:
    """A forked child keeps the worker's end of the channel open; the worker's death is found all the same."""
    envs = make(partial(Forking, way), 2, "process", 2, start_method=method)
    with children_of(envs):
        os.kill(pids_of(envs)[1], signal.SIGKILL)
        with at_most(1), pytest.raises(WorkerDied, match=r"envs 1\b.*SIGKILL"):
            play(envs, 1)
        with at_most(1.5):
            envs.close()


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_env_that_forks_in_every_step_works(make: Make, backend: str) -> None:
    """A child that does part of a step and exits disturbs neither the worker nor the main process."""
    envs = make(ForksAndWaits, 4, backend, 1 if backend == "serial" else 2)
    envs.reset(seed=1)
    assert same_rows(play(envs, 6), undisturbed(Walk, 4, 6, seed=1), ALL_ROWS)


@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_threads_of_an_env_do_not_hold_its_worker(make: Make, method: str) -> None:
    """Threads run beside the steps, and one that never ends does not keep the worker from leaving."""
    envs = make(Threading, 4, "process", 2, start_method=method)
    envs.reset(seed=1)
    results = play(envs, 6)
    assert all(beat > 0 for beat in envs.get_attr("beat"))
    with at_most(1.5):
        envs.close()
    assert same_rows(results, undisturbed(Walk, 4, 6, seed=1), ALL_ROWS)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", SPAWN_SELDOM)
def test_os_exit_is_a_death_like_any_other(make: Make, method: str) -> None:
    """`os._exit` in a step ends the worker: named with its code, or mended by a restart."""
    envs = make(Walk, 4, "process", 2, start_method=method)
    envs.reset(seed=1)
    with at_most(1), pytest.raises(WorkerDied, match=r"envs 2-3.*exited with code 3"):
        play(envs, 1, {(0, 3): Act.OS_EXIT})
    envs.close()
    envs = make(Walk, 4, "process", 2, start_method=method, on_failure="restart")
    envs.reset(seed=1)
    with at_most(5):
        results = play(envs, 8, {(2, 3): Act.OS_EXIT})
    assert restarted(results[2][4]) == [2, 3]
    assert same_rows(results, undisturbed(Walk, 4, 8, seed=1), [0, 1])


# --- global random state --------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_global_random_state_is_each_envs_own(make: Make, workers: int, mode: str) -> None:
    """An env that draws from `random` and `numpy.random` has one trajectory, however many workers there are."""
    envs = make(GlobalRandom, 4, "process", workers, autoreset_mode=mode)
    envs.reset(seed=1)
    assert same_rows(play(envs, 20), undisturbed(GlobalRandom, 4, 20, seed=1, autoreset_mode=mode), ALL_ROWS)


def test_global_random_state_under_send_and_recv(make: Make) -> None:
    """The same through send/recv, where envs of a worker take their steps in any order."""
    envs = make(GlobalRandom, 4, "process", 2, batch_size=1)
    envs.reset(seed=1)
    expected = undisturbed(GlobalRandom, 4, 5, seed=1)
    seen: dict[int, list[bytes]] = {row: [] for row in ALL_ROWS}
    envs.send(np.zeros(4, np.int64), np.arange(4))
    while envs._in_flight:
        observations, *_, infos = envs.recv()
        row = int(infos["env_id"][0])
        seen[row].append(observations[0].tobytes())
        if len(seen[row]) < 5:
            envs.send(np.zeros(1, np.int64), [row])
    assert seen == {row: [result[0][row].tobytes() for result in expected] for row in ALL_ROWS}


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_the_callers_random_state_is_left_alone(make: Make, backend: str) -> None:
    """Envs that draw from the global generators neither read nor move those of the program."""
    random.seed(5)
    np.random.seed(5)
    expected = random.random(), np.random.rand()
    random.seed(5)
    np.random.seed(5)
    envs = make(GlobalRandom, 4, backend, 1)
    envs.reset(seed=1)
    play(envs, 10)
    assert (random.random(), np.random.rand()) == expected


def test_threads_refuse_what_they_cannot_keep_apart(make: Make) -> None:
    """The thread backend says that it cannot give each env a global state of its own."""
    with pytest.raises(OptionError, match=r"numpy\.random"):
        make(GlobalRandom, 4, "thread", 2)


class OwnGenerator(Walk):
    """Uses numpy.random for a generator of its own, which is nothing global."""

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.mine = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)


def test_a_generator_of_ones_own_is_not_global_state(make: Make) -> None:
    """`numpy.random.default_rng` is not a reason for the thread backend to refuse an env."""
    envs = make(OwnGenerator, 4, "thread", 2)
    envs.reset(seed=1)
    assert same_rows(play(envs, 6), undisturbed(Walk, 4, 6, seed=1), ALL_ROWS)


# --- reused buffers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reused_buffer_gives_the_same_observations(make: Make, backend: str) -> None:
    """An env that returns one array again and again is no different from one that returns new ones."""
    envs = make(Reusing, 4, backend, 1 if backend == "serial" else 2)
    envs.reset(seed=1)
    assert same_rows(play(envs, 20), undisturbed(Walk, 4, 20, seed=1), ALL_ROWS)


@pytest.mark.parametrize("backend", BACKENDS)
def test_final_obs_is_taken_before_the_buffer_is_overwritten(make: Make, backend: str) -> None:
    """In SAME_STEP mode `final_obs` holds the last observation, not the reset that overwrote the env's buffer."""
    envs = make(Reusing, 4, backend, 1 if backend == "serial" else 2, autoreset_mode="same_step")
    envs.reset(seed=1)
    results, expected = play(envs, 20), undisturbed(Walk, 4, 20, seed=1, autoreset_mode="same_step")
    assert same_rows(results, expected, ALL_ROWS)
    ends = 0
    for mine, theirs in zip(results, expected, strict=True):
        for row in np.flatnonzero(mine[2]):
            ends += 1
            assert same(mine[4]["final_obs"][row], theirs[4]["final_obs"][row])
            assert mine[4]["final_obs"][row][1] == mine[4]["final_obs"][row][2]  # steps == length: the last one
            assert mine[0][row][1] == 0  # the new episode's first
    assert ends >= 8
