"""Parameters that are arrays: declared, set for all envs or for each, saved, and read-only in functions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from kernel.test_cuda_on_cpu import on_cpu
from rookery.errors import OptionError, WorldError
from rookery.kernel import runner
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.world import KernelWorld


class Broker(KernelWorld):
    """Pays the fee of the chosen asset."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(3)
    state = {"paid": "f8"}
    parameters = {"fees": np.array([0.5, 1.0, 2.0]), "lots": ("i8", (2, 2)), "scale": 1.0}
    aliases = {"costs": "fees"}
    time_limit = 4

    @staticmethod
    def reset(state, params):
        state.paid = params.fees[0]

    @staticmethod
    def step(state, action, params):
        fee = params.fees[action] * params.scale + params.lots[1, 0]
        state.paid += fee
        return fee, False

    @staticmethod
    def observe(state, out):
        out[0] = state.paid


@pytest.fixture
def plain_engines(monkeypatch):
    """Engines that run worlds as plain Python, so that nothing is compiled."""
    monkeypatch.setattr(runner, "load_native", lambda: None)


def broker(num_envs=3, **options):
    envs = rookery.make_vec(Broker, num_envs, backend="kernel", env_kwargs=options)
    envs.reset(seed=1)
    return envs


@pytest.mark.usefixtures("plain_python")
def test_a_batch_of_one_env_takes_one_value_per_env():
    envs = rookery.make_vec(Broker, 1, backend="kernel")
    envs.set_parameters(scale=[3.0], fees=[[1.0, 2.0, 3.0]])
    assert envs.parameters["scale"].tolist() == [3.0]
    assert envs.parameters["fees"].tolist() == [[1.0, 2.0, 3.0]]
    envs.close()


def test_one_env_takes_an_array_or_one_number():
    env = KernelEnv(Broker, plain=True, fees=[1, 2, 3])
    assert env.reset(seed=1)[0].tolist() == [1.0]
    assert env.step(2)[1] == 3.0
    env.set_parameters(lots=[[0, 0], [5, 0]], costs=np.float32(4))
    assert env.step(0)[1] == 9.0
    assert env.reset(options={"fees": [7, 8, 9]})[0].tolist() == [7.0]
    assert env.get_wrapper_attr("costs").tolist() == env.parameters["fees"].tolist() == [7, 8, 9]
    assert KernelEnv(Broker, plain=True).parameters["lots"].tolist() == [[0, 0], [0, 0]]
    saved, other = env.get_state(), KernelEnv(Broker, plain=True)
    other.set_state(saved)
    assert other.parameters["fees"].tolist() == [7, 8, 9]


def test_a_batch_takes_one_array_for_all_or_one_for_each(plain_engines):
    envs = broker(fees=[1, 2, 3])
    assert envs.step(np.array([0, 1, 2]))[1].tolist() == [1, 2, 3]
    envs.set_parameters(fees=[4, 5, 6])
    assert envs.parameters["fees"].tolist() == [[4, 5, 6]] * 3
    envs.set_parameters(fees=np.arange(9).reshape(3, 3))
    assert envs.step(np.array([0, 1, 2]))[1].tolist() == [0, 4, 8]
    envs.set_parameters(envs=[1], costs=7)
    assert envs.get_attr("fees")[1].tolist() == [7, 7, 7]
    envs.set_attr("fees", np.array([1.0, 2.0, 3.0]))
    assert envs.parameters["fees"].tolist() == [[1, 2, 3]] * 3
    envs.set_parameters(lots=[[[k, k], [k, k]] for k in range(3)])
    assert envs.parameters["lots"].shape == (3, 2, 2)
    envs.resize(2)
    assert envs.parameters["lots"][1].tolist() == [[1, 1], [1, 1]]


