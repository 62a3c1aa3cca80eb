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

from rookery.worlds.register import register

if TYPE_CHECKING:
    from rookery import errors, pettingzoo, sb3, testing
    from rookery.engine.api import get_recommended_n_envs, make_vec
    from rookery.engine.engine import Engine
    from rookery.training.load import load
    from rookery.training.run import resume, train
    from rookery.worlds.kernel import KernelWorld
    from rookery.worlds.tables import Table

__version__ = "0.1.0"
__all__ = [
    "Engine",
    "KernelWorld",
    "Table",
    "errors",
    "get_recommended_n_envs",
    "load",
    "make_vec",
    "pettingzoo",
    "resume",
    "sb3",
    "testing",
    "train",
]

register()  # so that gymnasium.make("rookery/CartPole-v1") works from now on

# Names are loaded when first used, so that `import rookery` costs no more than `import gymnasium`.
_HOMES = {
    "make_vec": "rookery.engine.api",
    "get_recommended_n_envs": "rookery.engine.api",
    "Engine": "rookery.engine.engine",
    "KernelWorld": "rookery.worlds.kernel",
    "Table": "rookery.worlds.tables",
    "load": "rookery.training.load",
    "resume": "rookery.training.run",
    "train": "rookery.training.run",
}
_MODULES = {"errors", "pettingzoo", "sb3", "testing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        if _HOMES[name].startswith("rookery.training"):
            import_module("rookery.training.needs").check_installed()
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"rookery.{name}")
    raise AttributeError(f"module 'rookery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
