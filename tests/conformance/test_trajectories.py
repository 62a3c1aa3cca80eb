"""Same seed, same numbers: whatever the backend, the workers, the mode, or who finished first."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rookery
from conformance.compare import record, same
from conformance.threads import often_switched
from conformance.worlds import Counter, GlobalDice, Informer, Sampler
from kernel.samples import Steerer, Walker
from worlds.robots import Arm

MODES = ["next_step", "same_step", "disabled"]


def serial(world, num_envs, **options):
    return rookery.make_vec(world, num_envs, backend="serial", **options)


@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1", Counter, Informer, Sampler], ids=str)
@pytest.mark.parametrize("mode", MODES[:2])
def test_every_backend_gives_what_serial_gives(make, world, mode):
    """A trajectory depends on seed, env and actions alone; infos included."""
    with_serial = record(serial(world, 3, autoreset_mode=mode))
    assert same(with_serial, record(make(world, 3, autoreset_mode=mode)))


@pytest.mark.parametrize("world", ["rookery/CartPole-v1", Walker, Steerer, Arm], ids=str)
@pytest.mark.parametrize("mode", MODES[:2])
def test_every_backend_steps_kernel_worlds_alike(make_any, world, mode):
    """Compiled for a whole batch or one env at a time: infos and masks included."""
    with_serial = record(serial(world, 3, autoreset_mode=mode))
    assert same(with_serial, record(make_any(world, 3, autoreset_mode=mode)))


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_number_of_workers_changes_nothing(workers):
    """1, 2, 4 and 8 processes give the serial loop's numbers."""
    envs = rookery.make_vec("CartPole-v1", 8, backend="process", workers=workers)
    assert same(record(serial("CartPole-v1", 8)), record(envs))
    envs.close()


@pytest.mark.parametrize(("num_envs", "workers"), [(17, 6), (5, 5), (7, 2)])
def test_envs_divide_among_workers_in_any_way(num_envs, workers):
    """17 envs on 6 workers are as good as 16 on 4."""
    envs = rookery.make_vec(Counter, num_envs, backend="process", workers=workers)
    assert same(record(serial(Counter, num_envs), 12), record(envs, 12))
    assert sum(row["envs"] for row in envs.stats()) == num_envs
    envs.close()


def test_without_a_seed_envs_differ(make_any, cartpole):
    """Nobody gets a neighbour's stream by default."""
    observations, _ = make_any(cartpole, 4).reset()
    assert len(np.unique(observations, axis=0)) == 4


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_global_random_state_is_private_to_each_env(workers):
    """`random` and `numpy.random` are seeded per env: which envs share a process does not show."""
    envs = rookery.make_vec(GlobalDice, 4, backend="process", workers=workers)
    assert same(record(serial(GlobalDice, 4)), record(envs))
    envs.close()


def test_serial_leaves_the_callers_random_state_alone():
    """Envs that seed and draw from global generators do not move the caller's."""
    import random

    random.seed(1), np.random.seed(1)
    expected = random.random(), np.random.rand()
    random.seed(1), np.random.seed(1)
    record(serial(GlobalDice, 2), 5)
    assert (random.random(), np.random.rand()) == expected


def test_threads_refuse_what_they_cannot_isolate():
    """The thread backend says that global random state is shared, rather than giving irreproducible numbers."""
    with pytest.raises(rookery.errors.OptionError, match="threads cannot keep apart"):
        rookery.make_vec(GlobalDice, 2, backend="thread", workers=2)


@pytest.mark.parametrize(
    ("any_backend", "workers"), [("process", 2), ("process", 8), ("thread", 4), ("serial", 1), ("kernel", 1)], ids=str
)
def test_send_and_recv_give_the_same_trajectories(make_any, cartpole, workers):
    """With batch_size below num_envs the order of arrival varies; what each env does, does not."""
    steps, n = 30, 8
    actions = np.random.default_rng(0).integers(0, 2, (steps, n))
    reference = serial(cartpole, n)
    reference.reset(seed=9)
    expected = [reference.step(row) for row in actions]
    envs = make_any(cartpole, n, workers=workers, batch_size=3)
    envs.reset(seed=9)
    envs.send(actions[0])
    taken = np.zeros(n, int)
    while (taken < steps).any():
        observations, rewards, terminated, truncated, infos = envs.recv()
        ids = infos["env_id"]
        assert len(ids) <= 3
        for k, i in enumerate(ids):
            step = expected[taken[i]]
            assert np.array_equal(step[0][i], observations[k])
            assert (step[1][i], step[2][i], step[3][i]) == (rewards[k], terminated[k], truncated[k])
        taken[ids] += 1
        more = ids[taken[ids] < steps]
        if len(more):
            envs.send(actions[taken[more], more], more)


def step_two_at_once(make, cartpole, seconds):
    expected, until = record(serial(cartpole, 4)), time.monotonic() + seconds
    engines = [make(cartpole, 4) for _ in range(2)]

    def repeat(envs):
        while time.monotonic() < until:
            assert same(expected, record(envs))

    with ThreadPoolExecutor(2) as threads, often_switched():
        list(threads.map(repeat, engines))


def test_two_engines_at_once_do_not_meet(make_any, cartpole):
    """In two threads: each steps its own envs and gives its own numbers, however often the threads take turns."""
    step_two_at_once(make_any, cartpole, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["process"])
def test_two_engines_at_once_for_a_minute(make):
    """The same where most is shared: with plain loops, the parent's memory barriers are Python's."""
    step_two_at_once(make, "CartPole-v1", 60)


def test_groups_give_the_same_trajectories(make_any, cartpole):
    """Two groups stepped in turns see what the same envs see in lock-step."""
    actions = np.random.default_rng(0).integers(0, 2, (20, 6))
    whole = serial(cartpole, 6)
    whole.reset(seed=4)
    envs = make_any(cartpole, 6, groups=2)
    envs.reset(seed=4)
    first, second = envs.groups
    first.send(actions[0][:3])
    for t in range(20):
        expected = whole.step(actions[t])
        second.send(actions[t][3:])
        got_first = first.recv()
        if t + 1 < 20:
            first.send(actions[t + 1][:3])
        got_second = second.recv()
        for part, got in ((slice(0, 3), got_first), (slice(3, 6), got_second)):
            assert all(np.array_equal(e[part], g) for e, g in zip(expected[:4], got[:4], strict=True))


def test_disabled_mode_waits_for_reset_mask(make_any, counter):
    """With autoreset off, an ended env must be reset by mask, and then continues; the others are not disturbed."""
    envs = make_any(counter, 3, autoreset_mode="disabled", env_kwargs={"length": 2})
    envs.reset(seed=1)
    envs.step([0, 0, 0])
    _, _, terminated, _, _ = envs.step([0, 0, 0])
    assert terminated.all()
    with pytest.raises(rookery.errors.UsageError, match="reset_mask"):
        envs.step([0, 0, 0])
    observations, _ = envs.reset(options={"reset_mask": np.array([True, True, False])})
    assert observations[:, 0].tolist() == [0.0, 0.0, 2.0]
