"""A kernel world as an ordinary Gymnasium env, for a single env."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from importlib import import_module
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding

from rookery.errors import SpaceError, StateError, UsageError, WorldError
from rookery.gate import allow_given
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import DISABLED, FAULT
from rookery.kernel.observation_form import one_observation
from rookery.kernel.plain_values import PlainRecord
from rookery.kernel.runner import Runner, seed_key
from rookery.kernel.world import KernelWorld
from rookery.user_code import file_here, load_file, written_in

SAVED = ("states", "params", "observations", "infos")  # the arrays that `get_state` returns


class KernelEnv(gym.Env):
    """One env of a kernel world. It returns the same numbers as in a batch of any size.

    Args:
        world: A KernelWorld class or instance; or a name, as `rookery.make_vec` takes it: the id of a kernel world,
            "file.py:Class", or "package.module:Class".
        render_mode: One of the world's render modes.
        plain: Run the world's functions as plain Python, to debug them.
        bounds: Whether indices in compiled code are checked; None: as in `rookery.make_vec`.
        **parameters: The world's parameters, if `world` is not an instance.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("rookery/CartPole-v1", gravity=1.6)
        >>> observation, info = env.reset(seed=3)
        >>> observation, reward, terminated, truncated, info = env.step(1)
        >>> reward, terminated, truncated
        (1.0, False, False)
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 50}  # each instance has its world's own
    _is_view = False  # whether it is an env of a batch, over the batch's arrays

    def __init__(
        self,
        world: Any,
        render_mode: str | None = None,
        plain: bool = False,
        bounds: bool | None = None,
        **parameters: Any,
    ) -> None:
        allow_given(world)
        world = find_world(world, parameters)
        if world.num_agents > 1:
            raise WorldError(
                f"{world.name} has {world.num_agents} agents, and a Gymnasium env has one: "
                "use rookery.make_vec with backend='kernel', or rookery.kernel.parallel_env.KernelParallelEnv"
            )
        self._setup(EnvArrays(world, 1), render_mode, plain, bounds=bounds)

    @classmethod
    def from_arrays(
        cls, env_arrays: EnvArrays, render_mode: str | None, like: Runner | None = None, plain: bool = False
    ) -> KernelEnv:
        """An env over existing arrays of one env. It uses the compiled code of the runner `like`, or plain Python."""
        env = cls.__new__(cls)
        env._is_view = True
        env._setup(env_arrays, render_mode, plain, like)
        return env

    def _setup(
        self,
        env_arrays: EnvArrays,
        render_mode: str | None,
        plain: bool,
        like: Runner | None = None,
        bounds: bool | None = None,
    ) -> None:
        world = env_arrays.world
        modes = world.metadata.get("render_modes", [])
        if render_mode is not None and render_mode not in modes:
            raise WorldError(f"{world.name} has no render_mode {render_mode!r}; its render modes are {modes}")
        self.world, self._env_arrays, self._plain, self._bounds = world, env_arrays, plain, bounds
        # Copies: a space has a random generator, which two envs must not share.
        self.observation_space, self.action_space = deepcopy(world.observation_space), deepcopy(world.action_space)
        self.metadata, self.render_mode = dict(world.metadata), render_mode
        for name, value in world.render_parameters.items() if render_mode is not None else ():
            env_arrays.params[name] = value
        self._runner = Runner(env_arrays, DISABLED, plain=plain, like=like, bounds=bounds)

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode. `options` may hold values for the world's parameters; they stay until set again."""
        super().reset(seed=seed)
        if options:
            self.set_parameters(**options)
        if seed is not None or not self._env_arrays.states["episode"][0]:
            self._env_arrays.states[0] = np.zeros((), self._env_arrays.states.dtype)
            self._env_arrays.states["seed"] = seed_key(seed) if seed is not None else self.np_random.integers(2**31)
        if self._runner.reset([0]) & FAULT:
            raise self._runner.fault_to_exception(0)
        self._show()
        return self._observation(), (self._info() if self.world.informs_at_reset else self._masks())

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        env_arrays = self._env_arrays
        env_arrays.actions[0] = self._checked(action)
        self._runner.start_batch_step()
        if self._runner.step(0, 1) & FAULT:
            raise self._runner.fault_to_exception(0)
        self._show()
        ends = bool(env_arrays.terminated[0]), bool(env_arrays.truncated[0])
        return self._observation(), float(env_arrays.rewards[0]), *ends, self._info()

    def note_seed(self, seed: int) -> None:
        """Make `np_random` and `np_random_seed` those of `reset(seed=seed)`, for an env that was reset in a batch."""
        if self._np_random_seed != seed:
            self._np_random, self._np_random_seed = seeding.np_random(seed)

    def _checked(self, action: Any) -> np.ndarray:
        """An action as an array of the space's shape and type; NumPy alone would broadcast, round or wrap it."""
        array, wanted = np.asarray(action), self._env_arrays.actions
        if array.shape == wanted.shape[1:] and np.can_cast(array.dtype, wanted.dtype, "same_kind"):
            cast = array.astype(wanted.dtype)
            if wanted.dtype.kind == "f" or np.array_equal(cast, array):
                return cast
        raise SpaceError(f"action {action!r} is not in {self.action_space}")

    def render(self) -> Any:
        """A picture of the env's current state."""
        if self.render_mode is None:
            gym.logger.warn("render() was called on an env made without a render_mode")
            return None
        return self._picture()

    def close(self) -> None:
        close = getattr(self.world, "close", None)
        if close is not None:
            close()

    # --- state and parameters -----------------------------------------------------------------------------------

    @property
    def state(self) -> PlainRecord:
        """The env's state, not a copy: its fields can be read and set as attributes."""
        return PlainRecord(self._env_arrays.states[0])

    @property
    def parameters(self) -> dict[str, Any]:
        """The world's current parameters."""
        params = self._env_arrays.params
        return {
            name: params[name][0].copy() if self.world.parameter_shape(name) else params[name][0].item()
            for name in self.world.values
        }

    def set_parameters(self, **values: Any) -> None:
        """Change parameters. The next step uses them."""
        for name, value in self.world.encode(values).items():
            self._env_arrays.params[name] = value

    def set_tables(self, **tables: Any) -> None:
        """Replace arrays of the world's tables. If one becomes shorter, call `reset` before the next step."""
        if self._is_view:
            raise UsageError("the envs of a batch share their tables: call set_tables of the vector env itself")
        self.world = self.world.with_tables(**tables)
        self._env_arrays.replace_tables(self.world)
        self._runner.refresh()

    def get_wrapper_attr(self, name: str) -> Any:
        """An attribute or a parameter of the world."""
        known = self.world.aliases.get(name, name)
        return self.parameters[known] if known in self.world.values else super().get_wrapper_attr(name)

    def set_wrapper_attr(self, name: str, value: Any, *, force: bool = True) -> bool:
        """Set an attribute or a parameter of the world."""
        if self.world.aliases.get(name, name) not in self.world.values:
            return super().set_wrapper_attr(name, value, force=force)
        self.set_parameters(**{name: value})
        return True

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that is needed to continue from here, as arrays; and a hash of the world's tables."""
        saved = {name: np.frombuffer(self._env_arrays.arrays[name].tobytes(), np.uint8) for name in self._saved}
        return saved | self._tables_mark()

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from what `get_state` returned."""
        mark = self._tables_mark()
        if sorted(state) != sorted([*self._saved, *mark]):
            raise StateError(
                f"a state of {self.world.name} should hold {', '.join([*self._saved, *mark])}, got {', '.join(state)}"
            )
        if mark and not np.array_equal(state["tables"], mark["tables"]):
            raise StateError(
                f"the state of {self.world.name} was saved with other tables than it has now: use the same"
            )
        for name in self._saved:
            saved = state[name]
            array = self._env_arrays.arrays[name]
            if saved.nbytes != array.nbytes:
                raise StateError(f"the saved {name} of {self.world.name} have a different size: the world has changed")
            array[...] = np.frombuffer(saved.tobytes(), array.dtype).reshape(array.shape)

    @property
    def _saved(self) -> tuple[str, ...]:
        return (*SAVED, "memory") if self.world.memory else SAVED

    def _tables_mark(self) -> dict[str, np.ndarray]:
        if not self.world.tables:
            return {}
        facts = json.dumps(self.world.table_facts, sort_keys=True).encode()
        return {"tables": np.frombuffer(hashlib.sha256(facts).digest(), np.uint8)}

    def __getstate__(self) -> dict[str, Any]:
        made = {"world": self.world, "render_mode": self.render_mode, "plain": self._plain, "bounds": self._bounds}
        return {**made, "state": self.get_state()}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        state = saved.pop("state")
        self.__init__(**saved)  # type: ignore[misc]
        self.set_state(state)

    def _observation(self) -> Any:
        return one_observation(self.observation_space, self._env_arrays.observations[0])

    def _info(self) -> dict[str, Any]:
        return {name: self._env_arrays.infos[name][0].copy() for name in self.world.info} | self._masks()

    def _masks(self) -> dict[str, Any]:
        return {} if self.world.action_mask is None else {"action_mask": self._env_arrays.masks[0].copy()}

    def _show(self) -> None:
        if self.render_mode == "human":
            self._picture()

    def _picture(self) -> Any:
        memory = {"memory": self._env_arrays.memory[0]} if self.world.memory else {}
        params = PlainRecord(self._env_arrays.params[0])
        return self.world.render(self.state, params, self.render_mode or "rgb_array", **memory)


def find_world(world: Any, parameters: dict[str, Any] | None = None) -> KernelWorld:
    """A world from an instance, a class, a function that makes one, a registered id, "file.py:Name", or an import path
    ("package.module:Name")."""
    if isinstance(world, KernelWorld):
        if parameters:
            raise WorldError(
                f"parameters {', '.join(parameters)} were given with an instance of {world.name}: give its class, or "
                "set them when the instance is made"
            )
        return world
    if isinstance(world, str):
        if world in gym.registry:
            return _world_of_id(world, parameters or {})
        world = _named_by(world)
    made = world(**(parameters or {})) if callable(world) else world
    if not isinstance(made, KernelWorld):
        raise WorldError(f"{world!r} is not a KernelWorld")
    if not hasattr(made, "values"):
        raise WorldError(f"{made.name}.__init__ should call super().__init__(**parameters)")
    return made


def _named_by(place: str) -> Any:
    """The class or function that a string names."""
    if ".py:" in place:
        return _in_file(place)
    return registered_world(place) if place in _registered() else _class_at(place)


def _in_file(place: str) -> Any:
    """The class "file.py:Name", or the function, if it is written in that file."""
    path, _, name = place.rpartition(":")
    if not file_here(path).is_file():
        raise WorldError(f"{place!r}: there is no file {path!r}")
    found = getattr(load_file(path), name, None)
    if not (isinstance(found, type) and issubclass(found, KernelWorld)) and not written_in(path, found):
        raise WorldError(
            f"{place!r} is not a kernel world: it should be a subclass of KernelWorld, or a function in that file that "
            "returns one"
        )
    return found


def _world_of_id(world: str, parameters: dict[str, Any]) -> KernelWorld:
    """The kernel world behind an id in Gymnasium's registry, with the time limit of its registration."""
    spec = gym.spec(world)
    options = {**spec.kwargs, **parameters}
    if "world" not in spec.kwargs or not (
        spec.entry_point is KernelEnv or str(spec.entry_point).endswith(":KernelEnv")
    ):
        raise WorldError(f"{world} is not a kernel world: gymnasium.make({world!r}) makes it")
    if "world" in parameters:
        raise WorldError(f"{world}: an option cannot name another world, got world={parameters['world']!r:.60}")
    made = find_world(registered_world(options.pop("world")), options)
    if spec.max_episode_steps is not None:
        made.values["time_limit"] = min(spec.max_episode_steps, made.values["time_limit"] or spec.max_episode_steps)
    return made


def registered_world(world: Any) -> Any:
    """The class or function behind the import path of a kernel world in Gymnasium's registry."""
    if not isinstance(world, str):
        return world
    module, _, name = world.partition(":")
    return getattr(import_module(module), name)


def _registered() -> set[str]:
    """Import paths in Gymnasium's registry. These may name a function; any other path must name a class, because a
    function that an untrusted string names must not be called."""
    named = (spec.kwargs.get("world") for spec in gym.registry.values())
    return {world for world in named if isinstance(world, str)}


def _class_at(place: str) -> type[KernelWorld]:
    module, _, name = place.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except (ImportError, ValueError, TypeError) as error:
        raise WorldError(f"{place!r}: this world cannot be imported ({error})") from None
    if not isinstance(found, type) or not issubclass(found, KernelWorld):
        raise WorldError(f"{place!r} is not a subclass of KernelWorld: only such a class may be given by its path")
    return found
