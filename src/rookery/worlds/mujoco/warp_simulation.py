"""The robots of all envs on a GPU, simulated by mujoco-warp. Import it late: it needs torch and mujoco-warp.

Its arrays are shared with torch, so that the world's own kernels read and write them where they are. A step of the
envs is one CUDA graph of its kernels: there are a hundred or more, and to start them one by one from Python would take
longer than they run. On the CPU (device="cpu", for tests) they are started one by one.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import torch

from rookery.console import waiting
from rookery.errors import MissingExtra, OptionError
from rookery.once import once
from rookery.worlds.mujoco.mujoco_library import load
from rookery.worlds.mujoco.physics_memory import OPTION_FIELDS, STATE_FIELDS, mentioned, model_array

# The parts of a complete state, in the order of `mj_getState`.
STATE_PARTS = (
    "time", "qpos", "qvel", "act", "history", "qacc_warmstart", "ctrl", "qfrc_applied", "xfrc_applied", "eq_active",
    "mocap_pos", "mocap_quat", "userdata", "plastic",
)  # fmt: skip
TRIAL_STEPS = 2000  # of the simulation, with random controls: how many contacts and constraints a robot has
SPARE = 2.0  # memory for so many times as many


class WarpSimulation:
    """Implements rookery.kernel.declarations.Simulation."""

    state_field = "physics"

    def __init__(self, world: Any, num_envs: int, device: torch.device) -> None:
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        self._world, self._envs, self._device = world, num_envs, device
        self._warp, self._engine = load_warp()
        self.own_model_fields = [field.name for field in world.configured_fields]  # each env has its own
        self.settles = bool(settled_fields(world))
        self.differences = [
            "single precision",
            "friction pyramids that may be turned in other directions",
            "sums in no fixed order, so that the same seed does not give the same numbers twice",
        ]
        with self._warp.ScopedDevice(self._warp.device_from_torch(device)):
            self._model = self._put_model()
            self._data = self._make_data()
            self._first = self._make_data() if self.settles else None
            self._parts = {name: self._tensor(getattr(self._data, name)) for name in STATE_PARTS}
            self.arrays = self._make_arrays()
            self._restore()
            self._advance, self._settle = self._prepared(self._step), self._prepared(self._compute_first)
            self._restore()

    # --- as a simulation ------------------------------------------------------------------------------------------

    def advance(self) -> None:
        self._advance()

    def settle(self) -> None:
        if self.settles:
            self._settle()

    def read_states(self) -> np.ndarray:
        states = torch.cat([part.reshape(self._envs, -1).double() for part in self._parts.values()], dim=1)
        if states.shape[1] != self._world.state_size:
            raise OptionError(f"{self._world.name}: mujoco-warp keeps another state than MuJoCo (plugins have one)")
        return states.cpu().numpy()

    def write_states(self, states: np.ndarray) -> None:
        sizes = [part[0].numel() for part in self._parts.values()]
        given = torch.from_numpy(np.ascontiguousarray(states)).split(sizes, dim=1)
        for part, values in zip(self._parts.values(), given, strict=True):
            part.copy_(values.reshape(part.shape).to(part.dtype))

    # --- its memory -----------------------------------------------------------------------------------------------

    def _put_model(self) -> Any:
        warp, engine, world = self._warp, self._engine, self._world
        own = {name: self._envs for name in self.own_model_fields if name not in OPTION_FIELDS}
        try:
            model = engine.put_model(self._supported_model(), batch_sizes=own)
        except (NotImplementedError, ValueError) as error:
            raise OptionError(
                f"{world.name}: mujoco-warp cannot simulate its model: {error}; use backend='kernel'"
            ) from None
        for name in set(self.own_model_fields) & set(OPTION_FIELDS):
            rows = np.tile(getattr(world.model.opt, name), (self._envs, 1)).astype(np.float32)
            shared = getattr(model.opt, name)
            setattr(model.opt, name, warp.array(rows, dtype=shared.dtype))
            getattr(model.opt, name)._is_batched = True  # as in those that it makes itself
        model.opt.warn_overflow = 0  # it would print; the world reports it as an error of the env
        return model

    def _supported_model(self) -> Any:
        """The model, with a solver that mujoco-warp has."""
        model, solver = self._world.model, load().package.mjtSolver
        if model.opt.solver == solver.mjSOL_PGS:
            model = copy(model)
            model.opt.solver = solver.mjSOL_NEWTON
            self.differences.append("Newton's solver in place of PGS")
        return model

    def _make_data(self) -> Any:
        contacts, constraints = room(self._world)
        return self._engine.make_data(self._world.model, nworld=self._envs, nconmax=contacts, njmax=constraints)

    def _tensor(self, array: Any) -> torch.Tensor:
        if 0 in array.shape:
            return torch.zeros((self._envs, 0), device=self._device)
        return self._warp.to_torch(array)

    def _make_arrays(self) -> dict[str, torch.Tensor]:
        """What the world's functions read and write, each with one row per env, or with one row for all of them."""
        world, arrays = self._world, dict[str, torch.Tensor]()
        for field in world.data_fields:
            arrays[f"mj_data_{field.name}"] = self._rows(getattr(self._data, field.name), field.shape)
            if self._first is not None and field.name not in STATE_FIELDS:
                arrays[f"mj_first_{field.name}"] = self._rows(getattr(self._first, field.name), field.shape)
        for field in world.model_fields:
            if field.name in self.own_model_fields:
                holder = self._model.opt if field.name in OPTION_FIELDS else self._model
                rows = self._rows(getattr(holder, field.name), field.shape)
                arrays[f"mj_model_{field.name}"] = rows
                flat = rows.view(self._envs, math.prod(field.shape))
                arrays[f"mj_own_{field.name}"], arrays[f"mj_original_{field.name}"] = flat, flat[:1].clone()
            else:
                shared = model_array(world.model, field.name)
                arrays[f"mj_model_{field.name}"] = torch.from_numpy(np.array(shared)[None]).to(self._device)
        start = load().package.MjData(world.model)
        for name, part in self._parts.items():
            if part[0].numel():
                first = np.asarray(getattr(start, name)).reshape(1, -1)
                arrays[f"mj_state_{name}"] = part.view(self._envs, -1)
                arrays[f"mj_start_{name}"] = torch.from_numpy(first.copy()).to(self._device, part.dtype)
        arrays["mj_overflow"] = self._tensor(self._data.overflow).view(self._envs, 1)
        return arrays

    def _rows(self, array: Any, shape: tuple[int, ...]) -> torch.Tensor:
        """An array with a row per env, each as MuJoCo has it."""
        tensor = self._tensor(array)
        return tensor.view(self._envs, *shape) if tensor.numel() else tensor.new_zeros((self._envs, *shape))

    def _restore(self) -> None:
        """The model's initial state in all envs."""
        for name in self._parts:
            if f"mj_state_{name}" in self.arrays:
                self.arrays[f"mj_state_{name}"].copy_(self.arrays[f"mj_start_{name}"].expand(self._envs, -1))
        self.arrays["mj_overflow"].zero_()

    # --- its work -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        for _ in range(self._world.frame_skip):
            self._engine.step(self._model, self._data)
        if self._world.needs_forces:
            self._engine.rne_postconstraint(self._model, self._data)

    def _compute_first(self) -> None:
        """All that follows from the states, in memory of its own: the other envs keep what their last step left."""
        if self._first is None:
            return
        for name in STATE_PARTS:
            if 0 not in getattr(self._data, name).shape:
                self._warp.copy(getattr(self._first, name), getattr(self._data, name))
        self._engine.forward(self._model, self._first)

    def _prepared(self, work: Any) -> Any:
        """The work as a function without arguments, after its kernels were compiled: on a GPU, one CUDA graph."""
        warp, name = self._warp, self._world.name
        with waiting(f"preparing mujoco-warp for {name} (its kernels are compiled once on this machine)"):
            work()
            warp.synchronize_device()
        if self._device.type == "cpu":
            return work
        with warp.ScopedCapture() as capture:
            work()

        def launch() -> None:
            warp.capture_launch(capture.graph, stream=warp.stream_from_torch(torch.cuda.current_stream(self._device)))

        return launch


