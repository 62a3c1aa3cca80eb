"""The contenders of `rookery bench`: rookery's backends and the vector envs of other libraries."""

from __future__ import annotations

import contextlib
import multiprocessing
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any

from rookery.console import size_text
from rookery.engine.cost_memory import Probe
from rookery.engine.env_factory import EnvFactory
from rookery.engine.machine import available_memory
from rookery.errors import OptionError

FAMILIES = ("gymnasium", "sb3", "envpool")
OK = "ok"


@dataclass(frozen=True)
class BenchTask:
    """What every contender runs."""

    source: EnvFactory
    num_envs: int
    probe: Probe

    @property
    def makers(self) -> list[Callable[[], Any]]:
        """With what makes an env of a kernel world, too, which others cannot step as it is."""
        return [partial(self.source.make, index) for index in range(self.num_envs)]


@dataclass
class Contender:
    """One vector env to measure. `status` is "ok", or the reason why it was not measured."""

    name: str
    build: Callable[[BenchTask], Any]
    package: str | None = None  # required package
    process_per_env: bool = False
    ours: bool = False
    status: str = OK
    rates: list[float] = field(default_factory=list)
    envs: Any = None
    first: Any = None  # the result of its reset
    stepping: Any = None  # a throughput.RandomStepper

    def open(self, task: BenchTask) -> None:
        """Build and reset its envs. If another library fails, its status says so, and the others continue."""
        self.status = self._obstacle(task) or OK
        if self.status != OK:
            return
        try:
            self.envs = self.build(task)
            self.first = self.envs.reset()
        except Exception as error:  # noqa: BLE001 - as they like
            self.fail(error)

    def _obstacle(self, task: BenchTask) -> str | None:
        if self.package is not None and find_spec(self.package) is None:
            return "not installed"
        need = task.num_envs * task.probe.process_memory
        if self.process_per_env and need > available_memory() / 2:
            return f"skipped: {task.num_envs} processes need {size_text(need)} of memory"
        return None

    def fail(self, error: Exception) -> None:
        """Stop measuring this contender. An error of rookery itself is raised."""
        self.kill()
        if self.ours:
            raise error
        lines = str(error).strip().splitlines()
        self.status = (
            lines[0] if isinstance(error, LookupError) else f"failed: {type(error).__name__}: {' '.join(lines[:1])}"
        )

    def close(self) -> None:
        envs, self.envs = self.envs, None
        if envs is not None:
            envs.close()

    def kill(self) -> None:
        """End it without its close(), which may wait for workers that never answer."""
        for process in getattr(self.envs, "processes", ()):
            process.kill()
        if not hasattr(self.envs, "processes"):
            with contextlib.suppress(Exception):
                self.close()
        self.envs = None


def rookery_contenders(backends: list[str], workers: dict[str, int]) -> list[Contender]:
    """Rookery's backends, each with its number of workers."""

    def builder(backend: str) -> Callable[[BenchTask], Any]:
        from rookery.engine.make_vec import make_vec

        return lambda task: make_vec(task.source, task.num_envs, backend, workers[backend])

    return [Contender(f"rookery {backend}", builder(backend), ours=True) for backend in backends]


def peer_contenders(families: list[str]) -> list[Contender]:
    unknown = [name for name in families if name not in FAMILIES]
    if unknown:
        raise OptionError(f"against should be some of {', '.join(FAMILIES)}, got {unknown[0]!r}")
    by_family = {
        "gymnasium": [
            Contender("Gymnasium SyncVectorEnv", _gymnasium_sync),
            Contender("Gymnasium AsyncVectorEnv", _gymnasium_async, process_per_env=True),
        ],
        "sb3": [
            Contender("SB3 DummyVecEnv", _sb3_dummy, package="stable_baselines3"),
            Contender("SB3 SubprocVecEnv", _sb3_subproc, package="stable_baselines3", process_per_env=True),
        ],
        "envpool": [Contender("EnvPool", _envpool, package="envpool")],
    }
    return [contender for family in FAMILIES if family in families for contender in by_family[family]]


def _gymnasium_sync(task: BenchTask) -> Any:
    from gymnasium.vector import SyncVectorEnv

    return SyncVectorEnv(task.makers)


def _gymnasium_async(task: BenchTask) -> Any:
    from gymnasium.vector import AsyncVectorEnv

    return AsyncVectorEnv(task.makers)


def _sb3_dummy(task: BenchTask) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv(task.makers)


def _sb3_subproc(task: BenchTask) -> Any:
    """With fork if possible, as in Gymnasium: by SB3's default, every worker would import torch."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    forks = "fork" in multiprocessing.get_all_start_methods()
    return SubprocVecEnv(task.makers, start_method="fork" if forks else None)


def _envpool(task: BenchTask) -> Any:
    """EnvPool has its own C++ versions of some worlds, under the same ids."""
    with warnings.catch_warnings():  # its import prints many warnings of other libraries
        warnings.simplefilter("ignore")
        import envpool
    if task.source.name not in envpool.list_all_envs():
        raise LookupError("does not have this env")
    return envpool.make(task.source.name, env_type="gymnasium", num_envs=task.num_envs)
