"""A kernel world's envs: resets, restarts, parameters and attributes; all but stepping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from rookery.engine import seeding
from rookery.engine.env_factory import EnvFactory, KernelSource, kernel_of
from rookery.engine.settings import Settings
from rookery.engine.step_report import Failure, StepReport
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import OptionError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import FAULT, NEXT_STEP, OVER, RESET_NEXT, RUNNING, SAME_STEP
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.runner import Runner, seed_key
from rookery.kernel.world import KernelWorld


def compiled_world(source: EnvFactory, settings: Settings, backend: str) -> KernelSource:
    """The kernel world that a backend compiles; OptionError where there is none, and for other options."""
    kernel = kernel_of(source, build=True)
    if kernel is None:
        raise OptionError(f"backend={backend!r} needs a kernel world, and {source.name} is not one")
    if not (isinstance(settings.observation_mode, str) and settings.observation_mode == "same"):
        raise OptionError("the envs of a kernel world have one observation space: omit observation_mode")
    return kernel


class KernelEnvs:
    """Resets and restarts envs, sets their parameters, and gives each as a Gymnasium env for `call`."""

    def __init__(self, kernel: KernelSource) -> None:
        self._kernel, self.world = kernel, kernel.world
        self._views: dict[int, KernelEnv] = {}
        self._waiting: dict[int, dict[str, Any]] = {}  # parameters for the next episodes of some envs
        self._applied: dict[int, dict[str, Any]] = {}
        self._seeds: dict[int, int] = {}  # what each env was last seeded with

    def description(self) -> EnvDescription:
        world = self.world
        return EnvDescription(
            deepcopy(world.observation_space), deepcopy(world.action_space), dict(world.metadata),
            self._kernel.render_mode, self._kernel.spec, (False, False),
        )  # fmt: skip

    def attach(self, arena: EnvArrays, runner: Runner) -> None:
        self.arena, self._runner = arena, runner
        self._views.clear()

    def replace_tables(self, world: KernelWorld) -> None:
        """Use this world's tables, which are other arrays of the same names."""
        self.world = world
        self.arena.replace_tables(world)
        self._runner.refresh()
        self._views.clear()

    # --- episodes -----------------------------------------------------------------------------------------------

    def begin(self, envs: np.ndarray, seeds: Sequence[int | None]) -> int:
        """Start episodes in these envs. Those with a seed, and those that never had one, start with new state."""
        self.apply_waiting(envs.tolist())
        states = self.arena.states
        for env in envs.tolist():
            seed = seeds[env]
            if seed is None and states["seed"][env] == states["episode"][env] == 0:
                seed = seeding.fresh_entropy()
            if seed is not None:
                states[env] = np.zeros((), states.dtype)
                states["seed"][env] = seed_key(seed)
                self._seeds[env] = seed
        return self._runner.reset(envs)

    def restart(self, row: int, seed: int, announce: bool) -> list[StepReport]:
        """Start a new episode after a fault; the lost episode ends as truncated in the step that failed."""
        arena, agents = self.arena, self.world.num_agents
        env = row // agents
        rows = range(env * agents, (env + 1) * agents)
        report = StepReport()
        if self.begin(np.array([env]), {env: seed}) & FAULT:  # type: ignore[arg-type]
            report.failures.append(Failure(row, "reset", self._runner.fault_to_exception(env)))
            return [report]
        if not announce:
            return [report]
        arena.truncated[rows] = True
        mode = self._runner.mode
        for r in rows:
            report.infos.append((r, {"restarted": True}))
            if mode == SAME_STEP:
                report.final_infos.append((r, {"restarted": True}))
        if mode == SAME_STEP:
            arena.finals[rows] = arena.observations[rows]
        else:
            arena.states["stage"][env] = RESET_NEXT if mode == NEXT_STEP else OVER
        return [report]

    def restart_with_waiting(self, ended: np.ndarray) -> int:
        """Reset again the envs that have just reset themselves, where parameters were waiting for their next episode:
        the result is the same as if these had been set before."""
        arena, agents = self.arena, self.world.num_agents
        envs = [env for env in self._waiting if ended[env * agents]]
        if not envs:
            return 0
        self.apply_waiting(envs)
        if self._runner.mode != SAME_STEP:
            return 0
        rows = (np.array(envs)[:, None] * agents + np.arange(agents)).ravel()
        kept = [(array, array[rows]) for array in (arena.rewards, arena.terminated, arena.truncated)]
        arena.states["episode"][envs] -= 1
        outcome = self._runner.reset(envs)
        for array, values in kept:
            array[rows] = values
        return outcome

    # --- parameters ---------------------------------------------------------------------------------------------

    def set_next_parameters(self, options: Mapping[int, dict[str, Any]]) -> None:
        """Keep parameters for the next episodes of some envs."""
        for env, values in options.items():
            encoded = self.world.encode(values)  # raises now if a value is wrong
            if self._applied.get(env) == encoded:
                self._waiting.pop(env, None)
            else:
                self._waiting[env] = dict(values)
        idle = [env for env in options if self.arena.states["stage"][env] != RUNNING]
        self.apply_waiting(idle)  # no episode is running there

    def apply_waiting(self, envs: Sequence[int]) -> None:
        """Set the parameters that were waiting for these envs."""
        due = [env for env in envs if env in self._waiting] if self._waiting else []
        for env in due:
            values = self._waiting.pop(env)
            self.set_parameters(np.array([env]), values)
            self._applied[env] = self.world.encode(values)

    def forget_applied(self, envs: np.ndarray | None = None) -> None:
        """Forget which parameters were applied, as they were set in another way."""
        for env in list(self._applied) if envs is None else envs.tolist():
            self._applied.pop(env, None)

    def set_parameters(self, envs: np.ndarray, values: dict[str, Any]) -> None:
        arena = self.arena
        if self._applied:
            self.forget_applied(envs)
        for name, encoded in encode_many(self.world, values, len(envs)).items():
            per_env = is_per_env(self.world, name, encoded)
            if per_env or len(envs) < arena.num_envs:
                self.spread_params()
            shared = slice(None) if per_env else 0  # a batch of one env has one record anyway
            arena.params[name][envs if len(arena.params) > 1 else shared] = encoded

    def spread_params(self) -> None:
        """Give every env parameters of its own, if all share one record."""
        if len(self.arena.params) < self.arena.num_envs:
            self.arena.spread_params()
            self._runner.refresh()
            self._views.clear()  # they refer to the record that all shared

    # --- envs as objects ----------------------------------------------------------------------------------------

    def call(self, rows: Sequence[int], name: str, args: tuple, kwargs: dict) -> dict[int, Any]:
        def call_env(view: KernelEnv) -> Any:
            found = view.get_wrapper_attr(name)
            return found(*args, **kwargs) if callable(found) else found

        return self._each(rows, call_env)

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> dict[int, Any]:
        """Set parameters; a kernel world has no other attributes to set."""
        for row, value in zip(rows, values, strict=True):
            self.set_parameters(np.array([row // self.world.num_agents]), {name: value})
        return dict.fromkeys(rows)

    def is_wrapped(self, rows: Sequence[int], wrapper: type) -> dict[int, bool]:
        return dict.fromkeys(rows, False)

    def _each(self, rows: Sequence[int], function: Callable[[KernelEnv], Any]) -> dict[int, Any]:
        return {row: function(self._view(row // self.world.num_agents)) for row in rows}

    def _view(self, env: int) -> KernelEnv:
        """One env of the batch as an object, over the batch's own memory."""
        if env not in self._views:
            self._views[env] = KernelEnv.from_arrays(self.arena.view(env), self._kernel.render_mode, self._runner)
        if env in self._seeds:
            self._views[env].note_seed(self._seeds[env])
        return self._views[env]


def encode_many(world: KernelWorld, values: dict[str, Any], count: int) -> dict[str, Any]:
    """Parameters as `KernelWorld.encode` returns them, or as arrays of `count` of these where one was given per env. A
    named parameter takes precedence over one that another parameter implies, as a mode implies a time limit."""
    shared = {name: value for name, value in values.items() if not is_per_env(world, name, value)}
    encoded: dict[str, Any] = dict(world.encode(shared))
    for name in values.keys() - shared.keys():
        if len(values[name]) != count:
            own_shape = world.parameter_shape(name)
            shape = f", of the shape {(count, *own_shape)}" if own_shape else ""
            raise OptionError(
                f"{name!r} needs one value, or one for each of {count} envs{shape}, got {len(values[name])}"
            )
        each = [world.encode({name: item}) for item in values[name]]
        own = world.aliases.get(name, name)
        for key in each[0]:
            if key == own or key not in shared:
                encoded[key] = np.array([numbers[key] for numbers in each])
    return encoded


def is_per_env(world: KernelWorld, name: str, value: Any) -> bool:
    """Whether a value of a parameter has one dimension more than the parameter: one value for each env."""
    try:
        return not isinstance(value, str) and np.ndim(value) > len(world.parameter_shape(name))
    except ValueError:
        return False  # a ragged list, which `encode` refuses


def per_env_parameters(params: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """The parameters of `count` envs by name, from one record for all of them or one for each."""
    return {
        name: np.broadcast_to(params[name], (count, *params[name].shape[1:])).copy()
        for name in params.dtype.names or ()
    }


def env_numbers(envs: Any, count: int) -> np.ndarray:
    """Which envs are meant: all, some by number, or those that are True in a mask."""
    if envs is None:
        return np.arange(count)
    numbers = np.atleast_1d(np.asarray(envs))
    if not numbers.size:
        return np.arange(0)
    if numbers.dtype == np.bool_ and numbers.shape == (count,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(np.unique(numbers)) != len(numbers):
        raise OptionError(f"envs should be distinct numbers, or a mask of {count} bools, got {envs!r}")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < count:
        raise OptionError(f"envs should be numbers below {count}, got {envs!r}")
    return numbers