def settled_fields(world: Any) -> list[str]:
    """The arrays beyond the state that are read of an episode's first state."""
    hooks = world.hooks()
    names = mentioned([hooks[name] for name in ("after_reset", "observe") if name in hooks])
    return [field.name for field in world.data_fields if field.name in names and field.name not in STATE_FIELDS]


def room(world: Any) -> tuple[int, int]:
    """For how many contacts and constraints an env needs memory: as the class says, or twice what a robot with random
    controls has at most."""
    if world.gpu_contacts and world.gpu_constraints:
        return world.gpu_contacts, world.gpu_constraints
    package, model = load().package, world.model
    data, random = package.MjData(model), np.random.default_rng(0)
    low, high = np.where(model.actuator_ctrllimited[:, None] > 0, model.actuator_ctrlrange, [-1.0, 1.0]).T
    contacts = constraints = 0
    for step in range(TRIAL_STEPS):
        if step % world.frame_skip == 0:
            data.ctrl[:] = random.uniform(low, high)
        package.mj_step(model, data)
        contacts, constraints = max(contacts, data.ncon), max(constraints, data.nefc)
    return (
        world.gpu_contacts or 16 + int(SPARE * contacts),
        world.gpu_constraints or 32 + int(SPARE * constraints),
    )


NEEDED = ("put_model", "make_data", "step", "forward", "rne_postconstraint", "OverflowType")


class WarpLibrary(NamedTuple):
    """The packages `warp` and `mujoco_warp`."""

    warp: Any
    engine: Any


@once
def load_warp() -> WarpLibrary:
    """The library, without its lines about every kernel that it loads."""
    try:
        import warp

        warp.config.log_level = warp.LOG_ERROR
        warp.init()
        import mujoco_warp
    except ImportError as error:
        raise MissingExtra(
            f"backend='cuda' simulates robots with mujoco-warp ({error}): pip install 'rookery[mujoco-gpu]'"
        ) from None
    missing = [name for name in NEEDED if not hasattr(mujoco_warp, name)]
    if missing:
        raise OptionError(
            f"mujoco-warp {mujoco_warp.__version__} has no {missing[0]}: install one for MuJoCo "
            f"{load().package.__version__}, pip install --upgrade 'rookery[mujoco-gpu]'"
        )
    return WarpLibrary(warp, mujoco_warp)
