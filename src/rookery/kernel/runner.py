"""Runs a world's loop over a batch of envs, as compiled code or as plain Python."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import partial
from time import monotonic_ns as _clock
from types import ModuleType
from typing import Any

import numpy as np

from rookery.console import say
from rookery.errors import BadValue, MissingExtra, ResetNeeded, RookeryError, SpaceError, StepTimeout, WorldError
from rookery.kernel import plain as plain_python
from rookery.kernel.batch_loop import CHECK_ACTIONS, RESET, STEP
from rookery.kernel.declarations import FIRST_PROBLEM
from rookery.kernel.env_arrays import CONTINUE, EPISODE_STATS, INTERRUPTED, PLAN_WORDS, TIMED_OUT, EnvArrays
from rookery.kernel.env_loop import (
    BAD_ACTION,
    BAD_OBSERVATION,
    BAD_RANGE,
    BAD_REWARD,
    COLUMNS,
    FAILED_CHECK,
    OVER,
    PROBLEM,
    STOPPED,
)
from rookery.kernel.failed_checks import error_of, is_checked
from rookery.kernel.observation_form import outside
from rookery.kernel.tables import BAD_WINDOW, outside_table
from rookery.kernel.world import KernelWorld
from rookery.once import once

MODE, STRICT, BATCH_STEP, CLOCK, TIMEOUT, STOP = (
    PLAN_WORDS.index(name) for name in ("mode", "strict", "batch_step", "clock", "timeout", "stop")
)

COPIES = len(COLUMNS) + EPISODE_STATS.index("copies")  # among the arrays of a plan
EMPTY = "called integer(state, low, high) with an empty range"


class Runner:
    """Runs a world's loop over the arrays of a batch of envs.

    Args:
        env_arrays: The envs.
        mode: The autoreset mode: NEXT_STEP, SAME_STEP or DISABLED.
        strict: Check for NaN, infinity and values outside the observation space.
        plain: Run the world as plain Python. So it is also if the installed Numba cannot compile worlds.
        timeout: Seconds after which a call is stopped, if the world's code is in a loop.
        like: Another runner of the same world, whose code this one shares.
        bounds: Whether compiled code is checked; None: if the world is a user's (see failed_checks.py).
    """

    is_plain: bool  # whether the world runs as plain Python

    def __init__(
        self,
        env_arrays: EnvArrays,
        mode: int,
        strict: bool = True,
        plain: bool = False,
        timeout: float | None = None,
        like: Runner | None = None,
        bounds: bool | None = None,
    ) -> None:
        self.env_arrays, self.mode, self._strict, self._timeout = env_arrays, mode, int(strict), timeout
        self.is_plain: bool
        self._call: Any
        if like is not None:
            self._call, self.is_plain = like._call, like.is_plain
        else:
            native, world = None if plain else load_native(), env_arrays.world
            self.is_plain = native is None
            self._call = (
                plain_python.entry_point(world)
                if native is None
                else native.entry_point(world, is_checked(world, bounds))
            )
        self._numbers: Any = [0] * len(PLAN_WORDS)
        self._other_steps = self._env_steps_in_others = 0  # batch steps of some envs only, and the env steps in them
        self.refresh()

    def refresh(self) -> None:
        """Make a new plan, after an array was replaced."""
        batch_step = self._numbers[BATCH_STEP]
        self._plan = self.env_arrays.plan()
        self._plan[MODE], self._plan[STRICT], self._plan[BATCH_STEP] = self.mode, self._strict, batch_step
        self._plan[TIMEOUT] = 0 if self._timeout is None else max(1, int(self._timeout * 1e9))
        self._where = (self.env_arrays, self._plan) if self.is_plain else (self._plan.ctypes.data,)
        self._numbers = memoryview(self._plan)  # type: ignore[arg-type]
        envs, parts = self.env_arrays.num_envs, self.env_arrays.parts()
        self._copies_at = len(self._plan) - sum(1 + part.ndim for part in parts[COPIES:])
        if self.is_plain:
            self._step_all = partial(self._call, *self._where, STEP, 0, envs, 0)
        else:
            self.addresses = ctypes.cast(self._call, ctypes.c_void_p).value or 0, self._plan.ctypes.data
            self._step_all = prepared(*self.addresses, STEP, 0, envs, 0)

    def step_with_copies(self, step: Callable[[], int], copies: np.ndarray) -> int:
        """The outcome of a step of all envs by compiled code, which also copies what is observed, row by row."""
        numbers, at = self._numbers, self._copies_at
        self._copies = copies  # so that it exists for as long as code may write to it
        numbers[at], numbers[at + 1] = ctypes.addressof(ctypes.c_char.from_buffer(copies)), len(copies)  # type: ignore[arg-type]
        try:
            return step()
        finally:
            numbers[at + 1] = 0

    @property
    def steps(self) -> int:
        """Env steps so far, by this runner and by compiled loops that call its code."""
        return (self._numbers[BATCH_STEP] - self._other_steps) * self.env_arrays.num_envs + self._env_steps_in_others

    def start_batch_step(self) -> None:
        """Count a batch step and take its time, which the episode statistics use."""
        numbers = self._numbers
        numbers[BATCH_STEP] += 1
        numbers[CLOCK] = _clock()

    def step_all(self) -> int:
        """Step all envs. It repeats the lines of `start_batch_step`: for small batches every 0.1 us counts."""
        numbers = self._numbers
        numbers[BATCH_STEP] += 1
        numbers[CLOCK] = _clock()
        return self._step_all()

    def compiled(self) -> tuple[int, np.ndarray, int]:
        """The address of the compiled code, its plan, and the plan's address: for another compiled loop to call."""
        self._numbers[CLOCK] = _clock()
        entry, plan = self.addresses
        return entry, self._plan, plan

    def step(self, low: int, high: int, slot: int = 0) -> int:
        """Step envs [low, high); returns a bitwise or of ENDED and FAULT. Does nothing if any action is invalid."""
        return self._call(*self._where, STEP, low, high, slot)

    def step_range(self, low: int, high: int) -> int:
        """A batch step of envs [low, high) only."""
        self.start_batch_step()
        self._other_steps, self._env_steps_in_others = self._other_steps + 1, self._env_steps_in_others + high - low
        return self.step(low, high)

    def check(self, low: int, high: int) -> int:
        """Check the actions only."""
        return self._call(*self._where, CHECK_ACTIONS, low, high, 0)

    def reset(self, envs: Any) -> int:
        """Start a new episode in these envs; returns FAULT if the observation of any of them is invalid."""
        self.env_arrays.reset_mask[:] = False
        self.env_arrays.reset_mask[envs] = True
        self.start_batch_step()
        self._other_steps += 1
        return self._call(*self._where, RESET, 0, self.env_arrays.num_envs, 0)

    def fault_to_exception(self, env: int) -> RookeryError:
        """The fault of an env as an exception; clears the fault. Raises it if restarting the env cannot help."""
        env_arrays, fault = self.env_arrays, self.env_arrays.faults[env]
        if fault not in (STOPPED, BAD_RANGE):
            return value_fault_to_exception(env_arrays, env)
        stop, self._numbers[STOP] = self._numbers[STOP], CONTINUE
        env_arrays.faults[:] = 0
        env_arrays.states["stage"] = OVER  # some envs made the step and others did not: the batch cannot continue
        if stop == INTERRUPTED:
            from rookery.kernel.interrupt import raise_interrupt

            raise_interrupt()
        if stop == TIMED_OUT:
            raise StepTimeout(
                f"{env_arrays.world.name}: a step did not end within step_timeout={self._timeout} s, and was stopped; "
                "call reset() before the next step"
            )
        if fault == BAD_RANGE:
            raise _empty_range(env_arrays.world)
        raise error_of(env_arrays.world, "", (0, 0, 0))


