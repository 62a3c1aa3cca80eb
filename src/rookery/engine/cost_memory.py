"""What was measured on this machine before: the same call then makes the same choice, and makes it at once."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rookery.console import say
from rookery.engine.env_factory import EnvFactory, EnvFromCallable, EnvFromFile, RegisteredEnv
from rookery.engine.machine import usable_cores
from rookery.user_dirs import cache_folder, read_own, write_own

if TYPE_CHECKING:
    from rookery.engine.worker_envs import EnvDescription

MOST_ENTRIES = 1_000  # kept, the newest
DAYS = 30  # after which a world is measured again: what it imports may have changed


class Measurements:
    """A small file in the user's cache that maps what was measured to the result."""

    def __init__(self, name: str) -> None:
        self._name = name

    def recall(self, key: str | None) -> Any:
        """What was measured; None if nothing was."""
        return None if key is None else self._read().get(key)

    def remember(self, key: str | None, value: Any) -> None:
        """Keep it. If there is no folder to keep it in, the next program measures again."""
        path = self._path()
        if key is None or path is None:
            return
        known = {name: known for name, known in self._read().items() if name != key}
        newest = dict([*known.items(), (key, value)][-MOST_ENTRIES:])
        with suppress(OSError):
            write_own(path, json.dumps(newest, indent=0).encode())

    def _read(self) -> dict[str, Any]:
        path = self._path()
        try:
            found = {} if path is None else json.loads(read_own(path))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _path(self) -> Path | None:
        folder = cache_folder("measured")
        return None if folder is None else folder / self._name


def key_of(*facts: object, content: bytes = b"") -> str | None:
    """A key for these facts; None if they have no lasting text, such as an object that shows its address."""
    text = repr(facts)
    return None if " at 0x" in text else hashlib.sha256(text.encode() + content).hexdigest()


# --- what an env costs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What one env of a world costs."""

    step_seconds: float  # without the time in which other processes had the core
    cpu_share: float  # of a step's time, how much is spent on the CPU rather than waiting
    reset_seconds: float
    build_seconds: float
    memory: int  # bytes that one more env takes
    process_memory: int  # bytes of a worker process with one env

    @property
    def numbers(self) -> list[float]:
        return [getattr(self, field.name) for field in fields(Cost)]


@dataclass(frozen=True)
class Probe(Cost):
    """What was measured just now, and what else is known about the env."""

    description: EnvDescription
    disturbed_share: float = 0.0  # of the time, in how much other programs or other virtual machines had the cores


COSTS = Measurements("costs.json")


def recall(source: EnvFactory) -> Cost | None:
    """What an env of this world cost when it was measured on this machine."""
    found = COSTS.recall(_key(source))
    is_list = isinstance(found, list) and len(found) == 1 + len(fields(Cost))
    if not is_list or not all(type(number) in (int, float) and math.isfinite(number) for number in found):
        return None
    when, *numbers = found
    if not 0 <= time.time() - when < DAYS * 86_400 or min(numbers) < 0 or numbers[0] == 0:
        return None
    return Cost(*numbers)


def remember(source: EnvFactory, cost: Cost) -> None:
    """Keep a measurement."""
    if cost.step_seconds > 0:
        COSTS.remember(_key(source), [time.time(), *cost.numbers])


FASTEST = Measurements("fastest.json")
BUSY_SECONDS = 600  # how long a choice counts that was measured beside other programs


def recall_fastest(source: EnvFactory, *asked: object) -> tuple[str, int, int] | None:
    """The backend and the numbers of envs and workers that were fastest here, of those that leave open what `asked`
    leaves open."""
    found = FASTEST.recall(_fastest_key(source, asked))
    if not isinstance(found, list) or [type(item) for item in found[1:]] != [str, int, int] or min(found[2:]) < 1:
        return None
    left = found[0] - time.time() if type(found[0]) in (int, float) else 0
    return tuple(found[1:]) if 0 < left < DAYS * 86_400 else None


