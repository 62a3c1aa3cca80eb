"""How many envs of a world this machine can use, as it was measured at first: the same command makes the same run.

Measurements differ from start to start, and the number of envs changes what a run learns. So the first measurement of a
world is kept in the user's cache folder. It is forgotten when the world's file changes or the machine gets other cores.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

import gymnasium

from rookery.engine.machine import usable_cores
from rookery.training.resolve.world_choice import World
from rookery.user_dirs import cache_folder, read_own, write_own

MOST_ENTRIES = 1_000  # kept, the newest


def recall_useful_envs(world: World, *facts: object) -> int | None:
    """The number that was measured before; None if none was. `facts` are what it depends on beside world and cores."""
    key = _key(world, facts)
    count = None if key is None else _read().get(key)
    return count if type(count) is int and count >= 1 else None


def remember_useful_envs(world: World, count: int, *facts: object) -> None:
    """Keep it. If there is no folder to keep it in, the next run measures again."""
    key, path = _key(world, facts), _path()
    if key is None or path is None:
        return
    known = {name: value for name, value in _read().items() if name != key}
    newest = dict([*known.items(), (key, count)][-MOST_ENTRIES:])
    with suppress(OSError):
        write_own(path, json.dumps(newest, indent=0).encode())


def _key(world: World, more: tuple[object, ...] = ()) -> str | None:
    """What the measurement depends on; None for a class or function, which has no lasting name."""
    if not isinstance(world.source, str):
        return None
    path, colon, _ = world.source.rpartition(":")
    try:
        content = Path(path).read_bytes() if colon and path.endswith(".py") else b""
    except OSError:
        return None
    options = sorted(world.env_kwargs.items())
    facts = (world.source, options, world.wrappers, gymnasium.__version__, usable_cores(), *more)  # on a CPU no more
    return hashlib.sha256(repr(facts).encode() + content).hexdigest()


def _read() -> dict[str, object]:
    path = _path()
    try:
        found = {} if path is None else json.loads(read_own(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _path() -> Path | None:
    folder = cache_folder("measured")
    return None if folder is None else folder / "useful_envs.json"
