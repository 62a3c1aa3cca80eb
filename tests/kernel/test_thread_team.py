"""Threads that share out a kernel world's loop: nothing is lost, nobody is waited for in vain, all go when told."""

from __future__ import annotations

import gc
import os
import threading
import time

import numba
import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import rookery
from kernel.samples import Walker
from rookery.atomics import NUMBER, OWN_WORDS, WAKE_READ, start_threads
from rookery.engine.thread_choice import TRIAL_ROUNDS, ThreadChoice
from rookery.kernel.batch_loop import PATIENCE, Division, division_of
from rookery.kernel.native import compiled
from rookery.kernel.thread_team import (
    BATCH,
    CLOSED,
    DONE,
    LONGEST_WAIT,
    NEXT_CHUNK,
    SHARE,
    SHARES,
    _sort_by_cost,
    _wait_for_others,
)
from worlds.robots import Arm


def shared(num_envs, threads, by_cost=False, **options):
    """An engine whose rounds are shared out from the first one on."""
    envs = rookery.make_vec(Walker, num_envs, backend="kernel", workers=threads, **options)
    envs._thread_choice.use_threads(1.0 if by_cost else 0.0)
    return envs


def threads_at_work():
    return sum(thread.name.startswith("rookery-kernel") for thread in threading.enumerate())


@pytest.mark.few(1)
@pytest.mark.parametrize("by_cost", [False, True])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_no_env_is_left_out_or_stepped_twice(threads, by_cost):
    """More threads than cores, sizes that do not divide, pauses in which they fall asleep: as one thread has it."""
    envs = 13 if by_cost else 29
    alone, team = rookery.make_vec(Walker, envs, backend="kernel", workers=1), shared(envs, threads, by_cost)
    assert (team._thread_choice._team.last_steps.size > 0) is by_cost
    alone.reset(seed=3), team.reset(seed=3)
    rng = np.random.default_rng(0)
    for k in range(1500):
        actions = rng.integers(0, 3, envs)
        for mine, theirs in zip(team.step(actions)[:4], alone.step(actions)[:4], strict=True):
            assert np.array_equal(mine, theirs)
        if k % 300 == 0:
            time.sleep(0.005)
    mine, theirs = (np.sort(envs.finished_episodes()[["env", "return", "length"]]) for envs in (team, alone))
    assert np.array_equal(mine, theirs)
    team.close(), alone.close()


def test_a_team_takes_the_new_plan_of_its_envs():
    """Parameters of each env's own are in another array than those of all."""
    alone, team = rookery.make_vec(Walker, 6, backend="kernel", workers=1), shared(6, 2, by_cost=True)
    for envs in (alone, team):
        envs.reset(seed=3)
        envs.step(np.ones(6, int))
        envs.set_parameters(time_limit=np.arange(2, 8))
    for _ in range(10):
        for mine, theirs in zip(team.step(np.ones(6, int))[:4], alone.step(np.ones(6, int))[:4], strict=True):
            assert np.array_equal(mine, theirs)
    team.close(), alone.close()


def test_a_team_notes_the_last_step_of_each_env():
    """How long it took, when it began, and on which thread."""
    envs = shared(6, 2, by_cost=True)
    envs.reset(seed=1)
    before = time.monotonic_ns()
    envs.step(np.ones(6, int))
    took, began, threads = envs._thread_choice._team.last_steps[:, 0]
    assert (took > 0).all() and (began > before).all() and (began + took < time.monotonic_ns()).all()
    assert set(threads.tolist()) <= {0, 1}
    envs.close()


def test_fewer_envs_than_threads():
    """Some have nothing to do."""
    alone, envs = rookery.make_vec(Walker, 3, backend="kernel", workers=1), shared(8, 8)
    envs.resize(3)
    envs._thread_choice.use_threads()
    alone.reset(seed=1), envs.reset(seed=1)
    for _ in range(50):
        actions = np.ones(3, int)
        assert np.array_equal(envs.step(actions)[0], alone.step(actions)[0])
    envs.close(), alone.close()


def test_threads_go_with_their_engine():
    """When it is closed, resized, or just dropped."""
    before = threads_at_work()
    envs = shared(16, 3)
    envs.reset(seed=1), envs.step(np.ones(16, int))
    assert threads_at_work() == before + 2
    envs.resize(20)
    assert threads_at_work() == before
    envs._thread_choice.use_threads()
    envs.close(), envs.close()
    assert threads_at_work() == before
    dropped = shared(16, 3)
    dropped.reset(seed=1), dropped.step(np.ones(16, int))
    del dropped
    gc.collect()
    assert threads_at_work() == before


