"""The methods of `Engine` on the CUDA backend, run on the CPU as plain Python: the same, or one sentence why not."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from kernel.samples import Tug, Walker
from rookery.engine.cuda import CudaEngine
from rookery.engine.engine import Engine
from rookery.engine.env_factory import resolve
from rookery.engine.kernel import KernelEngine
from rookery.engine.settings import Settings
from rookery.errors import CallPending, EngineClosed, NoCallPending, OptionError, UsageError

INTERNAL = {
    "is_in_flight", "send_segments", "receive_segments", "require_usable", "forkable", "batch", "description",
    "step_rows",  # of evaluations, whose envs are never on a GPU
}  # fmt: skip


def on_cpu(world, num_envs):
    envs = CudaEngine(resolve(world), Settings(num_envs, copy=True), device="cpu")
    envs.reset(seed=1)
    return envs


@pytest.mark.parametrize("name", sorted(name for name in vars(Engine) if name[0] != "_" and name not in INTERNAL))
def test_it_has_the_methods_of_every_engine(name):
    """With the same parameters, so that one call works on all backends."""
    mine, other = getattr(CudaEngine, name), getattr(KernelEngine, name)
    assert callable(mine) == callable(other)
    if callable(mine):
        assert list(inspect.signature(mine).parameters) == list(inspect.signature(other).parameters)


def test_attributes_and_methods_of_envs():
    """Parameters are read and set per env, and what a method changes is changed on the device."""
    envs = on_cpu(Walker, 3)
    assert envs.get_attr("stride") == (1.0, 1.0, 1.0)
    envs.set_attr("stride", [1.0, 0.5, 0.25])
    envs.set_some([2], "limit", [9.0])
    assert envs.get_attr("stride") == (1.0, 0.5, 0.25) and envs.call_some([2], "limit") == (9.0,)
    states = envs.call("get_state")
    envs.step(torch.tensor([0, 1, 2]))
    envs.call_some([1], "set_state", states[1])
    assert np.array_equal(envs.call("get_state")[1]["states"], states[1]["states"])
    assert not np.array_equal(envs.call("get_state")[0]["states"], states[0]["states"])
    assert envs.is_wrapped(object) == (False,) * 3
    with pytest.raises(OptionError, match="there is no env 3"):
        envs.call_some([3], "stride")
    with pytest.raises(OptionError, match="one value for each of 3 envs, got 2"):
        envs.set_attr("stride", [1.0, 2.0])


@pytest.mark.parametrize("world", [Walker, Tug])
@pytest.mark.parametrize("size", [2, 5])
def test_envs_that_stay_continue_after_a_resize(world, size):
    """Fewer envs or more: the others' next steps are what they would have been."""
    envs, other = on_cpu(world, 3), on_cpu(world, 3)
    agents = world.num_agents
    actions = torch.from_numpy(np.stack([world.action_space.sample() for _ in range(5 * agents)]))
    envs.resize(size)
    assert envs.num_envs == size * agents and envs.observation_space.shape[0] == envs.num_envs
    if size > 3:
        mask = np.arange(size * agents) >= 3 * agents
        envs.reset(options={"reset_mask": mask})
    kept = min(size, 3) * agents
    for _ in range(3):
        mine, theirs = envs.step(actions[: envs.num_envs]), other.step(actions[: other.num_envs])
        assert all(torch.equal(a[:kept], b[:kept]) for a, b in zip(mine[:4], theirs[:4], strict=True))


def test_what_it_cannot_do_it_says_in_a_sentence():
    """And names the way out."""
    envs = on_cpu(Walker, 2)
    for call, way_out in (
        (envs.finished_episodes, "last_returns"),
        (lambda: envs.send([0, 0]), "use step"),
        (envs.recv, "use step"),
        (lambda: envs.groups, "use step"),
    ):
        with pytest.raises(UsageError, match=f"backend='cuda'.*{way_out}"):
            call()


def test_statistics():
    """One worker, this process; nothing is ever restarted."""
    envs = on_cpu(Tug, 2)
    envs.step(torch.zeros(4, 1))
    (worker,) = envs.stats()
    assert (worker["envs"], worker["steps"], envs.workers, envs.restarts) == (4, 2, 1, 0)


@pytest.mark.slow
def test_seeds_and_asynchronous_calls_are_those_of_every_engine():
    """Env i gets seed + i, `np_random_seed` says so, and a step can be started and waited for."""
    mine, other = on_cpu(Walker, 3), KernelEngine(resolve(Walker), Settings(3))
    mine.reset_async(seed=7)
    observations, _ = other.reset(seed=[7, 8, 9])
    assert np.array_equal(mine.reset_wait()[0].numpy(), observations)
    assert mine.np_random_seed == other.np_random_seed == (7, 8, 9)
    actions = np.array([0, 1, 2])
    mine.step_async(actions)
    with pytest.raises(CallPending):
        mine.reset_async()
    assert np.array_equal(mine.step_wait()[0].numpy(), other.step(actions)[0])
    with pytest.raises(NoCallPending):
        mine.step_wait()
    mine.close(terminate=True)
    with pytest.raises(EngineClosed):
        mine.step_async(actions)
