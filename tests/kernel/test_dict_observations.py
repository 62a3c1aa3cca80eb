"""Observations that are dicts: the same numbers on every path, as dicts of arrays."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import rookery
from kernel.dict_worlds import Regatta, Sailor
from kernel.test_cuda_on_cpu import on_cpu
from rookery.errors import BadValue, SpaceError, WorldError
from rookery.kernel import runner
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.parallel_env import KernelParallelEnv


@pytest.fixture
def plain_engines(monkeypatch):
    monkeypatch.setattr(runner, "load_native", lambda: None)


def equal(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(np.asarray(one[key]), np.asarray(other[key])) for key in one)


def sailors(num_envs=3, backend="kernel", **options):
    envs = rookery.make_vec(Sailor, num_envs, backend=backend, **options)
    envs.action_space.seed(1)
    return envs


def test_one_env_has_gymnasiums_form():
    env = KernelEnv(Sailor, plain=True)
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=1)
    assert seen in env.observation_space
    assert isinstance(seen["sail"], np.int64) and seen["chart"].shape == (2, 3)
    kept = pickle.loads(pickle.dumps(env))
    assert equal(env.step(1)[0], kept.step(1)[0])


def same_as_serial(ours, mode):
    """Step by step, the dicts that the serial backend returns of plain envs."""
    theirs = rookery.make_vec(
        lambda: KernelEnv(Sailor, plain=True), 3, backend="serial", autoreset_mode=mode, env_kwargs={}
    )
    assert ours.observation_space == theirs.observation_space
    assert equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    ended = 0
    for _ in range(15):
        actions = ours.action_space.sample()
        mine, other = ours.step(actions), theirs.step(actions)
        assert equal(mine[0], other[0]) and mine[0] in ours.observation_space
        assert all(np.array_equal(a, b) for a, b in zip(mine[1:4], other[1:4], strict=True))
        if "final_obs" in other[4]:
            for row in np.flatnonzero(other[4]["_final_obs"]):
                assert equal(mine[4]["final_obs"][row], other[4]["final_obs"][row])
                ended += 1
    assert ended > 3 or mode != "same_step"


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_a_batch_is_a_dict_of_arrays(plain_engines, mode):
    same_as_serial(sailors(autoreset_mode=mode), mode)


@pytest.mark.slow
def test_compiled_code_writes_the_same():
    same_as_serial(sailors(autoreset_mode="same_step"), "same_step")
    compiled = KernelEnv(Sailor)
    compiled.reset(seed=1)
    compiled.set_parameters(gust=1e3)
    with pytest.raises(SpaceError, match=r"observation\['position'\]\[0\] is 99.*, outside \[-50.0, 50.0\] of Box"):
        compiled.step(1)


def test_copies_and_views(plain_engines):
    for copy in (True, False):
        envs = sailors(copy=copy)
        first, _ = envs.reset(seed=1)
        before = first["position"].copy()
        envs.step(np.array([2, 2, 2]))
        assert np.array_equal(first["position"], before) == copy


def test_states_are_saved_and_batches_resized(plain_engines):
    envs, other = sailors(), sailors()
    envs.reset(seed=1), other.reset(seed=2)
    held = envs.step(np.array([0, 1, 2]))[0]
    assert equal(other.load_state_dict(pickle.loads(pickle.dumps(envs.state_dict()))), held)
    assert equal(envs.step(np.ones(3, int))[0], other.step(np.ones(3, int))[0])
    envs.resize(2)
    assert envs.step(np.ones(2, int))[0]["chart"].shape == (2, 2, 3)


def test_a_value_outside_its_part_is_named_with_its_key(plain_engines):
    envs = sailors()
    envs.reset(seed=1)
    envs.set_parameters(envs=[1], gust=1e3)
    with pytest.raises(SpaceError, match=r"env 1, .*observation\['position'\]\[0\] is .*, outside \[-50.0, 50.0\]"):
        envs.step(np.ones(3, int))
    envs.reset(seed=1)
    envs.set_parameters(gust=np.nan)
    with pytest.raises(BadValue, match="is nan"):
        envs.step(np.ones(3, int))

    class Torn(Sailor):
        @staticmethod
        def observe(state, out):
            out.position[0] = 0.0
            out.sail = 4

    with pytest.raises(SpaceError, match=r"observation\['sail'\] is 4, outside \[1, 3\] of Discrete"):
        KernelEnv(Torn, plain=True).reset(seed=1)


def test_several_agents_have_a_dict_each(plain_engines):
    envs = rookery.make_vec(Regatta, 2, backend="kernel")
    seen = envs.reset(seed=1)[0]
    assert seen["position"].shape == (4, 2) and seen["wind"].tolist() == [0, 1, 0, 1]
    env = KernelParallelEnv(Regatta, plain=True)
    first = env.reset(seed=1)[0]
    assert first["agent_1"] in env.observation_space("agent_1")
    assert np.array_equal(first["agent_0"]["position"], -first["agent_1"]["position"])


def test_a_gpu_returns_a_dict_of_tensors(plain_engines):
    ours, theirs = on_cpu(Sailor, 3, "same_step", copy=True), sailors(autoreset_mode="same_step")
    assert equal(ours.reset(seed=3)[0], theirs.reset(seed=3)[0])
    for _ in range(12):
        actions = theirs.action_space.sample()
        mine, other = ours.step(torch.from_numpy(actions)), theirs.step(actions)
        assert equal(mine[0], other[0])
        for row in np.flatnonzero(other[4].get("_final_obs", [])):
            assert equal({key: part[row] for key, part in mine[4]["final_obs"].items()}, other[4]["final_obs"][row])
    again = on_cpu(Sailor, 3, "same_step")
    assert equal(again.load_state_dict(ours.state_dict()), ours._observations())
    ours.set_parameters(gust=1e3)
    with pytest.raises(SpaceError, match=r"observation\['position'\]\[0\]"):
        ours.step(torch.tensor([1, 1, 1]))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict({}), "is an empty Dict"),
        (spaces.Dict({"a b": spaces.Discrete(2)}), "the key 'a b' cannot be the name of an attribute"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), r"\['a'\] should be one of Box"),
        (spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float16)}), r"\['a'\] has the dtype float16"),
        (spaces.Tuple([spaces.Discrete(2)]), "observation_space should be one of Box"),
    ],
)
def test_what_cannot_be_a_record_is_refused(space, words):
    class Odd(Sailor):
        observation_space = space

    with pytest.raises(WorldError, match=words):
        Odd()


@pytest.mark.slow
def test_the_checks_of_worlds_read_dicts():
    from rookery.tools.kernel_checks import first_error, plain_difference

    assert first_error(Sailor(), 100, 1) is None and plain_difference(Sailor(), 100, 1) is None


@pytest.mark.slow
def test_ppo_learns_from_dicts(tmp_path):
    """The kernel backend's dicts go into a run as every other backend's do; the fused collector is not used."""
    from rookery.training.run.fused_collector import roller_for

    envs = sailors(8, autoreset_mode="same_step", copy=False)
    assert not envs.plain and roller_for(envs, None) is None
    result = rookery.train(Sailor, learner="ppo", steps=2048, num_envs=8, runs_dir=str(tmp_path), name="sailor")
    assert result is not None
