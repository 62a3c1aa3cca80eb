"""What a run takes from envs that are already built: an engine, also within a Stable-Baselines3 `VecEnv`.

The run makes envs of its own in the same way, because it steps them in its own mode, and leaves the user's alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory, EnvFromWorld, kernel_of
from rookery.errors import WorldError
from rookery.kernel.world import KernelWorld

ONLY_COUNT = ("VecMonitor", "VecCheckNan", "VecVideoRecorder")  # of Stable-Baselines3: they change nothing of a step


def engine_in(world: Any) -> Any:
    """The engine in a Stable-Baselines3 `VecEnv` of `rookery.sb3`, also in a `VecMonitor`; anything else as it is."""
    if not _is_sb3(world):
        return world
    while hasattr(world, "venv"):
        kind = type(world).__name__
        if kind not in ONLY_COUNT:
            raise WorldError(
                f"{kind} changes what an agent sees, and a run makes its own envs without it: give the VecEnv in it "
                "(`.venv`), and use the learner's `normalise_observations` or `wrappers` in the run"
            )
        world = world.venv
    if isinstance(getattr(world, "engine", None), Engine):
        return world.engine
    if getattr(world, "envs", None):  # DummyVecEnv keeps its envs
        return list(world.envs)
    raise WorldError(
        f"{type(world).__name__} does not say how its envs are made: give rookery.sb3.VecEnv(env_fns), or the function "
        "that makes one env"
    )


def _is_sb3(world: Any) -> bool:
    return any(kind.__name__ == "VecEnv" and "stable_baselines3" in kind.__module__ for kind in type(world).__mro__)


def settings_of(engine: Any) -> dict[str, Any]:
    """How the engine steps its envs, as keys of a configuration."""
    if not isinstance(engine, Engine):
        return {}
    settings = engine.settings
    found: dict[str, Any] = {"backend": engine.backend}
    if engine.backend in ("process", "thread"):
        found["workers"] = engine.workers
    if settings.start_method is not None:
        found["start_method"] = settings.start_method
    if settings.step_timeout is not None:
        found["step_timeout"] = settings.step_timeout
    return found


def recordable(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of a world as a run can record them, paths as text; and those that are objects, such as arrays.

    >>> recordable({"data": Path("/bars"), "symbols": ("A", "B"), "fee": np.float64(0.1), "prices": np.zeros(3)})
    ({'data': '/bars', 'symbols': ['A', 'B'], 'fee': 0.1}, {'prices': array([0., 0., 0.])})
    """
    plain, objects = {}, {}
    for name, value in options.items():
        try:
            plain[str(name)] = _plain(value)
        except TypeError:
            objects[str(name)] = value
    return plain, objects


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.expanduser().resolve())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def changed_parameters(engine: Any) -> dict[str, Any]:
    """Parameters that were set on an engine of a kernel world since it was made, the same for all envs.

    Raises:
        WorldError: They differ between the envs.
    """
    world = getattr(engine, "world", None)
    if not isinstance(world, KernelWorld) or not isinstance(engine, Engine):
        return {}
    changed = {}
    for name, values in engine.parameters.items():  # type: ignore[attr-defined]
        if np.array_equal(values, np.broadcast_to(np.asarray(world.values[name]), values.shape)):
            continue
        if not np.array_equal(values, np.broadcast_to(values[:1], values.shape)):
            raise WorldError(
                f"the envs of {world.name} have different values of the parameter {name!r}, and a run makes envs of "
                f"its own: set one value for all of them, or change it during the run with `phases` or a callback"
            )
        changed[name] = values[0].tolist()
    return changed


def with_parameters(
    source: EnvFactory, options: Mapping[str, Any], changed: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Options that make a kernel world with these parameters; None if no options do, as a world may compute them."""
    wanted = {**options, **changed}
    maker = replace(source.makers[0], kwargs=wanted)  # type: ignore[type-var]
    try:
        made = kernel_of(replace(source, makers=(maker,)))
    except Exception:  # noqa: BLE001 - the world's own code refuses them in any way
        return None
    if made is None or any(made.world.values.get(name) != value for name, value in changed.items()):
        return None
    return wanted


def world_with(world: KernelWorld, changed: Mapping[str, Any]) -> EnvFromWorld:
    """The world itself, with other values of some parameters; the engine's own stays as it is."""
    other = copy.copy(world)
    other.values = {**world.values, **changed}
    return EnvFromWorld(other)
