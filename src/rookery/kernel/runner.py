"""Stepping an arena, compiled or in plain Python."""

from __future__ import annotations

import ctypes
from functools import partial
from time import monotonic_ns as _clock
from typing import Any

import numpy as np

from rookery.errors import BadValue, MissingExtra, RookeryError, SpaceError, StepTimeout, UsageError, WorldError
from rookery.kernel.batch_loop import BEGIN, CHECK, STEP
from rookery.kernel.env_arrays import GO_ON, INTERRUPTED, PLAN_WORDS, TIMED_OUT, EnvArrays
from rookery.kernel.env_loop import BAD_ACTION, BAD_OBSERVATION, BAD_RANGE, BAD_REWARD, OVER, STOPPED

MODE, STRICT, TURN, CLOCK, TIMEOUT, STOP = (
    PLAN_WORDS.index(name) for name in ("mode", "strict", "turn", "clock", "timeout", "stop")
)

EMPTY = "called integer(state, low, high) with nothing to draw from"


class Runner:
    """Runs a world's loop over an arena.

    Args:
        arena: The envs.
        mode: When they begin anew: NEXT_STEP, SAME_STEP or DISABLED.
        strict: Look for NaN, infinity and values outside the observation space.
        plain: As plain Python, uncompiled.
        timeout: Seconds after which a call is stopped, if the world's code is in a loop.
        like: Another runner of the same world, whose code this one shares.
    """

    checked = False  # whether an index out of bounds is noticed

    def __init__(
        self,
        arena: EnvArrays,
        mode: int,
        strict: bool = True,
        plain: bool = False,
        timeout: float | None = None,
        like: Runner | None = None,
    ) -> None:
        self.arena, self.mode, self._strict, self._timeout = arena, mode, int(strict), timeout
        if like is not None:
            self._call: Any = like._call
        else:
            self._call = _plain(arena) if plain else _compiled(arena, self.checked)
        self._plain = plain
        self._numbers: Any = [0] * len(PLAN_WORDS)
        self._others = self._parts = 0  # turns that were not rounds of all envs, and steps made in them
        self.refresh()

    def refresh(self) -> None:
        """Take note of arrays that were replaced."""
        turn = self._numbers[TURN]
        self._plan = self.arena.plan()
        self._plan[MODE], self._plan[STRICT], self._plan[TURN] = self.mode, self._strict, turn
        self._plan[TIMEOUT] = 0 if self._timeout is None else max(1, int(self._timeout * 1e9))
        self._where = (self.arena, self._plan) if self._plain else (self._plan.ctypes.data,)
        self._numbers = memoryview(self._plan)  # type: ignore[arg-type]
        envs = self.arena.num_envs
        if self._plain:
            self._step_all = partial(self._call, *self._where, STEP, 0, envs, 0)
        else:
            self.addresses = ctypes.cast(self._call, ctypes.c_void_p).value or 0, self._plan.ctypes.data
            self._step_all = _prepared(*self.addresses, STEP, 0, envs, 0)

    @property
    def steps(self) -> int:
        """Steps of envs so far, by this runner and by compiled loops that call its code."""
        return (self._numbers[TURN] - self._others) * self.arena.num_envs + self._parts

    def tick(self) -> None:
        """Begin a round: what is noted from now on belongs to it."""
        numbers = self._numbers
        numbers[TURN] += 1
        numbers[CLOCK] = _clock()

    def step_all(self) -> int:
        """Begin a round and step all envs, as one call: for small batches every 0.1 us counts."""
        numbers = self._numbers
        numbers[TURN] += 1
        numbers[CLOCK] = _clock()
        return self._step_all()

    def compiled(self) -> tuple[int, np.ndarray, int]:
        """Where the compiled code lies, its plan, and where that lies: for another compiled loop to call."""
        self._numbers[CLOCK] = _clock()
        entry, plan = self.addresses
        return entry, self._plan, plan

    def step(self, low: int, high: int, slot: int = 0) -> int:
        """Step envs [low, high); returns the union of ENDED and FAULT. Does nothing if any action is bad."""
        return self._call(*self._where, STEP, low, high, slot)

    def step_part(self, low: int, high: int) -> int:
        """A round of envs [low, high) alone."""
        self.tick()
        self._others, self._parts = self._others + 1, self._parts + high - low
        return self.step(low, high)

    def check(self, low: int, high: int) -> int:
        """Look at the actions alone."""
        return self._call(*self._where, CHECK, low, high, 0)

    def begin(self, envs: Any) -> int:
        """Start a new episode in these envs; returns FAULT if what any of them shows is bad."""
        self.arena.wanted[:] = False
        self.arena.wanted[envs] = True
        self.tick()
        self._others += 1
        return self._call(*self._where, BEGIN, 0, self.arena.num_envs, 0)

    def error_of(self, env: int) -> RookeryError:
        """What is wrong with an env whose fault is set, in words; clears the fault. Raises what no restart can mend."""
        arena, fault = self.arena, self.arena.faults[env]
        if fault not in (STOPPED, BAD_RANGE):
            return describe_fault(arena, env)
        stop, self._numbers[STOP] = self._numbers[STOP], GO_ON
        arena.faults[:] = 0
        arena.states["stage"] = OVER  # some have made the step and others have not: there is no going on
        if stop == INTERRUPTED:
            from rookery.kernel.interrupt import raise_interrupt

            raise_interrupt()
        if stop == TIMED_OUT:
            raise StepTimeout(
                f"{arena.world.name}: a step did not end within step_timeout={self._timeout} s, and was stopped; "
                "its envs have to be reset"
            )
        raise self._mistake(fault)

    def _mistake(self, fault: int) -> WorldError:
        """What the world's code did wrong in the last call."""
        what = EMPTY if fault == BAD_RANGE else "stopped amid a step, by an index beyond the end of a tuple"
        return WorldError(f"{self.arena.world.name} {what}; make_vec(..., bounds=True) names the line")


