"""Gymnasium's methods that are the same for all engines: those that start a call and take its results later, such as
`step_async` and `step_wait`, and those that reach all envs.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from rookery.errors import CallPending, CallTimeout, EngineClosed, NoCallPending, OptionError

Finish = Callable[[float | None], Any]  # takes a timeout in seconds, and returns the results


@dataclass(frozen=True)
class PendingCall:
    """A call that was started: "step", "reset" or "call", and how to take its results."""

    name: str
    finish: Finish


class AsyncCalls(VectorEnv):
    """The asynchronous methods of Gymnasium's `AsyncVectorEnv`.

    After a timeout the call continues: wait for it again. A backend starts what it can at once; anything else runs when
    it is waited for, and then a timeout is noticed at its end.
    """

    _pending: PendingCall | None = None

    def step_async(self, actions: Any) -> None:
        """Start a step of all envs; `step_wait` returns its results."""
        self._require_idle("step_async")
        self._pending = PendingCall("step", self._begin_step(actions))

    def step_wait(self, timeout: float | None = None) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """What `step` returns, for the actions of `step_async`. CallTimeout after `timeout` seconds."""
        return self._take("step", timeout)

    def reset_async(
        self, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> None:
        """Start a reset; `reset_wait` returns its results."""
        self._require_idle("reset_async")
        self._pending = PendingCall("reset", self._begin_reset(seed, options))

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """What `reset` returns, for the arguments of `reset_async`. CallTimeout after `timeout` seconds."""
        return self._take("reset", timeout)

    def call_async(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        """Start a call of each env's method `name`; `call_wait` returns its results."""
        self._require_idle("call_async")
        self._pending = PendingCall("call", self._begin_call(name, args, kwargs))

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """What `call` returns, for the arguments of `call_async`. CallTimeout after `timeout` seconds."""
        return self._take("call", timeout)

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Each env's random generator; those of worker processes are copies."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Each env's seed."""
        return self.get_attr("np_random_seed")

    def close(self, **kwargs: Any) -> None:
        """Close all envs; results that were not taken are lost, which a warning says."""
        if self._pending is not None and not self.closed:
            name = self._pending.name
            warnings.warn(
                f"close() was called while the results of {name}_async() had not been taken: they are lost "
                f"(call {name}_wait() first)",
                UserWarning,
                stacklevel=2,
            )
            self._pending = None
        super().close(**kwargs)

    # --- attributes and methods of all envs ---------------------------------------------------------------------

    def render(self) -> tuple[Any, ...]:
        """Each env's rendering."""
        return self.call("render")

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Each env's attribute `name` or, if it is callable, what it returns."""
        return self.call_some(range(self.num_envs), name, *args, **kwargs)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Each env's attribute `name`."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Set an attribute of each env: a list or tuple gives one value per env, anything else goes to all."""
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise OptionError(f"set_attr({name!r}) needs one value for each of {self.num_envs} envs, got {len(values)}")
        self.set_some(range(self.num_envs), name, values)

    @abstractmethod
    def call_some(self, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`call` for some envs only."""

    @abstractmethod
    def set_some(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """`set_attr` for some envs only."""

    # --- what a backend may start at once -----------------------------------------------------------------------

    def _begin_step(self, actions: Any) -> Finish:
        return Deferred("step", lambda: self.step(actions))

    def _begin_reset(self, seed: Any, options: dict[str, Any] | None) -> Finish:
        return Deferred("reset", lambda: self.reset(seed=seed, options=options))

    def _begin_call(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Finish:
        return Deferred("call", lambda: self.call(name, *args, **kwargs))

    # --- helpers ------------------------------------------------------------------------------------------------

    def _take(self, name: str, timeout: float | None) -> Any:
        self._require_open(f"{name}_wait")
        pending = self._pending
        if pending is None or pending.name != name:
            raise NoCallPending(f"{name}_wait() was called without a {name}_async() before it", name)
        self._pending = None
        try:
            return pending.finish(timeout)
        except (CallTimeout, KeyboardInterrupt):
            self._pending = pending  # it continues
            raise

    def _require_open(self, what: str) -> None:
        if self.closed:
            raise EngineClosed(f"{what}() was called on a closed engine")

    def _require_idle(self, what: str) -> None:
        self._require_open(what)
        self._refuse_pending(what)

    def _refuse_pending(self, what: str) -> None:
        if self._pending is not None:
            name = self._pending.name
            raise CallPending(
                f"{what}() was called before the results of {name}_async() were taken: call {name}_wait() first", name
            )


class Deferred:
    """A call that runs when its results are first asked for."""

    def __init__(self, name: str, call: Callable[[], Any]) -> None:
        self._name, self._call = name, call
        self._results: list[Any] = []

    def __call__(self, timeout: float | None) -> Any:
        if not self._results:
            start = time.perf_counter()
            self._results.append(self._call())
            check_time(self._name, start, timeout)
        return self._results[0]


def check_time(name: str, start: float, timeout: float | None) -> None:
    """CallTimeout if more than `timeout` seconds have passed since `start`."""
    if timeout is not None and time.perf_counter() - start > timeout:
        raise timed_out(name, timeout)


def timed_out(name: str, timeout: float) -> CallTimeout:
    return CallTimeout(f"{name}_wait() has waited for {timeout:g} s: the {name} continues, so call {name}_wait() again")
