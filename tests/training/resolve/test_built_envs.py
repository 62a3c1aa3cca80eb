"""Runs on envs that are already built: engines of every backend, and Stable-Baselines3's `VecEnv` over them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize

import rookery
import rookery.sb3
from rookery.errors import CheckpointError, ConfigError, OptionError, RookeryError, StateError, WorldError
from rookery.training.resolve.session_world import session_world
from training.runs import QUIET

PRICES = np.linspace(1.0, 2.0, 50, dtype=np.float32)


class Walk(rookery.KernelWorld):
    """Holds or not; the reward is the change of a price from a table."""

    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    state = {"row": "i8"}
    parameters = {"fee": 0.0, "start": 0}
    tables = {"prices": rookery.Table((None,), "f4")}
    time_limit = 20

    @staticmethod
    def reset(state: Any, params: Any) -> None:
        state.row = params.start

    @staticmethod
    def step(state: Any, action: Any, params: Any, tables: Any) -> Any:
        state.row += 1
        return action * (tables.prices[state.row] - tables.prices[state.row - 1] - params.fee), False

    @staticmethod
    def observe(state: Any, out: Any, tables: Any) -> None:
        out[0] = tables.prices[state.row]
        out[1] = state.row / 50


class Long(gym.Env):
    """An env whose episodes have a given length."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 5) -> None:
        self.length, self.t = length, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t >= self.length, False, {}


def train(world: Any, folder: Path, **options: Any) -> rookery.Result:
    ppo = {"rollout_length": 32, "epochs": 1, "hidden": [8], "threads": 1}
    base: dict[str, Any] = {"steps": 128, "monitor": QUIET, "learner": "ppo", "ppo": ppo, "name": "run"}
    return rookery.train(world, runs_dir=folder, **{**base, "evaluation": {"episodes": 2}, **options})


def recorded(result: rookery.Result) -> dict[str, Any]:
    return json.loads((result.path / "config.json").read_text())


@pytest.mark.parametrize("backend", ["serial", "thread", "process"])
def test_how_it_steps_is_taken_over(backend: str, tmp_path: Path) -> None:
    """The backend, the number of envs and of workers, and the env itself rather than a compiled version of it."""
    engine = rookery.make_vec("CartPole-v1", 2, backend=backend, workers=1)
    config = recorded(train(engine, tmp_path))
    assert (config["world"], config["backend"], config["num_envs"]) == ("CartPole-v1", backend, 2)
    engine.reset(seed=1)  # it is still the user's
    engine.close()


@pytest.mark.usefixtures("plain_python")
def test_what_is_given_has_priority(tmp_path: Path) -> None:
    engine = rookery.make_vec("CartPole-v1", 2, backend="process", workers=2, env_kwargs={"max_episode_steps": 30})
    config = recorded(train(engine, tmp_path, num_envs=4, world_options={"max_episode_steps": 9}))
    assert (config["num_envs"], config["world_options"]) == (4, {"max_episode_steps": 9})
    engine.close()


def test_a_kernel_engine_with_options(tmp_path: Path) -> None:
    """Options and parameters are recorded by name, so that the run is resumed without the engine."""
    engine = rookery.make_vec("rookery/CartPole-v1", 4, env_kwargs={"gravity": 5.0})
    engine.set_parameters(half_length=0.7, time_limit=30)
    result = train(engine, tmp_path)
    config = recorded(result)
    assert (config["world"], config["backend"]) == ("rookery/CartPole-v1", "kernel")
    assert config["world_options"] == {"gravity": 5.0, "half_length": 0.7, "time_limit": 30}
    assert rookery.resume(result.path, steps=256).total_steps == 256
    engine.set_parameters(half_length=[0.1, 0.2, 0.3, 0.4])
    with pytest.raises(WorldError, match="different values of the parameter 'half_length'"):
        train(engine, tmp_path)


@pytest.mark.usefixtures("plain_python")
def test_a_kernel_engine_with_tables(tmp_path: Path) -> None:
    """A table is an object: the run needs it again, and refuses another one."""
    engine = rookery.make_vec(Walk, 4, env_kwargs={"prices": PRICES, "start": 7})
    engine.set_parameters(fee=0.25)
    result = train(engine, tmp_path)
    assert recorded(result)["world"] == "object:Walk"
    assert recorded(result)["tables"]["prices"]["shape"] == [50]
    with pytest.raises(RookeryError, match=r"rookery.resume\(run, world=...\)"):
        rookery.resume(result.path, steps=256)
    other = rookery.make_vec(Walk, 4, env_kwargs={"prices": 2 * PRICES, "start": 7})
    with pytest.raises((StateError, CheckpointError), match="table 'prices'"):
        rookery.resume(result.path, steps=256, world=other)
    assert rookery.resume(result.path, steps=256, world=engine).total_steps == 256


