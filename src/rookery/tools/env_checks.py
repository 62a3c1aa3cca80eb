"""The checks behind `rookery.testing.check_world`."""

from __future__ import annotations

import copy
import pickle
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cloudpickle
import gymnasium as gym

from rookery import printing
from rookery.engine.action_masks import legal
from rookery.engine.env_factory import EnvFactory, kernel_of
from rookery.engine.env_state import snapshot
from rookery.engine.global_random import PreserveRandomState, uses_global_random
from rookery.engine.layout import leaves
from rookery.errors import SpaceError, StateError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.plain_values import note_truncations
from rookery.kernel.two_players import TwoPlayerWorld
from rookery.kernel.world import KernelWorld
from rookery.tools.kernel_checks import first_error, plain_difference, turn_problem
from rookery.tools.trajectory import CheckAborted, first_difference, identical, record_trajectory
from rookery.tools.world_report import WorldReport

SPEED_SECONDS = 0.3  # in steps and resets
SPEED_WALL_SECONDS = 2.0  # with what is done between them
STATE_STEPS = 20
TINY_STEP = 30e-6  # seconds
SLOW_RESET = 200  # steps
_ADVICE = {"reuse", "action", "cast"}


class EnvChecker:
    """Checks one world, and adds what it finds to the report."""

    def __init__(self, source: EnvFactory, single: bool, report: WorldReport, steps: int, seed: int) -> None:
        self._source, self._single, self._report = source, single, report
        self._steps, self._seed = steps, seed
        self._seen: set[str] = set()
        self._open: list[gym.Env] = []

    def run(self) -> None:
        with PreserveRandomState(), suppress(CheckAborted):
            self._run_checks()
        self._close()

    def _run_checks(self) -> None:
        self._many_agents()
        env = self._build()
        world = env.unwrapped.world if isinstance(env.unwrapped, KernelEnv) else None
        if world is not None:
            self._indices(world)  # first: unchecked code with a wrong index could crash this process
        self._random = uses_global_random(env)
        self._spaces(env)
        env.action_space.seed(self._seed)
        self._actions = [env.action_space.sample() for _ in range(self._steps)]
        frames = record_trajectory(env, self._actions, self._seed, self._random, self._note)
        self._determinism(env, frames)
        if world is not None:
            self._plain(world)
            self._turns(world)
        self._global_random()
        self._pickling()
        self._state(env)
        ended = any(frame[2] or frame[3] for frame in frames if len(frame) > 1)  # a reset's frame has one value
        self._speed(env, ended)
        if getattr(env, "render_mode", None) == "human":
            self._report.advice.append("render_mode is 'human': do not render while training")

    # --- parts --------------------------------------------------------------------------------------------------

    def _indices(self, world: KernelWorld) -> None:
        mistake = first_error(world, self._steps, self._seed)
        if mistake is not None:
            self._note("indices", mistake)
            raise CheckAborted

    def _many_agents(self) -> None:
        """A kernel world with more than two agents is no single env: its indices and values are checked in a batch."""
        kernel = kernel_of(self._source)
        if kernel is not None and kernel.world.num_agents > 2:
            self._indices(kernel.world)
            self._report.advice.append(
                f"it has {kernel.world.num_agents} agents: only its indices were checked. Worlds with one or two "
                "agents are also compared with plain Python"
            )
            raise CheckAborted

    def _turns(self, world: KernelWorld) -> None:
        problem = turn_problem(world, self._seed) if isinstance(world, TwoPlayerWorld) else None
        if problem is not None:
            self._note("turn", problem)

    def _plain(self, world: KernelWorld) -> None:
        with note_truncations() as truncations:
            difference = plain_difference(world, self._steps, self._seed)
        self._report.advice += truncations[:1]
        if difference is not None:
            self._note("plain", f"compiled code and plain Python differ: {difference}")

    def _build(self) -> gym.Env:
        try:
            env = self._source.make(0)
        except SpaceError as error:
            self._note("space", str(error))
            raise CheckAborted from error
        except Exception as error:
            self._note("build", f"the env cannot be built: {type(error).__name__}: {error}")
            raise CheckAborted from error
        self._open.append(env)
        return env

    def _spaces(self, env: gym.Env) -> None:
        for name in ("observation_space", "action_space"):
            try:
                leaves(getattr(env, name))
            except SpaceError as error:
                self._note(name, f"{name}: {error}")
        if self._seen & {"observation_space", "action_space"}:
            raise CheckAborted

    def _determinism(self, env: gym.Env, frames: list[Any]) -> None:
        again = record_trajectory(env, self._actions, self._seed, self._random, self._note)
        difference = first_difference(frames, again)
        if difference:
            self._note(
                "again",
                f"reset(seed={self._seed}) on the same env gives another trajectory the second time: {difference}",
            )
        if self._single:
            self._report.advice.append(
                "an instance was given: give its class, or a function that builds it, to compare two envs"
            )
            return
        fresh = record_trajectory(self._build(), self._actions, self._seed, self._random, self._note)
        difference = first_difference(frames, fresh)
        if difference:
            self._note(
                "fresh",
                f"two envs with the same seed and actions differ: {difference}. Use self.np_random, which "
                "super().reset(seed=seed) seeds, and store no state outside the env",
            )

    def _global_random(self) -> None:
        names = [name for name, used in zip(("random", "numpy.random"), self._random, strict=True) if used]
        if names:
            self._report.advice.append(
                f"its code uses the global generator {' and '.join(names)}. rookery gives each env its own copy, which "
                "costs time; other libraries do not, so seeds have no effect there: use self.np_random"
            )

    def _pickling(self) -> None:
        if self._single:
            return
        try:
            pickle.loads(cloudpickle.dumps(self._source))  # noqa: S301 - what we have just written
        except Exception as error:  # noqa: BLE001 - objects resist pickling in their own ways
            text = " ".join(str(error).split())
            self._note(
                "pickle",
                f"the env cannot be sent to worker processes: {text}. Open files and create locks inside __init__",
            )

    def _state(self, env: gym.Env) -> None:
        """Save the state in an episode, continue, and compare with the restored env."""
        try:
            last = env.reset(seed=self._seed, options=None)
            saved = snapshot.save(env)
        except StateError as error:
            self._report.advice.append(f"the state cannot be saved, so a run cannot be resumed exactly: {error}")
            return
        if self._single or any(self._random):
            return  # no second env to restore it in, or global generators, which are not saved
        original = _steps_from(env, self._actions[:STATE_STEPS], last)
        restored = snapshot.load(self._build(), saved)
        if not identical(original, _steps_from(restored, self._actions[:STATE_STEPS], last)):
            self._note("state", "an env restored from its saved state behaves differently: the state is incomplete")

    def _speed(self, env: gym.Env, ended: bool) -> None:
        end = time.perf_counter() + SPEED_WALL_SECONDS
        took, last = _timed(env.reset)
        steps, in_resets, resets, count = 0.0, took, [took], 0
        while (steps + in_resets < SPEED_SECONDS and time.perf_counter() < end) or count == 0:
            action = legal(env.action_space, self._actions[count % self._steps], last)
            start = time.perf_counter()
            last = env.step(action)
            steps += time.perf_counter() - start
            count += 1
            if last[2] or last[3]:
                took, last = _timed(env.reset)
                in_resets += took
                resets.append(took)
        self._report.reset_seconds = statistics.median(resets)
        self._report.steps_per_second = count / (steps + in_resets - resets[0])
        self._speed_advice(steps / count, self._report.reset_seconds)
        if not ended and len(resets) == 1:
            self._report.advice.append(
                f"no episode ended in a trial of {max(count, self._steps):,} steps. Training reports the returns of "
                "episodes that ended: return terminated or truncated at some time"
            )

    def _speed_advice(self, step: float, reset: float) -> None:
        if step < TINY_STEP:
            self._report.advice.append(f"a step takes only {printing.duration(step)}: give each worker many envs")
        if reset > SLOW_RESET * step:
            self._report.advice.append(
                f"a reset takes as long as {reset / step:,.0f} steps: move what does not change to __init__"
            )

    # --- helpers ------------------------------------------------------------------------------------------------

    def _note(self, kind: str, text: str) -> None:
        """Add the first problem of each kind to the report."""
        if kind not in self._seen:
            self._seen.add(kind)
            (self._report.advice if kind in _ADVICE else self._report.problems).append(text)

    def _close(self) -> None:
        for env in [] if self._single else self._open:
            try:
                env.close()
            except Exception as error:  # noqa: BLE001
                self._note("close", f"close() raised {type(error).__name__}: {error}")


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def _steps_from(env: gym.Env, actions: list[Any], last: Any) -> list[Any]:
    """The results of the steps after `last`, up to the end of the episode."""
    results: list[Any] = []
    for action in actions:
        last = env.step(legal(env.action_space, action, last))
        results.append(copy.deepcopy(last[:2]))
        if last[2] or last[3]:
            break
    return results
