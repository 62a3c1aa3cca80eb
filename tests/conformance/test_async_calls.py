"""`step_async`, `step_wait` and their siblings: Gymnasium's asynchronous calls, its errors, and its generators."""

from __future__ import annotations

import multiprocessing
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import error, spaces

import rookery
from conformance.compare import record, same
from conformance.worlds import Counter
from rookery.errors import CallPending, CallTimeout, EngineClosed, NoCallPending, RookeryError


class Slow(gym.Env):
    """Waits as long as its action says, or for 0.3 s in a reset that is asked to."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space = spaces.Box(0.0, 1.0, (), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(0.3 if options else 0.0)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        time.sleep(action)
        return np.ones(1, np.float32), float(action), False, False, {}

    def wait(self, seconds):
        time.sleep(seconds)
        return seconds


def test_async_calls_return_what_their_synchronous_siblings_return(make_any, cartpole):
    """A trajectory by `reset_async`, `step_async` and their waits is that of `reset` and `step`."""
    envs = make_any(cartpole, 3)
    expected = record(make_any(cartpole, 3))
    envs.action_space.seed(3)
    envs.reset_async(seed=11)
    trajectory = [envs.reset_wait()]
    while len(trajectory) < len(expected):
        envs.step_async(envs.action_space.sample())
        trajectory.append(envs.step_wait(timeout=60))
    assert same(expected, trajectory)


def test_call_async(make):
    """`call_wait` returns one value for each env, in their order."""
    envs = make(Counter, 3)
    envs.set_attr("scale", [1.0, 2.0, 3.0])
    envs.call_async("scale")
    assert envs.call_wait() == (1.0, 2.0, 3.0)
    envs.call_async("double", 4, plus=1)
    assert envs.call_wait(timeout=60) == (9, 9, 9)


def test_calls_out_of_order(make_any, cartpole):
    """Each is Gymnasium's error and rookery's own, and names the call that is pending."""
    envs = make_any(cartpole, 2)
    for name in ("reset", "step", "call"):
        with pytest.raises(error.NoAsyncCallError, match=f"{name}_async") as caught:
            getattr(envs, f"{name}_wait")()
        assert isinstance(caught.value, NoCallPending) and caught.value.name == name
    starts = {"reset": (), "step": (np.array([0, 1]),), "call": ("gravity",)}
    for pending, args in starts.items():
        getattr(envs, f"{pending}_async")(*args)
        for other, its in starts.items():
            with pytest.raises(error.AlreadyPendingCallError, match=f"{pending}_wait") as caught:
                getattr(envs, f"{other}_async")(*its)
            assert isinstance(caught.value, CallPending) and caught.value.name == pending
        with pytest.raises(CallPending):
            envs.step(np.array([0, 1]))
        with pytest.raises(CallPending):
            envs.reset()
        with pytest.raises(CallPending):
            envs.set_attr("gravity", 1.0)
        with pytest.raises(error.NoAsyncCallError):
            getattr(envs, "step_wait" if pending == "reset" else "reset_wait")()
        getattr(envs, f"{pending}_wait")()
    envs.step(np.array([0, 1]))


def test_send_and_step_async_are_one_thing(make_any, cartpole):
    """`recv` takes the results of `step_async`; while a reset is pending nothing can be sent."""
    envs = make_any(cartpole, 2)
    envs.reset(seed=1)
    envs.step_async(np.array([0, 1]))
    assert envs.recv()[0].shape == (2, 4)
    with pytest.raises(NoCallPending):
        envs.step_wait()
    envs.reset_async()
    with pytest.raises(CallPending):
        envs.send(np.array([0, 1]))
    envs.reset_wait()
    envs.send(np.array([0, 1]))
    with pytest.raises(CallPending):
        envs.step_async(np.array([0, 1]))
    envs.recv()


def test_a_timeout_loses_nothing(make):
    """It is `multiprocessing.TimeoutError`, as Gymnasium's, and the builtin; waiting again returns the results."""
    envs = make(Slow, 2)
    envs.reset()
    envs.step_async(np.array([0.0, 0.3]))
    with pytest.raises(multiprocessing.TimeoutError, match="step_wait") as caught:
        envs.step_wait(timeout=0.05)
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, CallTimeout)
    assert envs.step_wait(timeout=60)[1].tolist() == [0.0, 0.3]
    envs.reset_async(options={"slow": True})
    with pytest.raises(CallTimeout, match="reset_wait"):
        envs.reset_wait(timeout=0.05)
    assert envs.reset_wait()[0].tolist() == [[0.0], [0.0]]
    envs.call_async("wait", 0.2)
    with pytest.raises(CallTimeout, match="call_wait"):
        envs.call_wait(timeout=0.05)
    assert envs.call_wait() == (0.2, 0.2)