def prepared(function: int, *numbers: int) -> Any:
    """A call of the C function at an address, with 64-bit arguments converted in advance: 0.5 us instead of 0.9."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64)(function)
    return partial(call, *map(ctypes.c_int64, numbers))


def seed_key(seed: int) -> int:
    """A seed as the 32-bit key of an env's random numbers; larger ones are hashed."""
    return seed if 0 <= seed < 2**32 else int(np.random.SeedSequence(seed).generate_state(1)[0])


def value_fault_to_exception(env_arrays: EnvArrays, env: int) -> RookeryError:
    """An invalid action, reward or observation of an env as an exception; clears the fault."""
    fault, world = env_arrays.faults[env], env_arrays.world
    env_arrays.faults[env] = 0
    rows = range(env * world.num_agents, (env + 1) * world.num_agents)
    if fault == BAD_RANGE:
        return _empty_range(world)
    where = f"env {env}, after {env_arrays.states['steps'][env]} steps of its episode: "
    if fault == FAILED_CHECK:
        return error_of(world, where, env_arrays.failures[env])
    if fault == BAD_WINDOW:
        return WorldError(f"{world.name} fails: {where}{outside_table(world, env_arrays.failures[env])}")
    if fault == PROBLEM:
        return BadValue(world.problem(int(env_arrays.states["stage"][env]) - FIRST_PROBLEM))
    if fault == BAD_ACTION:
        action = env_arrays.actions[env].tolist()
        return SpaceError(f"action {action} is not in {world.action_space}")
    if fault == BAD_REWARD:
        return BadValue(f"reward is {next(r for r in env_arrays.rewards[rows] if not np.isfinite(r))}")
    if fault == BAD_OBSERVATION:
        return _bad_observation(env_arrays, rows)
    return ResetNeeded(
        "the env is not in an episode: call reset(), or reset(options={'reset_mask': ...}) for some of the envs"
    )


