"""Makes `gymnasium.make("rookery/CartPole-v1")` work after `import rookery`, without importing Gymnasium for it.

Gymnasium takes 0.25 s to import, which `rookery --help`, `rookery runs` or the dashboard have no use for. So rookery's
envs are registered right after somebody imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


def register_with_gymnasium() -> None:
    """Register the envs now if Gymnasium is there, else when it comes."""
    if "gymnasium" in sys.modules:
        _register()
    elif not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


class _GymnasiumFinder:
    """Finds Gymnasium as it would be found anyway, once, and lets its loader register the envs at the end."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        with suppress(ValueError):  # another thread imports it too
            sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            _then_register(spec.loader)
        return spec


def _then_register(loader: Any) -> None:
    """Only this method is replaced: a loader does more, such as finding the files of a package."""
    load = loader.exec_module

    def load_and_register(module: ModuleType) -> None:
        load(module)
        _register()

    loader.exec_module = load_and_register


def _register() -> None:
    from rookery.worlds.registry import register_built_in

    register_built_in()