def test_closing_with_a_call_under_way_warns(make):
    """The results are lost, and the caller hears of it; without a pending call nothing is said."""
    envs = make(Counter, 2)
    envs.reset_async()
    with pytest.warns(UserWarning, match="reset_wait"):
        envs.close(terminate=True)
    quiet = make(Counter, 2)
    quiet.reset()
    quiet.close()


def test_a_closed_engine_raises_gymnasiums_error(make_any, cartpole):
    """Whatever is called on it."""
    envs = make_any(cartpole, 2)
    envs.close()
    for call in (
        envs.reset,
        envs.reset_async,
        envs.reset_wait,
        envs.step_wait,
        envs.call_wait,
        envs.recv,
        lambda: envs.step(np.array([0, 1])),
        lambda: envs.step_async(np.array([0, 1])),
        lambda: envs.get_attr("gravity"),
        lambda: envs.set_attr("gravity", 1.0),
    ):
        with pytest.raises(error.ClosedEnvironmentError) as caught:
            call()
        assert isinstance(caught.value, EngineClosed)


def test_errors_of_actions_and_masks(make_any, cartpole):
    """A wrong number of actions is a ValueError and a single one a TypeError, as is a mask that is not of bools."""
    envs = make_any(cartpole, 3)
    envs.reset(seed=1)
    for actions, kind in (([0, 1], ValueError), ([0, 1, 0, 1], ValueError), (0, TypeError), (np.int64(1), TypeError)):
        with pytest.raises(kind) as caught:
            envs.step(actions)
        assert isinstance(caught.value, RookeryError)
    masks = {ValueError: ([True], [True] * 4, [[True] * 3], [False] * 3), TypeError: ([1, 1, 0], [1.0, 0.0, 0.0])}
    for kind, wrong in masks.items():
        for mask in wrong:
            with pytest.raises(kind, match="reset_mask"):
                envs.reset(options={"reset_mask": np.array(mask)})
    envs.step([0, 1, 0])


def test_stepping_without_a_reset(make_any, counter):
    """Gymnasium's `ResetNeeded`; and an AssertionError, which SyncVectorEnv raises with autoreset off."""
    envs = make_any(counter, 2, autoreset_mode="disabled", env_kwargs={"length": 1})
    for _ in range(2):
        with pytest.raises(error.ResetNeeded) as caught:
            envs.step([0, 0])
        assert isinstance(caught.value, AssertionError)
        envs.reset()
        envs.step([0, 0])


def test_unequal_spaces_are_a_runtime_error():
    """As Gymnasium's, and a ValueError as before."""
    lake, pole = (lambda: gym.make("FrozenLake-v1")), (lambda: gym.make("CartPole-v1"))
    for backend in ("serial", "process"):
        with pytest.raises(RuntimeError, match="same observation space") as caught:
            rookery.make_vec([pole, lake], backend=backend, workers=1, start_method="fork")
        assert isinstance(caught.value, ValueError)


def test_random_generators_of_all_envs(make_any, cartpole):
    """One for each env, as if it had been reset alone; a reset without a seed leaves the seeds."""
    envs = make_any(cartpole, 3)
    envs.reset(seed=42)
    envs.reset()
    assert envs.np_random_seed == (42, 43, 44)
    generators = envs.np_random
    assert isinstance(generators, tuple) and all(isinstance(each, np.random.Generator) for each in generators)
    envs.reset(seed=[7, None, 9])
    assert envs.np_random_seed == (7, 43, 9)
    lone = gym.make(cartpole)
    lone.reset(seed=9)
    assert envs.np_random[2].bit_generator.state == lone.unwrapped.np_random.bit_generator.state
