"""The checks behind `rookery.testing.check_world`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cloudpickle
import gymnasium as gym

from rookery.engine import snapshot
from rookery.engine.autotune import legal
from rookery.engine.batch import leaves
from rookery.engine.env_factory import EnvFactory, kernel_of
from rookery.engine.seeding import PreserveRandomState, uses_global_random
from rookery.errors import SpaceError, StateError
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.plain_values import note_truncations
from rookery.kernel.two_players import TwoPlayerWorld
from rookery.kernel.world import KernelWorld
from rookery.tools.kernel_checks import first_error, measure_batch, measure_env, plain_difference, turn_problem
from rookery.tools.trajectory import first_difference, identical, record_trajectory
from rookery.tools.world_report import CheckAborted, Watch, WorldReport, error_text, location

STATE_STEPS = 20
_ADVICE = {"reuse", "action", "cast", "info type", "info keys"}


class EnvChecker:
    """Checks one world, and adds what it finds to the report."""

    def __init__(
        self, source: EnvFactory, single: bool, report: WorldReport, steps: int, seed: int, watch: Watch
    ) -> None:
        self._source, self._single, self._report = source, single, report
        self._steps, self._seed, self._watch = steps, seed, watch
        self._seen: set[str] = set()
        self._open: list[gym.Env] = []

    def run(self) -> None:
        with PreserveRandomState():
            self._part("raised", self._run_checks)
            for env in [] if self._single else self._open:
                self._watch.now("close()")
                self._part("close", env.close)

    def _run_checks(self) -> None:
        self._many_agents()
        env = self._build()
        world = env.unwrapped.world if isinstance(env.unwrapped, KernelEnv) else None
        if world is not None:
            self._indices(world)  # first: unchecked code with a wrong index could crash this process
        self._random = uses_global_random(env)
        self._spaces(env)
        self._watch.now("action_space.sample()")
        env.action_space.seed(self._seed)
        self._actions = [env.action_space.sample() for _ in range(self._steps)]
        frames = self._trajectory(env)
        self._determinism(env, frames)
        if world is not None:
            self._part("plain", lambda: self._plain(world))
            self._part("turn", lambda: self._turns(world))
        self._global_random()
        self._part("pickle", self._pickling)
        self._part("state", lambda: self._state(env))
        self._part("render", lambda: self._render(env))
        ended = any(frame[2] or frame[3] for frame in frames if len(frame) > 1)  # a reset's frame has one value
        self._part("raised", lambda: measure_env(env, self._actions, ended, self._watch, self._note, self._report))
        if world is not None:
            self._part("raised", lambda: measure_batch(world, self._seed, self._watch, self._report))

    def _part(self, kind: str, check: Callable[[], Any]) -> None:
        """Do a part of the checks; the others follow whatever it raises."""
        with suppress(CheckAborted), self._watch.guard(lambda text: self._note(kind, text)):
            check()

    # --- parts --------------------------------------------------------------------------------------------------

    def _indices(self, world: KernelWorld) -> None:
        self._watch.now("compiling the world and checking its indices", slow=True)
        mistake = first_error(world, self._steps, self._seed)
        if mistake is not None:
            self._note("indices", mistake)
            raise CheckAborted

    def _many_agents(self) -> None:
        """A kernel world with more than two agents is not a single env: its indices and values are checked in a
        batch."""
        kernel = kernel_of(self._source)
        if kernel is not None and kernel.world.num_agents > 2:
            self._indices(kernel.world)
            self._report.advice.append(
                f"it has {kernel.world.num_agents} agents: only its indices were checked. Worlds with one or two "
                "agents are also compared with plain Python"
            )
            raise CheckAborted

    def _turns(self, world: KernelWorld) -> None:
        self._watch.now("checking whose turn it is", slow=True)
        problem = turn_problem(world, self._seed) if isinstance(world, TwoPlayerWorld) else None
        if problem is not None:
            self._note("turn", problem)

    def _plain(self, world: KernelWorld) -> None:
        self._watch.now("running the world in plain Python", slow=True)
        with note_truncations() as truncations:
            difference = plain_difference(world, self._steps, self._seed)
        self._report.advice += truncations[:1]
        if difference is not None:
            self._note("plain", f"compiled code and plain Python differ: {difference}")

    def _build(self) -> gym.Env:
        self._watch.now("building the env")
        try:
            env = self._source.make(0)
        except SpaceError as error:
            self._note("space", str(error))
            raise CheckAborted from error
        except (Exception, SystemExit) as error:
            self._note("build", f"the env cannot be built: {error_text(error)}{location(error)}")
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

    def _trajectory(self, env: gym.Env) -> list[Any]:
        return record_trajectory(env, self._actions, self._seed, self._random, self._watch, self._note)

    def _determinism(self, env: gym.Env, frames: list[Any]) -> None:
        again = self._trajectory(env)
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
        fresh = self._trajectory(self._build())
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
        self._watch.now("pickling the env's class or function")
        try:
            pickle.loads(cloudpickle.dumps(self._source))  # noqa: S301 - what we have just written
        except Exception as error:  # noqa: BLE001 - objects resist pickling in their own ways
            self._note(
                "pickle",
                f"the env cannot be sent to worker processes: {error_text(error)}. Open files and create locks inside "
                "__init__",
            )

    def _state(self, env: gym.Env) -> None:
        """Save the state in an episode, continue, and compare with the restored env."""
        self._watch.now("saving the env's state")
        try:
            last = env.reset(seed=self._seed, options=None)
            saved = snapshot.save(env)
        except StateError as error:
            self._report.advice.append(f"the state cannot be saved, so a run cannot be resumed exactly: {error}")
            return
        if self._single or any(self._random):
            return  # no second env to restore it in, or global generators, which are not saved
        original = _steps_from(env, self._actions[:STATE_STEPS], last)
        other = self._build()
        self._watch.now("restoring the env's saved state")
        restored = snapshot.load(other, saved)
        if not identical(original, _steps_from(restored, self._actions[:STATE_STEPS], last)):
            self._note("state", "an env restored from its saved state behaves differently: the state is incomplete")

    def _render(self, env: gym.Env) -> None:
        mode = getattr(env, "render_mode", None)
        if mode == "human":
            self._report.advice.append("render_mode is 'human': do not render while training")
        elif mode is not None:
            env.reset(seed=self._seed, options=None)
            self._watch.now(f"render() with render_mode {mode!r}")
            env.render()

    # --- helpers ------------------------------------------------------------------------------------------------

    def _note(self, kind: str, text: str) -> None:
        """Add the first problem of each kind to the report."""
        if kind not in self._seen:
            self._seen.add(kind)
            (self._report.advice if kind in _ADVICE else self._report.problems).append(text)


def _steps_from(env: gym.Env, actions: list[Any], last: Any) -> list[Any]:
    """The results of the steps after `last`, up to the end of the episode."""
    results: list[Any] = []
    for action in actions:
        last = env.step(legal(env.action_space, action, last))
        results.append(copy.deepcopy(last[:2]))
        if last[2] or last[3]:
            break
    return results