def test_a_forked_child_steps_on_alone():
    """The other threads are not there: their part is done by the caller."""
    envs = shared(64, 2)
    envs.reset(seed=1)
    actions = np.ones(64, int)
    envs.step(actions)
    child = os.fork()
    if child == 0:
        for _ in range(20):
            envs.step(actions)
        os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    envs.step(actions)
    envs.close()


@pytest.mark.alone
def test_threads_that_have_nothing_to_do_sleep():
    """A moment after the last round they use no time: three that looked for work would use 1.5 s."""
    envs = shared(64, 4)
    envs.reset(seed=1), envs.step(np.ones(64, int))
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.25
    envs.close()


def test_a_bad_action_moves_nothing():
    """Not even the envs whose actions are good."""
    envs = shared(16, 2)
    envs.reset(seed=1)
    state = envs.arena.states.copy()
    actions = np.ones(16, int)
    actions[13] = 9
    with pytest.raises(rookery.errors.SpaceError, match="env 13"):
        envs.step(actions)
    assert np.array_equal(envs.arena.states, state)
    envs.close()


class Rounds:
    """Stands in for a runner whose rounds take as long as told."""

    def __init__(self, seconds):
        self.seconds, self.env_arrays, self.addresses = seconds, self, (0, 0)
        self.num_envs, self.world, self.step_parts = 100, self, 1

    def start_batch_step(self):
        """Nothing to note."""

    def step(self, low, high):
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return 0


@pytest.mark.alone
@pytest.mark.parametrize(("faster", "kept"), [(0.1, True), (5.0, False)])
def test_several_threads_are_kept_if_they_are_faster(monkeypatch, faster, kept):
    """Some rounds with one thread, some with all; then it is decided. The difference is larger than any delay."""
    rounds = Rounds(2e-3)
    sharing = ThreadChoice(rounds, 4)

    class Others:
        def prepare(self, entry, plan, size):
            return lambda: time.sleep(faster * rounds.seconds) or 0

        def close(self):
            """Nobody to send home."""

    monkeypatch.setattr("rookery.kernel.thread_team.ThreadTeam", lambda threads, division: Others())
    for _ in range(2 * TRIAL_ROUNDS + 3):
        sharing.step()
    assert (sharing._team is not None) is kept


@pytest.mark.alone
def test_long_rounds_that_were_not_shared_are_tried_again(monkeypatch):
    """Other programs may have used the cores in the first rounds."""
    rounds, delay = Rounds(2e-4), [1e-3]

    class Others:
        def prepare(self, entry, plan, size):
            return lambda: time.sleep(delay[0]) or 0

        def close(self):
            """Nobody to send home."""

    monkeypatch.setattr("rookery.kernel.thread_team.ThreadTeam", lambda threads, division: Others())
    monkeypatch.setattr("rookery.engine.thread_choice.FIRST_RETRY", 8)
    sharing = ThreadChoice(rounds, 4)
    for _ in range(2 * TRIAL_ROUNDS + 3):
        sharing.step()
    assert sharing._team is None and not sharing.single
    delay[0] = 0.0
    for _ in range(2 * TRIAL_ROUNDS + 3 + 8):
        sharing.step()
    assert sharing._team is not None


@pytest.mark.parametrize(
    ("envs", "seconds", "chunks"), [(640, 1e-5, 4), (640, 8.1e-4, 10), (640, 1.0, 160), (6, 1e-5, 4)]
)
def test_chunks_are_small_where_envs_are_costly(envs, seconds, chunks):
    """At least 4 for a thread; of 20 us, or one env."""
    assert division_of(envs, seconds, 4) == Division(4, chunks)


def test_few_costly_envs_are_taken_one_by_one():
    """After a batch, threads stay awake for as long as two envs take, but not for longer than 2 ms."""
    assert division_of(32, 32 * 1e-4, 4) == Division(1, 32, True, 2 * PATIENCE)
    assert division_of(32, 32 * 3e-5, 4) == Division(1, 32, True, PATIENCE)
    assert division_of(2, 1.0, 4) == Division(1, 2, True, 20 * PATIENCE)