def _empty_range(world: KernelWorld) -> WorldError:
    return WorldError(f"{world.name} {EMPTY}; make_vec(..., bounds=True) names the line")


def _bad_observation(env_arrays: EnvArrays, rows: range) -> RookeryError:
    space, observations = env_arrays.world.observation_space, env_arrays.observations
    found = (outside(space, env_arrays.low, env_arrays.high, observations[row]) for row in rows)
    where, value, low, high, part = next(wrong for wrong in found if wrong is not None)
    if not np.isfinite(value):
        return BadValue(f"observation{where} is {value}")
    return SpaceError(f"observation{where} is {value}, outside [{low}, {high}] of {part}")


# --- whether the installed Numba can compile kernel worlds ------------------------------------------------------------
# The compiler passes, the linker setup and the atomic operations use parts of Numba that are not public, and which any
# release may change. So only versions that are known to work are used. With any other version, or if one of these parts
# is missing, kernel worlds run as plain Python: with the same results, but slowly.

OLDEST, NEWEST = (0, 60), (0, 68)  # pyproject.toml has the same bounds


@once
def load_native() -> ModuleType | None:
    """The module `rookery.kernel.native`, or None, after one line of warning, if this Numba cannot compile worlds."""
    try:
        import numba
    except ImportError as error:
        raise MissingExtra(
            f"kernel worlds are compiled with Numba, which cannot be imported ({error}): pip install 'rookery[kernel]'"
        ) from None
    if not _is_known(numba.__version__):
        _warn(numba.__version__, "which rookery was not tested with")
        return None
    try:
        import rookery.kernel.native as native
    except (ImportError, AttributeError, TypeError) as error:
        _warn(numba.__version__, f"which lacks a part that the compiler needs ({error})")
        return None
    return native


def _is_known(version: str) -> bool:
    """Whether a version is between OLDEST and NEWEST, whatever its patch level.

    >>> _is_known("0.68.1"), _is_known("0.69.0"), _is_known("unknown")
    (True, False, False)
    """
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and OLDEST <= (int(numbers[1]), int(numbers[2])) <= NEWEST


def _warn(version: str, reason: str) -> None:
    known = f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"
    say(
        f"kernel worlds run as plain Python, which is slow: this is Numba {version}, {reason}; to compile them, "
        f"pip install 'numba{known}'"
    )
