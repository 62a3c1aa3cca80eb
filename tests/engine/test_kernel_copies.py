"""What a step of the kernel backend returns belongs to the caller."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from conformance.compare import same
from kernel.samples import Poisoned, Tug, Walker
from rookery.engine import kernel, plain_loops


@pytest.mark.slow
@pytest.mark.parametrize("world", [Walker, Tug, "rookery/Humanoid-v5"])
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_infos_are_the_same_in_python_and_compiled(world, mode, monkeypatch):
    """With one agent or two, with arrays among them, over the ends of episodes."""
    kinds = [rookery.make_vec(world, 7, backend="kernel", workers=1, autoreset_mode=mode) for _ in range(2)]
    actions, found = [kinds[0].action_space.sample() for _ in range(40)], []
    for envs, reader in zip(kinds, (plain_loops.read_records, kernel.read_records), strict=True):
        monkeypatch.setattr(kernel, "read_records", reader)
        found.append([envs.reset(seed=3), *(envs.step(action) for action in actions)])
    assert same(*found)


def test_nothing_that_was_returned_changes_later():
    """Neither observations nor infos; and what the caller does with them changes nothing in the envs."""
    envs, others = (rookery.make_vec(Walker, 7, backend="kernel", workers=1) for _ in range(2))
    envs.reset(seed=3), others.reset(seed=3)
    observations, _, _, _, infos = envs.step(np.ones(7, int))
    assert same((observations, infos), others.step(np.ones(7, int))[::4])
    kept = observations.copy(), {key: column.copy() for key, column in infos.items()}
    assert same(envs.step(np.zeros(7, int)), others.step(np.zeros(7, int)))
    assert same((observations, infos), kept)
    observations[:], infos["distance"][:], infos["_distance"][:] = 7.0, 7.0, False
    for _ in range(5):
        assert same(envs.step(np.ones(7, int)), others.step(np.ones(7, int)))


@pytest.fixture(params=["copied by NumPy", "copied in the step"])
def makes_copies(request, monkeypatch):
    """Whether compiled steps copy observations of any size, or of none. Without copies, all is as it was observed."""
    size = {"copied by NumPy": np.inf, "copied in the step": 0}[request.param]
    monkeypatch.setattr(kernel, "LARGE", size)
    return size == 0


def pair(world, makes_copies, num_envs=7, **options):
    """An engine that returns copies, stepped by two threads, and one that returns views."""
    copies, views = (rookery.make_vec(world, num_envs, backend="kernel", workers=2 - k, copy=not k, **options)
                     for k in range(2))  # fmt: skip
    assert copies._copies_in_step == makes_copies and not views._copies_in_step
    copies._thread_choice.use_threads()
    return copies, views


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("world", [Walker, Tug, "rookery/Catch-v0"])
def test_copies_are_what_views_show(world, mode, makes_copies):
    """With one agent or two and with images, over the ends of episodes; no two steps return the same memory."""
    copies, views = pair(world, makes_copies, autoreset_mode=mode)
    copies.reset(seed=3), views.reset(seed=3)
    kept = []
    for k in range(40):
        if k == 20:
            [envs.reset_with({1: {"time_limit": 2}}) for envs in (copies, views)]
        actions = views.action_space.sample()
        got, expected = copies.step(actions), views.step(actions)
        assert same(got, expected)
        kept.append((got[0], got[0].copy()))
    assert same(*map(list, zip(*kept, strict=True)))
    kept[-1][0][:] = 0
    mask = np.arange(len(kept[-1][0])) < views.agents
    assert same(*(envs.reset(options={"reset_mask": mask})[0] for envs in (copies, views)))
    copies.close()


@pytest.mark.slow
def test_a_restarted_env_is_in_the_copies_too(makes_copies):
    copies, views = pair(Poisoned, makes_copies, 3, bad_values="restart")
    for envs in (copies, views):
        envs.reset(seed=1)
        envs.set_parameters(envs=[1], harm=1)
    for _ in range(5):
        assert same(copies.step(np.ones(3, int)), views.step(np.ones(3, int)))
    copies.close()


def test_envs_that_are_stepped_in_groups_write_into_no_old_copy(makes_copies):
    """After a whole step, other calls step envs without making copies; an action that is refused steps none."""
    envs, _ = pair(Walker, makes_copies, 4, groups=2)
    envs.reset(seed=1)
    observations = envs.step(np.ones(4, int))[0]
    before = observations.copy()
    with pytest.raises(rookery.errors.SpaceError):
        envs.step(np.full(4, 9))
    envs.step_async(np.zeros(4, int))
    envs.step_wait()
    envs.step_rows(np.zeros(2, int), np.arange(2))
    assert same(observations, before)
    envs.close()