def test_they_are_saved_and_wait_for_the_next_episode(plain_engines):
    envs, other = broker(), broker()
    envs.set_parameters(fees=np.arange(9).reshape(3, 3))
    envs.reset_with({0: {"fees": np.array([9.0, 9.0, 9.0])}})
    envs.reset_with({0: {"fees": np.array([9.0, 9.0, 9.0])}})  # compared with what waits already
    assert envs.parameters["fees"][0].tolist() == [0, 1, 2]
    for _ in range(5):
        envs.step(np.zeros(3, np.int64))
    assert envs.parameters["fees"][0].tolist() == [9, 9, 9]
    other.load_state_dict(envs.state_dict())
    assert other.parameters["fees"].tolist() == envs.parameters["fees"].tolist()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"fees": [1, 2]}, r"'fees' should have the shape \(3,\), or be one number, got the shape \(2,\)"),
        ({"fees": [[1, 2, 3]] * 2}, r"one for each of 3 envs, of the shape \(3, 3\), got 2"),
        ({"fees": [[1, 2]] * 3}, r"should have the shape \(3,\)"),
        ({"fees": [1, [2], 3]}, r"should be numbers of the shape \(3,\)"),
        ({"fees": "free"}, r"should be numbers of the shape \(3,\), got 'free'"),
        ({"fees": None}, r"should be numbers of the shape \(3,\)"),
        ({"lots": 0.5}, "'lots' should hold integers"),
        ({"lots": [[np.nan] * 2] * 2}, "'lots' should hold integers"),
        ({"scale": [[1.0]] * 3}, "'scale' should be a number"),
    ],
)
def test_a_wrong_value_is_refused_with_its_shape(plain_engines, values, words):
    envs = broker()
    with pytest.raises(OptionError, match=words):
        envs.set_parameters(**values)


@pytest.mark.parametrize(
    "default", ["words", np.array(["a"]), [1, [2]], np.zeros((0,)), ("f8", "x"), ("nonsense", (2,)), {"a": 1}, None]
)
def test_a_wrong_declaration_is_refused(default):
    class Wrong(Broker):
        parameters = {**Broker.parameters, "odd": default}

    with pytest.raises(WorldError, match="'odd'"):
        Wrong()


def test_an_instance_may_declare_what_it_has():
    class Sized(Broker):
        def __init__(self, assets, **parameters):
            self.parameters = {**Broker.parameters, "fees": np.full(assets, 2.0)}
            self.tables = {"prices": rookery.Table((None,), "f4")}
            super().__init__(**parameters)

    world = Sized(5, prices=[1.0, 2.0])
    assert world.values["fees"] == [2.0] * 5 and world.tables["prices"].dtype == np.float32
    assert KernelEnv(world, plain=True).parameters["fees"].shape == (5,)


def test_a_gpu_takes_them_too():
    ours = on_cpu(Broker, 3)
    ours.reset(seed=1)
    ours.set_parameters(fees=[4, 5, 6], lots=1)
    assert ours.step(torch.tensor([0, 1, 2]))[1].tolist() == [5, 6, 7]
    ours.set_parameters(fees=np.arange(9).reshape(3, 3))
    assert ours.step(torch.tensor([0, 1, 2]))[1].tolist() == [1, 5, 9]
    assert ours.parameters["fees"].tolist() == np.arange(9).reshape(3, 3).tolist()
    ours.set_attr("fees", [[1, 1, 1], [2, 2, 2], [3, 3, 3]])
    assert ours.get_attr("fees")[2].tolist() == [3, 3, 3]


class Writes(Broker):
    @staticmethod
    def step(state, action, params):
        params.fees[0] = 1.0
        return 0.0, False


@pytest.mark.slow
def test_compiled_code_reads_them_and_does_not_write_them():
    envs = broker(fees=[1, 2, 3], lots=1)
    assert envs.step(np.array([0, 1, 2]))[1].tolist() == [2, 3, 4]
    envs.set_parameters(fees=np.arange(9).reshape(3, 3))
    assert envs.step(np.array([0, 1, 2]))[1].tolist() == [1, 5, 9]
    with pytest.raises(WorldError, match="read-only"):
        KernelEnv(Writes)
