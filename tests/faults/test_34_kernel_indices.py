"""Fault 34: a kernel world that reads or writes out of bounds, at any step. That env fails, with file, line and index.
No other number changes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import rookery
from kernel import planted_far, planted_helper
from kernel.planted_far import MISTAKES, NUMBER, Far
from rookery.errors import UsageError, WorldError

ENVS, VICTIM = 6, 2
COMPARED = ("states", "rewards", "terminated", "truncated", "infos", "observations")


def made(mistake, when, **options):
    envs = rookery.make_vec(Far, ENVS, backend="kernel", **options)
    envs.set_parameters(envs=[VICTIM], mistake=NUMBER[mistake])
    envs.set_parameters(when=when)
    return envs


def step_through(envs, steps):
    envs.reset(seed=5)
    actions = np.random.default_rng(0).integers(0, 2, (steps, ENVS))
    for each in actions:
        envs.step(each)


def place_of(mistake):
    """The file and the line in which a mistake is made."""
    for module in (planted_far, planted_helper):
        for number, line in enumerate(inspect.getsource(module).splitlines(), 1):
            if line.endswith(f"  # {mistake}"):
                return f'{module.__name__.split(".")[-1]}.py", line {number}'
    raise AssertionError(mistake)


@pytest.fixture(scope="module")
def without():
    """What all envs reach without a mistake, by the number of steps."""
    found = {}

    def states_after(steps, threads):
        if steps not in found:
            envs = made("none", 1, workers=threads)
            step_through(envs, steps)
            found[steps] = {name: envs.arena.arrays[name].copy() for name in COMPARED}
        return found[steps]

    return states_after


def same(mine, other):
    """Bit by bit, but for the bytes between the fields of records, which are undefined."""
    names = mine.dtype.names
    return all(same(mine[n], other[n]) for n in names) if names else mine.tobytes() == other.tobytes()


def check(mistake, when, without, threads=1):
    envs = made(mistake, when, workers=threads)
    if threads > 1:
        envs._thread_choice.use_threads()
    steps = when + (mistake == "begin")  # the next step begins the episode
    with pytest.raises(WorldError) as caught:
        step_through(envs, steps)
    told = str(caught.value)
    assert MISTAKES[mistake] in told and place_of(mistake) in told and f"env {VICTIM}, " in told, told
    assert caught.value.env_index == VICTIM
    expected = without(steps, threads)
    others = np.arange(ENVS) != VICTIM
    for name in COMPARED:
        assert same(envs.arena.arrays[name][others], expected[name][others]), name
    return envs


@pytest.mark.few(3)
@pytest.mark.parametrize("mistake", list(MISTAKES)[1:])
def test_an_env_that_goes_wrong_is_named_and_no_other_changes(mistake, without):
    check(mistake, 40, without)


@pytest.mark.parametrize("when", [1, 10_000])
@pytest.mark.parametrize("mistake", ["state", "before", "huge", "observation"])
def test_at_the_first_step_and_after_a_long_time(mistake, when, without):
    check(mistake, when, without)


def test_on_several_threads(without):
    check("augmented", 40, without, threads=2)


def test_the_others_go_on_and_the_failed_env_is_reset(without):
    """After the error, only the env that failed needs a reset."""
    envs = check("state", 3, without)
    with pytest.raises(UsageError, match="not in an episode"):
        envs.step(np.zeros(ENVS, np.int64))
    envs.set_parameters(mistake=0)
    envs.reset(seed=[None] * ENVS, options={"reset_mask": np.arange(ENVS) == VICTIM})
    envs.step(np.zeros(ENVS, np.int64))


def test_it_is_restarted_where_that_is_allowed():
    envs = made("state", 3, on_failure="restart")
    envs.reset(seed=1)
    restarted = np.zeros(ENVS, int)
    for _ in range(4):
        *_, infos = envs.step(np.zeros(ENVS, np.int64))
        restarted += infos.get("restarted", np.zeros(ENVS, bool)).astype(int)
    assert restarted.tolist() == [int(k == VICTIM) for k in range(ENVS)]


def test_two_envs_that_fail_in_one_step_are_both_named():
    """One after the other: a fault is not lost to another env's."""
    envs = made("state", 3)
    envs.set_parameters(envs=[4], mistake=NUMBER["constant"])
    with pytest.raises(WorldError, match="env 2, "):
        step_through(envs, 3)
    assert (envs.arena.states["stage"] != 0).tolist() == [k in (2, 4) for k in range(ENVS)]


def test_slices_are_cut_as_in_python_and_negative_indices_count_from_the_end():
    """Compiled code and plain Python give the same."""
    compiled = rookery.kernel.kernel_env.KernelEnv(Far)
    plain = rookery.kernel.kernel_env.KernelEnv(Far, plain=True)
    for env in (compiled, plain):
        env.reset(seed=3)
    for k in range(50):
        np.testing.assert_allclose(compiled.step(k % 2)[0], plain.step(k % 2)[0])


@pytest.mark.slow
@pytest.mark.parametrize("when", [2, 100, 1000, 9999])
@pytest.mark.parametrize("mistake", list(MISTAKES)[1:])
def test_every_mistake_at_every_time(mistake, when, without):
    check(mistake, when, without)
