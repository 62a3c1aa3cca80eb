"""Worlds with a memory: many bytes of each env beside its state."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

import rookery
from rookery import KernelWorld
from rookery.errors import WorldError
from rookery.kernel.declarations import inlined
from rookery.kernel.kernel_env import KernelEnv

pytestmark = pytest.mark.usefixtures("plain_python")

SIZE = 5_000


@inlined
def next_place(state, action):
    return (state.place * 31 + 7 * action + 1) % SIZE


class Tape(KernelWorld):
    """Writes along a long tape, and sees what was written there before."""

    observation_space = spaces.Box(0, 255, (2,), np.float32)
    action_space = spaces.Discrete(4)
    state = {"place": "i8"}
    memory = SIZE
    time_limit = 40
    metadata = {"render_modes": ["rgb_array"]}

    @staticmethod
    def reset(state, memory):
        for k in range(SIZE):
            memory[k] = 0

    @staticmethod
    def step(state, action, memory):
        state.place = next_place(state, action)
        before = memory[state.place]
        memory[state.place] = min(before + 1 + action, 255)
        return before - 1.0, False

    @staticmethod
    def observe(state, out, memory):
        out[0], out[1] = memory[state.place], memory[(state.place + 1) % SIZE]

    def render(self, state, params, mode, memory=None):
        return memory[: 4 * 4 * 3].reshape(4, 4, 3)


def played(envs, steps=100, on_device=False):
    envs.reset(seed=3)
    rng, seen = np.random.default_rng(0), []
    for _ in range(steps):
        actions = rng.integers(0, 4, 3)
        results = envs.step(torch.from_numpy(actions) if on_device else actions)
        seen.append(np.concatenate([np.asarray(part, np.float64).reshape(3, -1) for part in results[:3]], 1))
    return np.array(seen)


@pytest.mark.slow
def test_every_backend_gives_the_same_numbers():
    expected = played(rookery.make_vec(Tape, 3, backend="kernel"))
    assert expected[:, :, 0].max() > 1
    assert np.array_equal(played(rookery.make_vec(Tape, 3, backend="serial")), expected)
    assert np.array_equal(played(rookery.make_vec(Tape, 3, backend="cuda", device="cpu"), on_device=True), expected)


@pytest.mark.few(1)
@pytest.mark.parametrize("options", [{"backend": "kernel"}, {"backend": "cuda", "device": "cpu"}])
def test_a_state_dict_holds_the_memory(options):
    first, second = (rookery.make_vec(Tape, 3, **options) for _ in range(2))
    first.reset(seed=1)
    second.reset(seed=2)
    actions = torch.full((3,), 2) if options["backend"] == "cuda" else np.full(3, 2)
    for _ in range(20):
        first.step(actions)
    second.load_state_dict(first.state_dict())
    for _ in range(30):
        assert np.array_equal(np.asarray(first.step(actions)[0]), np.asarray(second.step(actions)[0]))


def test_one_env_saves_its_memory_and_renders_it():
    env = KernelEnv(Tape, plain=True, render_mode="rgb_array")
    env.reset(seed=1)
    for _ in range(10):
        env.step(3)
    other = KernelEnv(Tape, plain=True)
    other.reset(seed=5)
    other.set_state(env.get_state())
    assert np.array_equal(other.get_state()["memory"], env.get_state()["memory"])
    assert env.get_state()["memory"].any()
    assert env.render().shape == (4, 4, 3)


def test_a_memory_is_a_number_of_bytes():
    class Wrong(Tape):
        memory = "64k"

    with pytest.raises(WorldError, match="number of bytes"):
        Wrong()