def remember_fastest(source: EnvFactory, plan: tuple[str, int, int], busy: bool, *asked: object) -> None:
    """Keep what was fastest: for a month, or for a few minutes if the machine was busy."""
    until = time.time() + (BUSY_SECONDS if busy else DAYS * 86_400 - 1)
    FASTEST.remember(_fastest_key(source, asked), [until, *plan])


def _fastest_key(source: EnvFactory, asked: tuple[object, ...]) -> str | None:
    key = _key(source)
    return None if key is None else key_of(key, asked)


def _key(source: EnvFactory) -> str | None:
    """What the cost of a step depends on; None for a lambda or a list of functions, which have no lasting name."""
    maker = source.makers[0]
    if len(source.makers) > 1 or not source.endless:
        return None
    content: bytes | None = b""
    if isinstance(maker, RegisteredEnv):
        entry = maker.spec.entry_point
        name = f"{maker.spec.id} {entry if isinstance(entry, str) else getattr(entry, '__qualname__', entry)}"
        module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
        if not module.startswith("gymnasium."):
            content = _content(module)
    elif isinstance(maker, EnvFromFile):
        name, content = f"{maker.path}:{maker.attribute}", _file(maker.path)
    elif isinstance(maker, EnvFromCallable) and isinstance(maker.function, type):
        name, content = maker.function.__qualname__, _content(maker.function.__module__)
    else:
        return None
    if content is None:
        return None
    options = sorted(maker.kwargs.items())
    versions = gym.__version__, usable_cores()
    return key_of(name, options, source.wrappers, source.image_size, *versions, content=content)


def _content(module: str) -> bytes | None:
    """The text of a module that was imported, as far as it has a file."""
    return _file(getattr(sys.modules.get(module), "__file__", None))


def _file(path: str | None) -> bytes | None:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError:
        return None


WATCHED_SECONDS = 1.0  # of steps, before anything is concluded
BUSY = 0.7  # of a step's time on the CPU: from here on, a worker per core is enough


class CostWatch:
    """Watches the first steps of an engine whose number of workers nobody has measured or given. If they wait rather
    than compute, it says that more workers would be faster, and the next engine of this world has them.

    Args:
        cpu_seconds: What the workers have used so far.
    """

    def __init__(self, source: EnvFactory, num_envs: int, workers: int, cpu_seconds: Callable[[], float]) -> None:
        self._source, self._num_envs, self._workers, self._cpu_seconds = source, num_envs, workers, cpu_seconds
        self._began, self._waited, self._rounds = cpu_seconds(), 0.0, 0

    def is_over(self, waited: float) -> bool:
        """Add a round in which all envs were stepped, and how long it was waited for; whether enough was seen."""
        self._waited += waited
        self._rounds += 1
        if self._waited < WATCHED_SECONDS:
            return False
        share = (self._cpu_seconds() - self._began) / (self._waited * self._workers)
        if share < BUSY:
            step = self._waited * self._workers / (self._rounds * self._num_envs)
            cost = Cost(step, max(share, 0.0), 0.0, 0.0, 0, 0)
            remember(self._source, cost)
            more = min(self._num_envs, useful_workers(cost, usable_cores()))
            say(
                f"steps of {self._source.name} wait for {1 - share:.0%} of their time: "
                f"workers={more} would be faster than {self._workers}"
            )
        return True


def useful_workers(cost: Cost, cores: int) -> int:
    """One per core; more where steps wait, because a waiting worker leaves its core to another."""
    busy = max(cost.cpu_share, 0.05)
    return max(1, math.ceil(cores / busy)) if busy < BUSY else cores


def likely_workers(source: EnvFactory, num_envs: int) -> int:
    """How many workers to start where nothing is measured now."""
    known = recall(source)
    return max(1, min(num_envs, usable_cores() if known is None else useful_workers(known, usable_cores())))
