"""Which runs take a machine's GPU by themselves, and with which settings. The GPU is not there: only the choice is."""

from __future__ import annotations

import pytest

from kernel.samples import Walker
from rookery.config import build_config
from rookery.training.population.batchable import batchable_groups, why_not_batchable
from rookery.training.population.members import compiled_for_cpu
from rookery.training.resolve import engine_choice
from rookery.training.resolve.resolved_run import resolve_run
from rookery.worlds import known_recipes

CARTPOLE = known_recipes.ON_GPU["CartPole-v1"]["ppo"]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A machine with a GPU and numba-cuda."""
    monkeypatch.setattr(engine_choice, "has_nvidia_gpu", lambda: True)
    monkeypatch.setattr(engine_choice, "find_spec", lambda name: object())


def chosen(world="CartPole-v1", may_take_gpu=True, world_object=None, **keys):
    config = build_config(world, **keys)
    return resolve_run(config, world_object, may_take_gpu=may_take_gpu).config


def test_a_known_world_is_trained_on_the_gpu_with_more_envs():
    config = chosen()
    assert (config.device, config.backend, config.learner) == ("cuda", "cuda", "ppo")
    assert (config.num_envs, config.steps) == (CARTPOLE["num_envs"], CARTPOLE["steps"])
    assert config.ppo.rollout_length == CARTPOLE["ppo"]["rollout_length"]
    assert config.ppo.gamma == 0.98  # what the GPU's recipe does not say is the world's


@pytest.mark.parametrize(
    "keys",
    [
        {"num_envs": 16},  # few envs
        {"steps": 100_000},  # a short run: the recipe's 16 envs
        {"episodes": 300},
        {"device": "cpu"},
        {"backend": "kernel"},
        {"world": "MountainCar-v0", "learner": "ppo"},  # its recipe has few envs
    ],
    ids=str,
)
def test_runs_that_stay_on_the_cpu(keys):
    config = chosen(**keys)
    assert config.backend == "kernel" and config.device in ("auto", "cpu")
    assert config.num_envs == 16


def test_many_envs_are_stepped_on_the_gpu_whatever_the_steps_are():
    config = chosen(num_envs=512, steps=100_000)
    assert (config.device, config.backend, config.num_envs, config.steps) == ("cuda", "cuda", 512, 100_000)
    assert config.ppo.rollout_length == 64  # the world's own


def test_a_given_device_keeps_the_world_recipe_for_a_given_length():
    config = chosen(device="cuda", steps=100_000)
    assert (config.backend, config.num_envs, config.ppo.rollout_length) == ("cuda", 16, 64)


def test_what_the_user_gives_has_priority():
    config = chosen(ppo={"rollout_length": 8, "gamma": 0.9})
    assert (config.ppo.rollout_length, config.ppo.gamma, config.num_envs) == (8, 0.9, CARTPOLE["num_envs"])


def test_a_world_without_a_recipe():
    config = chosen("walker", world_object=Walker)
    assert (config.backend, config.num_envs, config.ppo.rollout_length) == ("cuda", 1024, 32)
    short = chosen("walker", world_object=Walker, steps=300_000)
    assert (short.backend, short.num_envs) == ("kernel", 64)  # 64 envs x 32 steps make a hundred updates: not many envs
    asked = chosen("walker", world_object=Walker, steps=300_000, device="cuda")
    assert (asked.backend, asked.num_envs, asked.ppo.rollout_length) == ("cuda", 64, 32)


def test_one_of_many_runs_does_not_take_the_gpu_by_itself():
    assert chosen(may_take_gpu=False).backend == "kernel"
    assert chosen(may_take_gpu=False, device="cuda").backend == "cuda"


def test_without_a_gpu_nothing_changes(monkeypatch):
    monkeypatch.setattr(engine_choice, "has_nvidia_gpu", lambda: False)
    assert (chosen().backend, chosen().num_envs) == ("kernel", 16)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_runs_side_by_side_act_on_the_cpu(device):
    """Their envs are there, also if they are updated on a GPU."""
    config = build_config("CartPole-v1", learner="ppo", device=device)
    assert compiled_for_cpu(config) == {"backend": "kernel"}
    assert why_not_batchable([config, config]) == ""
    assert batchable_groups([config, config]) == [[0, 1]]


def test_a_robot_is_simulated_on_the_cpu_unless_the_gpu_is_asked_for():
    """mujoco-warp gives other numbers than MuJoCo: nobody gets it unasked."""
    pytest.importorskip("mujoco")
    config = chosen("HalfCheetah-v5")
    assert (config.backend, config.num_envs) == ("kernel", 8)
    assert chosen("HalfCheetah-v5", device="cuda").backend == "kernel"
    robot = known_recipes.ROBOT_ON_GPU["ppo"]
    config = chosen("HalfCheetah-v5", backend="cuda", device="cuda")
    assert (config.num_envs, config.steps) == (robot["num_envs"], robot["steps"])
    assert config.ppo.batch_size == robot["ppo"]["batch_size"]
    assert config.ppo.gamma == 0.98  # what the GPU's recipe does not say is the world's


@pytest.mark.parametrize(
    ("given", "many"), [({}, True), ({"num_envs": 512, "steps": 10_000}, True), ({"num_envs": 8}, False)]
)
def test_xqc_makes_few_updates_where_many_robots_are_on_the_gpu(given, many):
    """Whatever the length of the run is. With few envs the settings are those of a CPU."""
    pytest.importorskip("mujoco")
    config = chosen("Walker2d-v5", learner="xqc", backend="cuda", device="cuda", **given)
    assert (config.xqc.updates_each, config.xqc.n_step > 1) == (("round", True) if many else ("step", False))
    assert config.num_envs == given.get("num_envs", 1024)


@pytest.mark.parametrize("learner", ["sac", "xqc"])
def test_an_off_policy_learner_takes_the_gpu(learner):
    config = chosen("Pendulum-v1", learner=learner)
    assert (config.device, config.backend) == ("cuda", "cuda")
    assert chosen("Pendulum-v1", learner=learner, steps=1000).backend == "cuda"


def test_hindsight_needs_envs_on_the_cpu():
    """There it calls the world's own code."""
    assert chosen("Pendulum-v1", learner="sac", sac={"hindsight": 4}).backend == "kernel"
