"""Records the trajectory of one env, and checks every value that it returns."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np

from rookery.engine.autotune import legal
from rookery.engine.batch import Columns, leaves, split
from rookery.engine.observation_writer import ADVICE, ObservationWriter
from rookery.engine.seeding import GlobalRandom
from rookery.errors import RookeryError
from rookery.tools.world_report import CheckAborted, Watch, error_text, value_text

Frame = tuple[Any, ...]  # (observation,) of a reset, or a step's first four values
MOST_INFO_KEYS = 100
ReportProblem = Callable[[str, str], None]  # (kind, text): only the first of each kind is shown


def record_trajectory(
    env: gym.Env, actions: list[Any], seed: int, random: tuple[bool, bool], watch: Watch, report: ReportProblem
) -> list[Frame]:
    """Reset with `seed`, then step with `actions`, and reset at the end of each episode. Global generators that the env
    uses are seeded too, as in the engine; the caller restores them."""
    GlobalRandom(seed, *random).enter()
    return list(_frames(env, actions, seed, watch, report))


def _frames(env: gym.Env, actions: list[Any], seed: int, watch: Watch, report: ReportProblem) -> Iterator[Frame]:
    checker = ReturnChecker(env, report)
    watch.now("reset(seed=...)")
    last: Any = env.reset(seed=seed, options=None)
    yield checker.reset(last)
    for number, drawn in enumerate(actions):
        action = legal(env.action_space, drawn, last)
        given = copy.deepcopy(action)
        where = f"step() number {number}"
        watch.now(where)
        last = env.step(action)
        watch.now(f"reading what {where} returned")
        frame = checker.step(where, last)
        if not identical(given, action):
            report("action", "step() changes the action that it gets, which belongs to the caller: copy it first")
        yield frame
        if frame[2] or frame[3]:
            watch.now(f"reset() after {where}")
            last = env.reset(seed=None, options=None)
            yield checker.reset(last)


class ReturnChecker:
    """Checks what an env returns; observations by the rules of the engine."""

    def __init__(self, env: gym.Env, report: ReportProblem) -> None:
        self._space, self._report = env.observation_space, report
        arrays = {
            f"observation/{k}": np.zeros((1, *leaf.shape), leaf.dtype)
            for k, leaf in enumerate(leaves(self._space))
            if leaf.dtype is not None
        }
        self._observer = ObservationWriter(Columns(self._space, arrays, "observation", 1), 0, 1, strict=True)
        self._last: tuple[Any, Any] | None = None  # the observation as returned, and a copy of it
        self._info_kinds: dict[str, str] = {}  # of the values of infos, by key

    def reset(self, result: Any) -> Frame:
        if not isinstance(result, tuple) or len(result) != 2:
            self._report("reset shape", f"reset() should return (observation, info), got {_shape_of(result)}")
            raise CheckAborted
        self._info("reset()", result[1])
        return (self._observation("reset()", result[0]),)

    def step(self, where: str, result: Any) -> Frame:
        if not isinstance(result, tuple) or len(result) != 5:
            old = (
                "; four values are the API of gym before 0.26" if isinstance(result, tuple) and len(result) == 4 else ""
            )
            wanted = "(observation, reward, terminated, truncated, info)"
            self._report("step shape", f"step() should return {wanted}, got {_shape_of(result)}{old}")
            raise CheckAborted
        observation, reward, terminated, truncated, info = result
        self._info(where, info)
        self._reward(where, reward)
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, (bool, np.bool_)):
                self._report(name, f"{where}: {name} should be a bool, got {value_text(value)}")
        return self._observation(where, observation), reward, bool(terminated), bool(truncated)

    def _observation(self, where: str, observation: Any) -> Any:
        try:
            self._observer.put(0, observation)
            problem = self._observer.problem(0)
        except RookeryError as error:
            problem = error
        for kind, text in self._observer.take_kept()[1]:
            self._report(kind, f"{where}: {text}")
        if problem is not None:
            self._report("observation", f"{where}: {str(problem).partition(f': {ADVICE}')[0]}")
        self._reuse(observation)
        kept = copy.deepcopy(observation)
        self._last = observation, kept
        return kept

    def _reuse(self, observation: Any) -> None:
        if self._last is None:
            return
        before, as_it_was = self._last
        if not identical(before, as_it_was) or self._shared(before, observation):
            self._report(
                "reuse",
                "observations share one buffer, so each step changes the earlier ones; rookery copies them, but other "
                "code that stores observations would see them change: return a copy",
            )

    def _shared(self, before: Any, now: Any) -> bool:
        try:
            pairs = zip(split(self._space, before), split(self._space, now), strict=True)
        except RookeryError:
            return False
        return any(isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b) for a, b in pairs)

    def _reward(self, where: str, reward: Any) -> None:
        if not isinstance(reward, (numbers.Real, np.number)) or isinstance(reward, np.complexfloating):
            self._report("reward", f"{where}: reward should be a number, got {_shape_of(reward)}")
        elif not math.isfinite(reward):
            self._report("reward", f"{where}: reward is {reward}")

    def _info(self, where: str, info: Any) -> None:
        if not isinstance(info, dict):
            self._report("info", f"{where}: info should be a dict, got {type(info).__name__}")
            return
        try:
            cloudpickle.dumps(info)
        except Exception as error:  # noqa: BLE001 - objects resist pickling in their own ways
            self._report("info", f"{where}: info cannot be sent between processes ({error_text(error)})")
        self._info_types(where, "info", info)

    def _info_types(self, where: str, name: str, info: dict[Any, Any]) -> None:
        """What code that reads infos stumbles over: values that change their kind, and keys without end."""
        for key, value in info.items():
            path = f"{name}[{key!r:.40}]"
            if isinstance(value, dict):
                self._info_types(where, path, value)
            kind = _kind_of(value)
            before = self._info_kinds.setdefault(path, kind)
            if before != kind:
                self._report(
                    "info type",
                    f"{where}: {path} is {kind}, and was {before} before: the envs' values become arrays of Python "
                    "objects, and other code may fail on them; return one type",
                )
            if len(self._info_kinds) > MOST_INFO_KEYS:
                self._report(
                    "info keys",
                    f"infos have had more than {MOST_INFO_KEYS} different keys, such as {path}: each becomes an "
                    "array of its own for all envs; put what changes into the values",
                )


def identical(a: Any, b: Any) -> bool:
    """Whether two values are exactly equal, also if nested or NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(identical(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return np.array_equal(x, y, equal_nan=x.dtype.kind == "f" and y.dtype.kind == "f")
    return bool(a == b) or (a != a and b != b)


def first_difference(a: list[Frame], b: list[Frame]) -> str | None:
    """Where two trajectories differ, as text."""
    names = ("observation", "reward", "terminated", "truncated")
    for number, (x, y) in enumerate(zip(a, b, strict=False)):
        for name, left, right in zip(names, x, y, strict=False):
            if not identical(left, right):
                return f"the {name} {'of the first reset' if number == 0 else f'{number} calls after the first reset'}"
    return None if len(a) == len(b) else "the number of episodes"


def _shape_of(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    shape = getattr(value, "shape", None)
    return f"{type(value).__name__} of shape {shape}" if shape is not None else value_text(value)


def _kind_of(value: Any) -> str:
    """What an info's value is, as far as its column in a batch depends on it."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return "a number"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return "None" if value is None else f"of type {type(value).__name__}"
