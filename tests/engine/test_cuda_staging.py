"""Parameters that wait on the device for the next episodes: taken up when one begins, as on every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rookery
from rookery.engine.cuda import CudaEngine
from rookery.engine.env_factory import resolve
from rookery.engine.settings import Settings, autoreset
from rookery.errors import OptionError

WORLD = "rookery/CartPole-v1"


def on_cpu(mode, num_envs=3):
    return CudaEngine(resolve(WORLD), Settings(num_envs, autoreset_mode=autoreset(mode), copy=True), device="cpu")


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_episodes_take_up_what_waits_for_them(mode):
    """The numbers of the kernel backend, where options are set between two steps."""
    theirs = rookery.make_vec(WORLD, 3, backend="kernel", autoreset_mode=mode)
    ours, rng, count = on_cpu(mode), np.random.default_rng(0), 0
    for envs in (ours, theirs):
        envs.reset_with({0: {"gravity": 20.0}, 2: {"gravity": 5.0}})
    assert np.array_equal(ours.reset(seed=3)[0].numpy(), theirs.reset(seed=3)[0])
    for step in range(120):
        actions = rng.integers(2, size=3)
        mine, other = ours.step(torch.from_numpy(actions)), theirs.step(actions)
        for a, b in zip(mine[:4], other[:4], strict=True):
            assert np.array_equal(a.numpy(), b)
        if mode == "SameStep":
            assert np.array_equal(ours.parameters["gravity"], theirs.parameters["gravity"])
        for env in np.flatnonzero(other[2] | other[3]).tolist():
            count += 1
            for envs in (ours, theirs):
                envs.reset_with({env: {"gravity": 9.8 + count}})
        if step == 60:  # a value that is set at once stays, beside one that waits
            for envs in (ours, theirs):
                envs.set_parameters(cart_mass=2.0)
    assert count > 5
    theirs.close()


def test_options_of_a_reset_win():
    """They are applied after what waits, which is used up."""
    envs = on_cpu("SameStep")
    envs.reset(seed=1)
    envs.reset_with({0: {"gravity": 20.0}, 1: {"gravity": 30.0}})
    envs.reset(options={"gravity": 7.0, "reset_mask": np.array([True, False, True])})
    assert envs.parameters["gravity"].tolist() == [7.0, 9.8, 7.0]
    envs.reset()
    assert envs.parameters["gravity"].tolist() == [7.0, 30.0, 7.0]


def test_what_waits_is_saved():
    """Another engine continues with it."""
    envs, other = on_cpu("SameStep"), on_cpu("SameStep")
    envs.reset(seed=1)
    envs.reset_with({1: {"gravity": 30.0}})
    other.reset(seed=2)
    other.load_state_dict(envs.state_dict())
    other.reset()
    assert other.parameters["gravity"].tolist() == [9.8, 30.0, 9.8]


def test_unknown_envs_and_parameters_are_refused():
    """Before anything is changed."""
    envs = on_cpu("SameStep")
    with pytest.raises(OptionError, match="there is no env 5"):
        envs.reset_with({5: {"gravity": 1.0}})
    with pytest.raises(OptionError, match="gravitas"):
        envs.reset_with({0: {"gravitas": 1.0}})
    assert len(envs.arena.tensors["params"]) == 1