def test_costly_steps_are_made_in_two_parts():
    """Those of three envs per thread; if the last part is long enough, and there are more envs than threads."""
    costly, short = 32 * 1e-4, 32 * 2.4e-5
    assert division_of(32, costly, 4, parts=5) == Division(1, 44, True, 2 * PATIENCE, 12)
    assert division_of(6, 6 * 1e-4, 4, parts=5) == Division(1, 12, True, 2 * PATIENCE, 6)
    assert division_of(32, short, 4, parts=5) == Division(1, 32, True, PATIENCE)
    assert division_of(32, costly, 32, parts=5) == Division(1, 32, True, 2 * PATIENCE)
    assert division_of(640, 640 * 1e-4, 4, parts=5) == Division(4, 160)


def test_a_team_notes_both_parts_of_a_step():
    """The last part of an env's step begins when the first one is over, and may be on another thread. Two of eight envs
    are stepped in one part."""
    envs = rookery.make_vec(Arm, 8, backend="kernel", workers=2)
    envs._thread_choice.use_threads(1.0)
    envs.reset(seed=1)
    before = time.monotonic_ns()
    envs.step(envs.action_space.sample())
    took, began, threads = envs._thread_choice._team.last_steps
    assert (took[0] > 0).all() and (took[1] > 0).sum() == 6
    assert (began[0] > before).all() and (began[0] + took[0] <= began[1]).all()
    assert (began[1] + took[1] <= time.monotonic_ns()).all() and set(threads.ravel().tolist()) <= {0, 1}
    envs.close()


def test_the_costliest_envs_are_first():
    """Whatever order they had; of equals, the one that was first."""
    sort = numba.njit(_sort_by_cost)
    for order, costs in (([0, 1, 2, 3, 4], [20, 10, 50, 50, 30]), ([4, 3, 1, 2, 0], [1, 2, 3, 4, 5]), ([0], [7])):
        words = np.array([*order, *costs])
        sort(words.ctypes.data, words.ctypes.data + 8 * len(order), len(order))
        assert words.tolist() == [*sorted(order, key=lambda env: -costs[env]), *costs]


def test_threads_stay_awake_until_a_batch_is_over():
    """Or until it has taken long, the next one has begun, or the team is closed."""
    wait = compiled("test-wait", _wait_for_others, NUMBER(NUMBER, NUMBER))
    words = np.zeros(NEXT_CHUNK // 8 + 1, np.int64)
    words[[SHARES // 8, SHARE // 8, BATCH // 8]] = 1, 3, 7
    address, start = words.ctypes.data, time.monotonic_ns()
    assert wait(address, 7) == 0 and time.monotonic_ns() - start >= LONGEST_WAIT
    assert wait(address, 6) == 1
    words[DONE // 8] = 3
    assert wait(address, 7) == 1
    words[[DONE // 8, CLOSED // 8]] = 0, 1
    assert wait(address, 7) == 1


@pytest.mark.alone
def test_short_rounds_are_not_shared():
    """No thread is started for them."""
    sharing = ThreadChoice(Rounds(0.0), 4)
    for _ in range(TRIAL_ROUNDS + 1):
        sharing.step()
    assert sharing.single and sharing._team is None


def test_garbage_collected_while_something_is_compiled_is_no_deadlock(monkeypatch):
    """A thread that loads its code waits for the compiler, which the thread that collects garbage may hold."""
    monkeypatch.setattr("rookery.atomics.JOIN_SECONDS", 0.01)

    def work(address, slot):
        with global_compiler_lock:
            pass

    words = np.zeros(OWN_WORDS // 8, np.int64)
    with global_compiler_lock:
        stop = start_threads(lambda: None, words, 3, work, "waiting")  # its team is garbage at once
        ours = [thread for thread in threading.enumerate() if thread.name.startswith("waiting")]
        assert not stop.alive and len(ours) == 2
    for thread in ours:
        thread.join(10)
    assert not any(thread.is_alive() for thread in ours)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(int(words[WAKE_READ // 8]))


def test_garbage_collected_in_one_of_its_threads_is_no_error():
    caught = []

    def work(address, slot):
        ready.wait(10)
        try:
            stop.pop()()
        except RuntimeError as error:
            caught.append(error)

    class Team:
        pass

    stop, team = [], Team()
    ready = threading.Event()
    stop.append(
        start_threads(team, np.zeros(OWN_WORDS // 8, np.int64), 2, lambda *_: (ready.wait(10), work(*_)), "own")
    )
    ready.set()
    for thread in threading.enumerate():
        if thread.name.startswith("own-"):
            thread.join(10)
    assert not stop and not caught