def _prepared(function: int, plan: int, *numbers: int) -> Any:
    """A call of a C function with arguments that are ready for it: 0.5 us, where Python's numbers take 0.9."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64)(function)
    return partial(call, ctypes.c_void_p(plan), *map(ctypes.c_int64, numbers))


def _compiled(arena: EnvArrays, checked: bool) -> Any:
    try:
        from rookery.kernel import native
    except ImportError as error:
        raise MissingExtra(
            f"kernel worlds are compiled by Numba, which cannot be imported ({error}): pip install 'rookery[kernel]'"
        ) from None
    return native.entry_point(arena.world, checked)


def _plain(arena: EnvArrays) -> Any:
    from rookery.kernel import plain

    return plain.entry_point(arena.world)


def seed_key(seed: int) -> int:
    """A seed as the 32-bit key of an env's random numbers; larger ones are hashed."""
    return seed if 0 <= seed < 2**32 else int(np.random.SeedSequence(seed).generate_state(1)[0])


def describe_fault(arena: EnvArrays, env: int) -> RookeryError:
    """What is wrong with an env's action, reward or observation; clears the fault."""
    fault, world = arena.faults[env], arena.world
    arena.faults[env] = 0
    rows = range(env * world.num_agents, (env + 1) * world.num_agents)
    if fault == BAD_RANGE:
        return WorldError(f"{world.name} {EMPTY}; backend='kernel' with bounds=True names the line")
    if fault == BAD_ACTION:
        action = arena.actions[env].tolist()
        return SpaceError(f"action {action} is not in {world.action_space}")
    if fault == BAD_REWARD:
        return BadValue(f"reward is {next(r for r in arena.rewards[rows] if not np.isfinite(r))}")
    if fault == BAD_OBSERVATION:
        return _bad_observation(arena, rows)
    return UsageError("not in an episode: call reset(), or reset(options={'reset_mask': ...}) for some envs")


def _bad_observation(arena: EnvArrays, rows: range) -> RookeryError:
    flat, low, high = arena.flat, arena.low, arena.high
    row, at = next((r, k) for r in rows for k in range(len(low)) if not low[k] <= flat[r, k] <= high[k])
    place = np.unravel_index(at, arena.observations.shape[1:])
    where, value = f"observation[{', '.join(map(str, place))}]", flat[row, at]
    if not np.isfinite(value):
        return BadValue(f"{where} is {value}")
    return SpaceError(f"{where} is {value}, outside [{low[at]}, {high[at]}] of {arena.world.observation_space}")
