"""The worlds that rookery knows by name: those in this package, and those of installed packages, which name a
`WorldSpec` under the entry point group "rookery.worlds":

    [project.entry-points."rookery.worlds"]
    maze = "maze_package.spec:MAZE"
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from rookery.console import say
from rookery.foreign_names import STAND_INS
from rookery.lazy import load_object
from rookery.worlds.built_in_worlds import BUILT_IN
from rookery.worlds.world_spec import PlayableGame, WorldSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

    import numpy as np
    from gymnasium import spaces

GROUP = "rookery.worlds"


def specs() -> tuple[WorldSpec, ...]:
    """All of them, rookery's own first."""
    return (*BUILT_IN, *_plugins())


def get(name: str) -> WorldSpec | None:
    """The world of this name, in lower or upper case; None if there is none.

    >>> get("Hockey").source, get("CartPole-v1")
    ('rookery/HockeyOne-v0', None)
    """
    return _named(name, BUILT_IN) or _named(name, _plugins())


def _named(name: str, among: Sequence[WorldSpec]) -> WorldSpec | None:
    return next((spec for spec in among if spec.original is None and spec.name == name.lower()), None)


def names(plugins: bool = True) -> list[str]:
    """What worlds are called by, except for Gymnasium ids; without `plugins`, rookery's own."""
    return [spec.name for spec in (specs() if plugins else BUILT_IN) if spec.original is None]


def games() -> dict[str, PlayableGame]:
    """The games that people play in a window, by the names of their worlds."""
    return {spec.name: spec.game for spec in specs() if spec.game is not None}


def compiled_version(gym_id: str) -> WorldSpec | None:
    """The compiled version of the env with this Gymnasium id, if there is one."""
    return next((spec for spec in specs() if spec.original == gym_id), None)


def stand_in(gym_id: str) -> tuple[WorldSpec, dict[str, Any]] | None:
    """The world that stands for another library's env with this id, and its options, if there is one."""
    for spec in specs():
        options = None if spec.stands_for is None else spec.stands_for(gym_id)
        if options is not None:
            return spec, options
    return None


def _source_of(gym_id: str) -> tuple[str, dict[str, Any]] | None:
    found = stand_in(gym_id)
    return None if found is None else (found[0].source, found[1])


def by_source(source: Any) -> WorldSpec | None:
    """The spec to which a Gymnasium id belongs, in its one-player or its two-player form."""
    if not isinstance(source, str):
        return None
    return next(
        (spec for spec in specs() if source in (spec.source, spec.compiled) or is_two_player(spec, source)), None
    )


def is_two_player(spec: WorldSpec | None, source: Any) -> bool:
    """Whether `source` is the two-player form of the world."""
    return spec is not None and spec.two_player is not None and source == spec.two_player.source


def by_kernel(world: Any) -> WorldSpec | None:
    """The spec to whose kernel worlds this one belongs, by its class."""
    places = {f"{kind.__module__}:{kind.__qualname__}" for kind in type(world).__mro__}
    return next((spec for spec in specs() if spec.kernel_class in places), None)


def agents() -> dict[str, WorldSpec]:
    """Names of the agents that are installed with a world, and that world.

    >>> list(agents())[:2]
    ['hockey', 'agent']
    """
    shipped = [spec for spec in specs() if spec.agent is not None]
    return {name: spec for spec in shipped for name in (spec.name, *(spec.agent.aliases if spec.agent else ()))}


def default_game() -> WorldSpec:
    """The two-player game to which agents belong that name none: rookery's own, with a trained agent."""
    return next(spec for spec in BUILT_IN if spec.agent is not None and spec.two_player is not None)


def curriculum_world() -> str:
    """The world that older trainers' curriculum JSON files are about, as they do not name it."""
    return next(spec.name for spec in BUILT_IN if spec.has_curriculum_json)


def trading_world() -> str:
    """The world that configurations of older trading trainers are about, as they do not name it."""
    return next(spec.name for spec in BUILT_IN if spec.has_trading_config)


def action_table(
    observation_space: spaces.Space, continuous: spaces.Space, discrete: spaces.Space
) -> np.ndarray | None:
    """The continuous action for each of a player's discrete ones, [n, ...], if some game has these spaces."""
    for spec in specs():
        if spec.two_player is not None and spec.two_player.action_table is not None:
            table = load_object(spec.two_player.action_table)(observation_space, continuous, discrete)
            if table is not None:
                return table
    return None


def register_built_in() -> None:
    """Make "rookery/CartPole-v1" and the others known to `gymnasium.make`, and those of other libraries that they
    stand for to `make_vec`."""
    _register(BUILT_IN)
    STAND_INS.add(_source_of)


def _register(added: Sequence[WorldSpec]) -> None:
    import gymnasium as gym

    for spec in added:
        for name, place in spec.envs.items():
            if name not in gym.registry:
                gym.register(name, entry_point=place)
        for name, place in spec.kernels.items():
            if name not in gym.registry:
                gym.register(name, entry_point="rookery.kernel.kernel_env:KernelEnv", kwargs={"world": place})


@cache
def _plugins() -> tuple[WorldSpec, ...]:
    """Those of installed packages. One that cannot be used gets a warning, and is ignored."""
    if not any(map(_may_have_plugins, sys.path)):  # reading all metadata takes a third of the time of --help
        return ()
    from importlib.metadata import entry_points

    found = tuple(_loaded(entry_points(group=GROUP)))
    if found:  # else Gymnasium would be imported for nothing
        _register(found)
    return found


def _may_have_plugins(place: str) -> bool:
    """Whether a package in this part of the path may name a world: one does, or it is an archive."""
    if os.path.isfile(place):
        return True
    files = glob.iglob(os.path.join(glob.escape(place), "*.*-info", "entry_points.txt"))
    return any(GROUP.encode() in _content(file) for file in files)


def _content(file: str) -> bytes:
    with suppress(OSError), open(file, "rb") as opened:
        return opened.read()
    return b""


def _loaded(entries: Sequence[EntryPoint] | Any) -> Iterator[WorldSpec]:
    taken = {spec.name for spec in BUILT_IN}
    for entry in entries:
        try:
            spec = entry.load()
            if not isinstance(spec, WorldSpec):
                raise TypeError(f"it should be a rookery.worlds.world_spec.WorldSpec, and is {spec!r:.80}")
            if spec.name in taken or (spec.name != spec.name.lower() and spec.original is None):
                raise ValueError(f"its name {spec.name!r} is taken, or not in lower case")
        except Exception as error:  # noqa: BLE001 - another package's code can fail in any way
            say(f"the world {entry.name!r} ({entry.value}) is ignored: {type(error).__name__}: {error}")
            continue
        taken.add(spec.name)
        yield spec
