"""rookery: many environments at once, as fast as the machine allows.

>>> import rookery
>>> envs = rookery.make_vec("CartPole-v1", num_envs=4, backend="serial")
>>> observations, infos = envs.reset(seed=7)
>>> observations.shape
(4, 4)
>>> envs.close()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rookery.gymnasium_hook import register_with_gymnasium
from rookery.version import __version__ as __version__

if TYPE_CHECKING:
    from rookery import errors, markets, pettingzoo, sb3, standalone, testing
    from rookery.config import RunConfig
    from rookery.engine.engine import Engine
    from rookery.engine.make_vec import get_recommended_n_envs, make_vec
    from rookery.kernel.tables import Table
    from rookery.kernel.world import KernelWorld
    from rookery.learners.agent import Agent
    from rookery.learners.algorithms.dqn import DQN
    from rookery.learners.algorithms.ppo import PPO
    from rookery.learners.algorithms.sac import SAC
    from rookery.learners.algorithms.td3 import TD3
    from rookery.studies.search_study import search
    from rookery.training.backtest.backtest import backtest
    from rookery.training.run.callbacks import Callback, Result
    from rookery.training.run.train import resume, train
    from rookery.training.storage.load_agent import load
    from rookery.worlds.mujoco.mujoco_world import MujocoWorld

__all__ = [
    "DQN",
    "PPO",
    "SAC",
    "TD3",
    "Agent",
    "Callback",
    "Engine",
    "KernelWorld",
    "MujocoWorld",
    "Result",
    "RunConfig",
    "Table",
    "backtest",
    "errors",
    "get_recommended_n_envs",
    "load",
    "make_vec",
    "markets",
    "pettingzoo",
    "resume",
    "sb3",
    "search",
    "standalone",
    "testing",
    "train",
]

register_with_gymnasium()  # so that gymnasium.make("rookery/CartPole-v1") works from now on

# Names are loaded when first used, so that `import rookery` costs next to nothing.
_HOMES = {
    "Agent": "rookery.learners.agent",
    "Callback": "rookery.training.run.callbacks",
    "DQN": "rookery.learners.algorithms.dqn",
    "Engine": "rookery.engine.engine",
    "KernelWorld": "rookery.kernel.world",
    "MujocoWorld": "rookery.worlds.mujoco.mujoco_world",
    "PPO": "rookery.learners.algorithms.ppo",
    "Result": "rookery.training.run.callbacks",
    "RunConfig": "rookery.config",
    "SAC": "rookery.learners.algorithms.sac",
    "TD3": "rookery.learners.algorithms.td3",
    "Table": "rookery.kernel.tables",
    "backtest": "rookery.training.backtest.backtest",
    "get_recommended_n_envs": "rookery.engine.make_vec",
    "load": "rookery.training.storage.load_agent",
    "make_vec": "rookery.engine.make_vec",
    "resume": "rookery.training.run.train",
    "search": "rookery.studies.search_study",
    "train": "rookery.training.run.train",
}
_MODULES = {"errors", "markets", "pettingzoo", "sb3", "standalone", "testing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        if _HOMES[name].startswith(("rookery.training", "rookery.learners", "rookery.studies")):
            import_module("rookery.training").check_installed()
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"rookery.{name}")
    raise AttributeError(f"module 'rookery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
