"""The GPU's code without a GPU: the body of its kernel in plain Python, under the engine that launches it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rookery
from kernel.samples import Poisoned, Stairs, Steerer, Tug, Walker
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.errors import BadValue, OptionError, SpaceError
from rookery.kernel.cuda_bodies import build_bodies, key_of, reserve_serially
from rookery.worlds.hockey.world import HockeyOne, HockeyRows


def on_cpu(world, num_envs, mode="next_step", copy=False, **options):
    settings = Settings(num_envs, autoreset_mode=autoreset(mode), copy=copy, **options)
    return CudaEngine(resolve(world), settings, device="cpu")


@pytest.mark.few(1)
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize(
    "world",
    # The last has to be compiled for this alone; agents in rows are Tug's as well.
    [Walker, Steerer, Tug, Stairs, HockeyOne, pytest.param(HockeyRows, marks=pytest.mark.slow)],
    ids=lambda world: world.__name__,
)
@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_the_gpus_code_does_what_the_cpus_does(world, mode):
    """Same seeds, same actions: the same observations, rewards, ends, infos and statistics."""
    ours = on_cpu(world, 4, mode, copy=True)
    theirs = rookery.make_vec(world, 4, backend="kernel", autoreset_mode=mode)
    theirs.action_space.seed(1)
    assert np.array_equal(ours.reset(seed=3)[0].numpy(), theirs.reset(seed=3)[0])
    for _ in range(40):
        actions = theirs.action_space.sample()
        mine, other = ours.step(torch.from_numpy(actions)), theirs.step(actions)
        for a, b in zip(mine[:4], other[:4], strict=True):
            assert np.allclose(a.numpy(), b, atol=1e-6)
        for name in world.info:
            spoke = mine[4][f"_{name}"].numpy()
            assert np.array_equal(mine[4][name].numpy()[spoke], other[4].get(name, np.zeros(len(spoke)))[spoke])
        if "final_obs" in other[4]:
            for row in np.flatnonzero(other[4]["_final_obs"]):
                assert np.allclose(mine[4]["final_obs"][row].numpy(), other[4]["final_obs"][row], atol=1e-6)
    assert np.allclose(ours.last_returns.numpy(), theirs.batch.returns, atol=1e-5)


def test_long_steps_are_gathered_by_kind():
    """Each kind in a list of its own, in which no env is missing; a kind that was not declared counts as the last."""
    envs = on_cpu(Stairs, 6)
    envs.reset(seed=1)
    envs.step(torch.tensor([2, 0, 1, 1, 0, 2]))
    launcher = envs._launcher
    assert launcher._count.tolist() == [2, 2]
    assert [sorted(row[:2].tolist()) for row in launcher._hard] == [[2, 3], [0, 5]]


def test_the_state_goes_out_and_in():
    """A state taken to another engine goes on as it would have here."""
    one, other = on_cpu(Walker, 3, copy=True), on_cpu(Walker, 3, copy=True)
    one.reset(seed=1), other.reset(seed=2)
    one.set_parameters(envs=[1], stride=0.25)
    actions = torch.tensor([0, 1, 2])
    for _ in range(5):
        one.step(actions)
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(one.step(actions)[:4], other.step(actions)[:4], strict=True))


def test_what_is_bad_is_named():
    """NaN, wrong actions, wrong shapes and devices: the same words as on the CPU."""
    envs = on_cpu(Poisoned, 3)
    envs.reset(seed=1)
    envs.set_parameters(envs=[1], harm=1)
    envs.step(torch.tensor([1, 1, 1])), envs.step(torch.tensor([1, 1, 1]))
    with pytest.raises(BadValue, match=r"env 1, step 3 of its episode: observation\[1\] is nan"):
        envs.step(torch.tensor([1, 1, 1]))
    walkers = on_cpu(Walker, 2)
    walkers.reset(seed=1)
    with pytest.raises(SpaceError, match=r"env 1, .*action 5 is not in"):
        walkers.step(torch.tensor([1, 5]))
    with pytest.raises(SpaceError, match="shape"):
        walkers.step(torch.tensor([1]))
    with pytest.raises(SpaceError, match="dtype"):
        walkers.step(torch.tensor([1.0, 0.0]))


def test_results_are_views_unless_copies_are_asked_for():
    """Zero-copy: what comes back is the engine's own memory."""
    envs = on_cpu(Walker, 2)
    first, _ = envs.reset(seed=1)
    again = envs.step(torch.tensor([0, 0]))[0]
    assert first.data_ptr() == again.data_ptr()


def test_without_a_gpu_it_says_what_is_missing():
    """backend="cuda" on a machine without one names what to do instead."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(OptionError, match=r"needs a GPU.*backend='kernel'"):
        rookery.make_vec(Walker, 4, backend="cuda")


def test_kernels_are_made_anew_for_other_easy_steps():
    """What a GPU runs depends on `easy` and on how many kinds of long steps there are, not on `step` alone."""

    class AllHard(Stairs):
        @staticmethod
        def easy(state, action):
            return 1, 0.0, False

    class OneKind(Stairs):
        hard_kinds = 1

    keys = [key_of(build_bodies(world(), reserve_serially), "") for world in (Stairs, AllHard, OneKind, Stairs)]
    assert keys[0] == keys[3] and len(set(keys)) == 3
