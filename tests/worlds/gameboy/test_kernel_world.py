"""A game as a kernel world, beside the same game on PyBoy."""

import pickle

import gymnasium
import numpy as np
import pytest

import rookery
from rookery.errors import OptionError, WorldError
from rookery.kernel.kernel_env import KernelEnv
from rookery.training.resolve.world_choice import find
from rookery.worlds.gameboy.env import GameBoyEnv
from rookery.worlds.gameboy.kernel.header import cartridge_of
from rookery.worlds.gameboy.kernel.starts import from_pyboy
from rookery.worlds.gameboy.kernel.world import GameBoyWorld
from rookery.worlds.gameboy.rom import built_in_rom

ID = "rookery/CompiledGameBoy-v0"
pytestmark = pytest.mark.timeout(600)  # the first test compiles the console


@pytest.fixture(scope="module")
def world():
    return GameBoyWorld()


def same(first, second):
    if isinstance(first, dict):
        return all(same(first[key], second[key]) for key in first)
    return np.array_equal(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(("observation", "steps"), [("memory", 1500), ("pixels", 300)])
def test_every_step_is_the_same_as_on_pyboy(observation, steps):
    """Observations, rewards, ends and infos, from all starts."""
    compiled, emulated = KernelEnv(GameBoyWorld(observation=observation)), GameBoyEnv(observation=observation)
    assert compiled.observation_space == emulated.observation_space
    rng, made, start, action = np.random.default_rng(3), 0, 0, 0
    while made < steps:
        first, second = (env.reset(options={"start": start % 8}) for env in (compiled, emulated))
        assert same(first[0], second[0])
        start += 1
        for k in range(steps // 8 + 1):
            action = int(rng.integers(6)) if k % 3 == 0 else action
            first, second = compiled.step(action), emulated.step(action)
            made += 1
            assert same(first[0], second[0])
            assert first[1:3] == second[1:3]
            assert all(first[4][name] == second[4][name] for name in ("room", "has_key", "hearts"))
            if first[2]:
                break
    emulated.close()


@pytest.mark.slow
def test_the_screen_is_the_same_as_on_pyboy(world):
    """All 160 x 144 pixels."""
    compiled, emulated = KernelEnv(world, render_mode="rgb_array"), GameBoyEnv(render_mode="rgb_array")
    for env in (compiled, emulated):
        env.reset(options={"start": 3})
    rng = np.random.default_rng(5)
    assert np.array_equal(compiled.render(), emulated.render())
    for _ in range(100):
        action = int(rng.integers(6))
        compiled.step(action)
        emulated.step(action)
        assert np.array_equal(compiled.render(), emulated.render())
    emulated.close()


@pytest.mark.slow
def test_a_batch_continues_exactly_from_its_state(world):
    first, second = (rookery.make_vec(world, 4, backend="kernel") for _ in range(2))
    first.reset(seed=1)
    second.reset(seed=2)
    rng = np.random.default_rng(1)
    for _ in range(50):
        first.step(rng.integers(0, 6, 4))
    second.load_state_dict(first.state_dict())
    for _ in range(50):
        actions = rng.integers(0, 6, 4)
        assert np.array_equal(first.step(actions)[0], second.step(actions)[0])
    assert np.array_equal(first.arena.memory, second.arena.memory)


@pytest.mark.slow
def test_a_resumed_run_is_the_run_that_was_never_interrupted(tmp_path):
    """Consoles are part of a checkpoint."""
    small = {"num_envs": 2, "ppo": {"rollout_length": 16, "hidden": [8]}, "verbose": False, "runs_dir": tmp_path}
    whole = rookery.train("gameboy", steps=128, name="whole", **small)
    rookery.train("gameboy", steps=64, name="parts", **small)
    resumed = rookery.resume("parts", steps=128, runs_dir=tmp_path, verbose=False)
    weights = [run.agent.policy.state_dict() for run in (whole, resumed)]
    assert all(np.array_equal(value, weights[1][name]) for name, value in weights[0].items())


def test_it_can_be_pickled_and_made_by_its_id(world):
    assert pickle.loads(pickle.dumps(world)).observation_space == world.observation_space
    env = gymnasium.make(ID, observation="memory").unwrapped
    assert env.reset(seed=1)[0].shape == world.observation_space.shape


def test_a_run_takes_it_by_itself(world):
    found = find("gameboy")
    assert found.source == ID and found.kernel and "compiled=false" in found.note
    assert find("gameboy", compiled=False).source == "rookery/GameBoy-v0"


def test_what_it_cannot_do_is_left_to_pyboy(tmp_path):
    with pytest.raises(OptionError, match="guide"):
        GameBoyWorld(guide="mine.py:Guide")
    found = find("gameboy", options={"guide": "mine.py:Guide"})
    assert found.source == "rookery/GameBoy-v0" and "guide" in found.note


def test_a_save_state_that_cannot_be_read_is_refused():
    rom = built_in_rom("meadow")
    cartridge = cartridge_of(rom.data, "meadow")
    for data in (bytes([29]), bytes([28]) + bytes(200_000), bytes([29]) + bytes(100)):
        with pytest.raises(WorldError, match="save state"):
            from_pyboy(data, cartridge)
