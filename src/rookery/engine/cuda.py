"""The CUDA backend: a kernel world's envs on a GPU, one thread per env. Steps copy nothing from or to the GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rookery.engine import seeding
from rookery.engine.async_calls import AsyncCalls
from rookery.engine.device_envs import CopiedEnvs, StagedParameters, copied_columns
from rookery.engine.env_factory import EnvFactory, EnvFromWorld
from rookery.engine.kernel import MODES
from rookery.engine.kernel_envs import compiled_world, encode_many, env_numbers, is_per_env, per_env_parameters
from rookery.engine.machine import process_usage
from rookery.engine.settings import Settings, masked_worlds, plain_int, positive_int, without_mask
from rookery.errors import BadValue, OptionError, SpaceError, StateError, UsageError
from rookery.kernel.cuda_runtime import DeviceArrays, KernelLauncher, find_device
from rookery.kernel.declarations import Simulation
from rookery.kernel.env_loop import OVER, RUNNING
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.runner import seed_key, value_fault_to_exception
from rookery.kernel.tables import check_same, shrinks

NOT_IN_PARTS = "backend='cuda' steps all envs at once, and has no groups: use step(actions)"
STAGED = ("next_params", "staged")
SAVED = ("states", "memory", "params", *STAGED, "infos", "observations", "rewards", "terminated", "truncated", "masks")


class CudaEngine(AsyncCalls):
    """The methods of `Engine`, with actions and results as torch tensors on a GPU.

    - `step(actions)` reads the caller's tensor without a copy and runs on the caller's stream. It returns views that
      the next step overwrites (`copy=True` returns copies).
    - It can be captured in a CUDA graph, if `can_be_captured`. While capturing, no error can be raised: call `check()`
      now and then. Outside a graph every step is checked, which waits for the GPU (not with `bad_values="allow"`).
    - In SAME_STEP mode `infos["final_obs"]` holds the last observation of each row whose episode ended in this step,
      and is undefined in the others. `last_returns` and `last_lengths` are those of each row's last finished episode.
    - `reset_with` keeps parameters on the device, where episodes take them up when they begin, also in a CUDA graph.
    - What would need the CPU in every step raises a UsageError: `finished_episodes`, `send`, `recv`.
    """

    backend = "cuda"
    returns_tensors = True
    on_note: Callable[[str], None] | None = None  # never called: this backend accepts nothing that it should mention

    def __init__(self, source: EnvFactory, settings: Settings, device: str | None = None) -> None:
        kernel = compiled_world(source, settings, self.backend)
        if settings.groups > 1 or settings.batch_size is not None:
            raise OptionError("backend='cuda' steps all envs at once: omit groups and batch_size")
        if "restart" in (settings.bad_values, settings.on_failure):
            raise OptionError(
                "backend='cuda' cannot restart envs: use bad_values='raise' or 'allow', on_failure='raise'"
            )
        self.world, self.settings, self.source = kernel.world, settings, source
        self.agents, self.device = kernel.world.num_agents, find_device(device or settings.device)
        self.single_observation_space, self.single_action_space = (
            kernel.world.observation_space,
            kernel.world.action_space,
        )
        self.metadata = {**kernel.world.metadata, "autoreset_mode": settings.autoreset_mode}
        self.render_mode, self.spec = kernel.render_mode, kernel.spec
        self._mode, self._strict = MODES[settings.autoreset_mode], settings.bad_values != "allow"
        self._root_seed = seeding.fresh_entropy()
        self._seeds: dict[int, int] = {}  # what each env was last seeded with
        self._steps = 0
        self._allocate(settings.num_envs)

    def _allocate(self, num_worlds: int) -> None:
        """New arrays for this number of envs."""
        self.num_worlds, self.num_envs = num_worlds, num_worlds * self.agents
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.arena = DeviceArrays(self.world.on_device(num_worlds, self.device), num_worlds, self.device)
        self._launcher = KernelLauncher(self.arena, self.settings.bounds)
        self.staging = StagedParameters(self.arena, self._launcher.refresh)
        self._actions = self.arena.tensors["actions"]
        self._action_dtype = self.arena.tensors["actions"].dtype
        self._action_shape = (self.num_envs, *(self.single_action_space.shape or ()))

    @property
    def can_be_captured(self) -> bool:
        """Results lie at addresses that stay, and a step never waits for the GPU. But a simulation's step is a CUDA
        graph already."""
        return self._simulation is None

    @property
    def _simulation(self) -> Simulation | None:
        return self.arena.world.simulation

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`. Other options are values for the world's parameters."""
        options, mask = without_mask(options)
        mask = mask.cpu() if isinstance(mask, torch.Tensor) else mask
        everything = np.ones(self.num_worlds, np.bool_)
        wanted = everything if mask is None else masked_worlds(mask, self.num_envs, self.agents)
        if options:
            self.staging.apply(torch.from_numpy(wanted).to(self.device))
            self.set_parameters(envs=np.flatnonzero(wanted), **options)
        root = seeding.root_of(seed)
        self._root_seed = self._root_seed if root is None else root
        self._seed(wanted, seeding.env_seeds(seed, self.num_worlds))
        self._launcher.reset(torch.from_numpy(wanted).to(self.device), self._strict)
        if self._strict:
            self.check()
        return self._observations(), self.infos()

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, dict]:
        """Step all envs once."""
        results = self._step(actions)
        if self._strict and not self._capturing():
            self.check()
        if self.settings.copy:
            results = [part.clone() for part in results]
        return self._observations(), *results, self.infos()

    def step_for_learner(self, actions: torch.Tensor) -> tuple[Any, ...]:
        """Observations, rewards and flags as `step` returns them, and the final observations in the place of infos,
        whose flags take a kernel in every step. It never waits for the GPU: call `check()` now and then."""
        results = self._step(actions)
        return self._observations(), *results, self._rows_of("finals")

    def _step(self, actions: torch.Tensor) -> list[torch.Tensor]:
        self._actions = self._checked(actions)
        self._launcher.step(self._actions, self._mode, self._strict)
        self._steps += self.num_worlds
        return [self.arena.tensors[name] for name in ("rewards", "terminated", "truncated")]

    def check(self) -> None:
        """Raise what went wrong since the last check: a bad action, NaN, a value outside the space. Waits for the
        GPU."""
        if not self._launcher.any_fault.item():
            return
        self._launcher.any_fault.zero_()
        host = copied_columns(self.arena, ("faults", "failures", "rewards", "observations", "states"))
        host.arrays["actions"][...] = self._actions.cpu().numpy()
        self.arena.tensors["faults"].zero_()
        for env in np.flatnonzero(host.faults).tolist():
            error = value_fault_to_exception(host, env)
            if isinstance(error, (BadValue, SpaceError)):
                error.args = (f"env {env}, step {host.states['steps'][env]} of its episode: {error}",)
            raise error

    def call_some(self, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The attribute `name` of some envs or, if it is callable, what it returns: of copies of the envs on the CPU,
        whose state and parameters are then written to the GPU."""
        copies, results = CopiedEnvs(self.arena), []
        for row in rows:
            if not 0 <= row < self.num_envs:
                raise OptionError(f"there is no env {row}: there are {self.num_envs}")
            env = KernelEnv.from_arrays(copies.arrays.view(row // self.agents), self.render_mode, plain=True)
            if row // self.agents in self._seeds:
                env.note_seed(self._seeds[row // self.agents])
            found = env.get_wrapper_attr(name)
            results.append(found(*args, **kwargs) if callable(found) else found)
        copies.write_back()
        return tuple(results)

    def set_attr(self, name: str, values: Any) -> None:
        """Set a parameter of each env: a list or tuple gives one value per row, anything else goes to all."""
        if not isinstance(values, (list, tuple)):
            return self.set_parameters(**{name: values})
        return super().set_attr(name, values)

    def set_some(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """`set_attr` for some envs only."""
        value_of = {row // self.agents: value for row, value in zip(rows, values, strict=True)}
        self.set_parameters(envs=list(value_of), **{name: list(value_of.values())})

    def is_wrapped(self, wrapper: type, rows: Sequence[int] | None = None) -> tuple[bool, ...]:
        """False for each env: kernel worlds have no wrappers."""
        return (False,) * (self.num_envs if rows is None else len(rows))

    # --- beyond it ----------------------------------------------------------------------------------------------

    @property
    def last_returns(self) -> torch.Tensor:
        """The return of the episode that each row finished last."""
        return self.arena.tensors["last_returns"]

    @property
    def last_lengths(self) -> torch.Tensor:
        """The length of the episode that each row finished last."""
        return self.arena.tensors["last_lengths"]

    def present(self) -> tuple[Any, torch.Tensor | None]:
        """The observations of all envs and their action masks, or None, where every step leaves them."""
        mask = self.arena.tensors["masks"].bool() if self.world.action_mask is not None else None
        return self._observations(), mask

    def episodes_begun(self) -> torch.Tensor:
        """How many episodes each row has begun; the one that is running counts."""
        begun = self.arena.state_field("episode").to(torch.int64)
        return begun.repeat_interleave(self.agents)

    def final_infos(self) -> dict[str, torch.Tensor]:
        """The infos of the last step of the episode that each row finished last."""
        return {name: self.arena.field("final_infos", name) for name in self.world.info}

    def device_state(self) -> list[torch.Tensor]:
        """All tensors that a step changes."""
        simulated = [] if self._simulation is None else self._simulation.arrays.values()
        return [*self.arena.tensors.values(), *self._launcher.notes, *simulated]

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The world's parameters as they are now, one value per env."""
        return per_env_parameters(self.arena.host("params"), self.num_worlds)

    def set_parameters(self, envs: Any = None, **values: Any) -> None:
        """Change parameters from the next step on: of all envs or of some, with one value or one per env. A CUDA graph
        that was captured before must be captured again if this is the first time that envs differ."""
        envs = env_numbers(envs, self.num_worlds)
        params = encode_many(self.world, values, len(envs))
        differ = len(envs) < self.num_worlds or any(is_per_env(self.world, *item) for item in params.items())
        if differ and len(self.arena.tensors["params"]) < self.num_worlds:
            self.arena.spread_params()
            self._launcher.refresh()
        records = self.arena.host("params")
        for name, value in params.items():
            shared = slice(None) if is_per_env(self.world, name, value) else 0
            records[name][envs if len(records) > 1 else shared] = value
        self.arena.put("params", records)
        self.staging.rebase()

    def set_tables(self, **tables: Any) -> None:
        """Replace arrays of the world's tables, without compiling again. If one becomes shorter, call `reset` before
        the next step. A CUDA graph that was captured before must be captured again."""
        before, self.world = self.world.tables, self.world.with_tables(**tables)
        if shrinks(before, self.world.tables):
            states = self.arena.host("states")
            states["stage"][states["stage"] == RUNNING] = OVER
            self.arena.put("states", states)
        self.arena.use_tables_of(self.arena.world.with_tables(**{name: self.world.tables[name] for name in tables}))
        self._launcher.refresh()
        self.source = replace(self.source, makers=(EnvFromWorld(self.world),))

    @property
    def workers(self) -> int:
        return 1

    @property
    def restarts(self) -> int:
        """0: this backend restarts no envs."""
        return 0

    def stats(self) -> list[dict[str, Any]]:
        """As in other backends, for this process; steps that a CUDA graph replays are not counted."""
        usage = process_usage(os.getpid())
        return [{**usage, "worker": 0, "envs": self.num_envs, "steps": self._steps}]

    def resize(self, num_envs: int) -> None:
        """Change the number of envs (worlds, with several agents). Envs that stay keep their state; new ones must be
        reset before they are stepped. A CUDA graph that was captured before must be captured again."""
        num_envs = plain_int(num_envs)
        positive_int("num_envs", num_envs)
        if num_envs == self.num_worlds:
            return
        old, kept = self.arena, min(self.num_worlds, num_envs)
        self._allocate(num_envs)
        if old.per_env or len(old.tensors["params"]) > 1:
            self.arena.spread_params()
            self._launcher.refresh()
        for name in (*SAVED, "final_infos", "finals", "final_masks", "last_returns", "last_lengths"):
            mine, before = self.arena.host(name), old.host(name)
            rows = kept if len(before) in (1, old.num_envs) else kept * self.agents
            mine[:rows] = before[:rows]
            self.arena.put(name, mine)
        if self._simulation is not None and old.world.simulation is not None:
            states = self._simulation.read_states()
            states[:kept] = old.world.simulation.read_states()[:kept]
            self._simulation.write_states(states)

    def finished_episodes(self) -> np.ndarray:
        """Not on this backend: see the message."""
        raise UsageError(
            "backend='cuda' lists no finished episodes, as it would wait for the GPU in every step: read "
            "last_returns and last_lengths of the rows that are terminated or truncated"
        )

    def reset_with(self, options: Mapping[int, dict[str, Any]]) -> None:
        """As in other backends; options are values of the world's parameters. With several agents, keys are numbers of
        worlds. A CUDA graph that was captured before must be captured again if this is the first time that envs
        differ."""
        self.staging.stage(options)

    @property
    def groups(self) -> tuple[Any, ...]:
        """Not on this backend: see the message."""
        raise UsageError(NOT_IN_PARTS)

    def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Not on this backend: see the message."""
        raise UsageError(NOT_IN_PARTS)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Not on this backend: see the message."""
        raise UsageError(NOT_IN_PARTS)

    def state_dict(self, portable: bool = True) -> dict[str, Any]:
        """Everything needed to continue exactly from here; always NumPy arrays and plain values."""
        return {
            "format": 1,
            "portable": True,
            "num_envs": self.num_envs,
            "autoreset_mode": self.settings.autoreset_mode.name,
            "root_seed": self._root_seed,
            "world": self.world.name,
            "tables": self.world.table_facts,
            "arrays": {name: self.arena.saved(name) for name in SAVED} | self._simulated_states(),
        }

    def _simulated_states(self) -> dict[str, np.ndarray]:
        return {} if self._simulation is None else {"simulation": self._simulation.read_states()}

    def load_state_dict(self, state: dict[str, Any]) -> torch.Tensor:
        """Continue from a `state_dict()`; returns the observations held then."""
        mode = self.settings.autoreset_mode.name
        for name, mine in (("num_envs", self.num_envs), ("autoreset_mode", mode), ("world", self.world.name)):
            if state.get(name) != mine:
                raise StateError(f"the state was saved with {name}={state.get(name)!r}, this engine has {mine!r}")
        check_same(self.world.name, state.get("tables"), self.world.table_facts)
        if len(state["arrays"]["params"]) > 1:
            self.arena.spread_params()
            self._launcher.refresh()
        for name in SAVED:
            if name in state["arrays"] or name not in (*STAGED, "memory"):  # which earlier versions did not save
                self.arena.load(name, state["arrays"][name])
        if self._simulation is not None:
            self._simulation.write_states(state["arrays"]["simulation"])
        self._root_seed = state["root_seed"]
        return self._observations()

    # --- helpers ------------------------------------------------------------------------------------------------

    def _seed(self, wanted: np.ndarray, seeds: Sequence[int | None]) -> None:
        """Set new state in the envs with a seed, and in those that never had one."""
        states = self.arena.host("states")
        fresh = (states["seed"] == 0) & (states["episode"] == 0) & wanted
        given = np.array([seed is not None for seed in seeds]) & wanted
        if not (fresh | given).any():
            return
        for env in np.flatnonzero(fresh | given).tolist():
            given_seed = seeds[env]
            seed = self._seeds[env] = seeding.fresh_entropy() if given_seed is None else given_seed
            states[env] = np.zeros((), states.dtype)
            states["seed"][env] = seed_key(seed)
        self.arena.put("states", states)

    def _checked(self, actions: Any) -> torch.Tensor:
        if not isinstance(actions, torch.Tensor):
            actions = torch.as_tensor(np.asarray(actions), device=self.device)
        if tuple(actions.shape) != self._action_shape:
            raise SpaceError(f"actions should have shape {self._action_shape}, got {tuple(actions.shape)}")
        if actions.device.type != self.device.type:
            raise UsageError(f"actions are on {actions.device}, the envs on {self.device}: move them first")
        if actions.dtype != self._action_dtype:
            if actions.dtype.is_floating_point and not self._action_dtype.is_floating_point:
                raise SpaceError(f"actions should have dtype {self._action_dtype}, got {actions.dtype}")
            actions = actions.to(self._action_dtype)
        actions = actions.contiguous()
        return actions if self.agents == 1 else actions.reshape(self.num_worlds, self.agents, *actions.shape[1:])

    def _observations(self) -> Any:
        observations = self._rows_of("observations")
        if isinstance(observations, dict):
            return _copied(observations) if self.settings.copy else observations
        observations = observations if self.single_observation_space.shape else observations.reshape(-1)
        return observations.clone() if self.settings.copy else observations

    def _rows_of(self, name: str) -> Any:
        """A column of observations: a tensor, or a dict of tensors that share the memory of records."""
        if isinstance(self.single_observation_space, spaces.Dict):
            return {key: self.arena.field(name, key) for key in self.single_observation_space.spaces}
        return self.arena.tensors[name]

    def infos(self) -> dict[str, Any]:
        """The infos of the latest step or reset."""
        tensors, infos = self.arena.tensors, dict[str, Any]()
        info_mask = tensors["info_mask"].repeat_interleave(self.agents) if self.agents > 1 else tensors["info_mask"]
        for name in self.world.info:
            infos[name], infos[f"_{name}"] = self.arena.field("infos", name), info_mask
        if self.world.action_mask is not None:
            infos["action_mask"] = tensors["masks"]
        if self.settings.autoreset_mode is AutoresetMode.SAME_STEP:
            infos["final_obs"] = self._rows_of("finals")
            infos["_final_obs"] = tensors["terminated"] | tensors["truncated"]
            infos["final_info"] = {name: self.arena.field("final_infos", name) for name in self.world.info}
        if self.settings.copy:
            infos = _copied(infos)
        return infos

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing to do: torch frees the arrays."""

    def _capturing(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _copied(infos: dict[str, Any]) -> dict[str, Any]:
    return {key: _copied(part) if isinstance(part, dict) else part.clone() for key, part in infos.items()}