def walk(prices: Any, fee: float = 0.0) -> Walk:
    return Walk(prices=prices, fee=fee)


@pytest.fixture
def walk_id() -> Iterator[str]:
    """A registered kernel world that takes an array as an option."""
    gym.register(
        "tests/Walk-v0", entry_point="rookery.kernel.kernel_env:KernelEnv", kwargs={"world": f"{__name__}:walk"}
    )
    yield "tests/Walk-v0"
    del gym.registry["tests/Walk-v0"]


@pytest.mark.usefixtures("plain_python")
def test_an_id_with_an_array_as_option(walk_id: str, tmp_path: Path) -> None:
    """What a configuration can hold of the options is recorded; the run needs the rest again."""
    options = {"prices": PRICES, "fee": 0.5}
    engine = rookery.make_vec(walk_id, 4, env_kwargs=options)
    result = train(engine, tmp_path)
    again = train(walk_id, tmp_path, world_options=options, num_envs=4, name="again")
    for run in (result, again):
        assert (recorded(run)["world"], recorded(run)["world_options"]) == ("object:tests-Walk-v0", {"fee": 0.5})
    assert result.mean_reward == again.mean_reward
    assert rookery.resume(result.path, steps=256, world=engine).total_steps == 256
    with pytest.raises(ConfigError, match=r"`world_options.prices` is a ndarray, .*rookery.make_vec"):
        train({"world": walk_id, "world_options": options}, tmp_path)


def test_options_that_are_made_in_again() -> None:
    """A class or a file's world with options that a run can record is recorded by its place."""
    engine = rookery.make_vec(Long, 3, backend="serial", env_kwargs={"length": np.int64(4)})
    found = session_world(engine)
    assert found.name == f"{__file__}:Long" and found.options == {"length": 4}
    engine = rookery.make_vec(f"{__file__}:Long", 3, backend="serial", env_kwargs={"length": 4})
    assert (session_world(engine).name, session_world(engine).options) == (f"{__file__}:Long", {"length": 4})


def test_options_for_what_is_made_already(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="made already"):
        train(Long(3), tmp_path, world_options={"length": 9})


def test_different_envs_take_turns(tmp_path: Path) -> None:
    """As many kinds of envs as the list has, in its order, also in evaluations."""
    engine = rookery.make_vec([lambda: Long(3), lambda: Long(5)], backend="serial")
    result = train(engine, tmp_path, num_envs=3)
    episodes = [json.loads(line) for line in (result.path / "episodes.jsonl").read_text().splitlines()]
    assert {(episode["env"], episode["length"]) for episode in episodes} == {(0, 3), (1, 5), (2, 3)}
    assert result.evaluation == 4.0
    envs = gym.vector.SyncVectorEnv([lambda: Long(3), lambda: Long(5)])
    assert train(envs, tmp_path, backend="serial").evaluation == 4.0


def test_a_vec_env_of_stable_baselines(tmp_path: Path) -> None:
    """Over an engine, also with a VecMonitor around it; and SB3's own, if it keeps its envs."""
    over = rookery.sb3.as_vec_env(rookery.make_vec("rookery/CartPole-v1", 4, autoreset_mode="same_step"))
    for number, envs in enumerate((over, VecMonitor(over))):
        config = recorded(train(envs, tmp_path, name=f"run{number}"))
        assert (config["world"], config["num_envs"], config["backend"]) == ("rookery/CartPole-v1", 4, "kernel")
    listed = rookery.sb3.VecEnv([lambda: Long(3), lambda: Long(5)], backend="serial")
    assert train(listed, tmp_path).evaluation == 4.0
    own = DummyVecEnv([lambda: Long(3), lambda: Long(5)])
    assert train(own, tmp_path, backend="serial").evaluation == 4.0
    assert session_world(DummyVecEnv([lambda: gym.make("CartPole-v1")] * 2)).name == "CartPole-v1"


def test_what_hides_its_envs() -> None:
    over = DummyVecEnv([lambda: Long(3)])
    with pytest.raises(WorldError, match=r"VecNormalize changes what an agent sees"):
        session_world(VecNormalize(over))
    processes = SubprocVecEnv.__new__(SubprocVecEnv)  # no process is needed to be rejected
    with pytest.raises(WorldError, match=r"SubprocVecEnv does not say how its envs are made"):
        session_world(processes)
