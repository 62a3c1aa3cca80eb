"""The base class of worlds that MuJoCo simulates: a robot from an MJCF or URDF file, and a task in plain Python."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rookery.errors import OptionError, WorldError
from rookery.kernel.declarations import NUMBER
from rookery.kernel.tables import describe
from rookery.kernel.world import KernelWorld
from rookery.worlds.mujoco.mujoco_library import load
from rookery.worlds.mujoco.physics_memory import (
    FORCE_FIELDS,
    SimulationSlots,
    address_fields,
    data_fields,
    mentioned,
    model_fields,
)
from rookery.worlds.mujoco.step_functions import HOOKS, OPTIONAL_HOOKS, build_functions

WARNINGS = {
    "mjWARN_INERTIA": "the inertia matrix of the model is nearly singular",
    "mjWARN_CONTACTFULL": "there are more contacts than its memory holds: set <size memory='...'/> in the model",
    "mjWARN_CNSTRFULL": "there are more constraints than its memory holds: set <size memory='...'/> in the model",
    "mjWARN_BADQPOS": "a number in qpos is NaN, infinite or huge: the simulation is unstable",
    "mjWARN_BADQVEL": "a number in qvel is NaN, infinite or huge: the simulation is unstable",
    "mjWARN_BADQACC": "a number in qacc is NaN, infinite or huge: the simulation is unstable",
    "mjWARN_BADCTRL": "a number in ctrl is NaN, infinite or huge",
}
VIEW_OPTIONS = ("width", "height", "camera_id", "camera_name", "default_camera_config", "max_geom", "visual_options")
# What a model names, as MuJoCo's Python bindings call it.
KINDS = (
    "body", "joint", "geom", "site", "actuator", "sensor", "tendon", "camera", "light", "equality", "keyframe", "mesh",
    "hfield", "skin", "material", "texture", "numeric", "tuple", "pair", "exclude", "jnt", "cam", "eq", "key", "mat",
    "tex",
)  # fmt: skip
NEEDED_HOOKS = {"reward": "state, data, action", "observe": "data, out"}  # with the arguments that most worlds need
MADE_FROM_HOOKS = ("reset", "begin_step", "step", "observe", "action_mask")  # these cannot be pickled


class MujocoWorld(KernelWorld):
    """Subclass it, name the model, and write `observe` and `reward`, and others if you need them, as static methods for
    ONE env. docs/mujoco.md shows how.

    - `reset(state, data)` starts an episode: it changes `data.qpos` and `data.qvel`, which are the model's initial
      ones. All bodies are placed afterwards.
    - `after_reset(state, data)` is called then; it may write `info`, and remember something in `state`.
    - `control(state, data, action)` writes `data.ctrl` before a step. Without it, the action is copied there.
    - `reward(state, data, action)` returns the reward and whether the episode terminated, after `frame_skip` steps.
    - `observe(data, out)` writes the observation.
    - `configure(model, params)` writes arrays of the model from parameters, so that each env may have its own masses or
      friction. It is called before every reset and step, and finds the arrays that it names as in the file.

    Each may also take `state`, `params`, `tables`, `model` (its arrays, and `model.dt`), `ids` and `settings`; and
    `reward` and `after_reset` may take `info`.
    """

    xml_file: str  # an MJCF or URDF file, beside the file of the class or in the current folder; or MJCF as a text
    frame_skip: int = 1  # steps of the simulation in a step of the env
    ids: Mapping[str, tuple[str, str]] = {}  # name -> (kind, name in the model), such as ("body", "fingertip")
    settings: ClassVar[Mapping[str, Any]] = {}  # numbers that are fixed when the world is made: name -> default
    camera: ClassVar[Mapping[str, Any]] = {}  # Gymnasium's default_camera_config
    returned_by = "reward"
    clips_actions = True  # MuJoCo clips controls to their range
    gpu_contacts: int | None = None  # for how many contacts a GPU has memory, per env; None: as a trial shows
    gpu_constraints: int | None = None  # the same for constraints
    calls_c = True
    cpu_version: Any = None  # of the version for a GPU
    _renderer: Any = None

    after_reset: Callable[..., Any] | None = None
    control: Callable[..., Any] | None = None
    configure: Callable[..., Any] | None = None
    reward: Callable[..., Any]

    def __init__(self, xml_file: str | None = None, frame_skip: int | None = None, **options: Any) -> None:
        """Takes another model file, the frame skip, options of the renderer, settings, and values of parameters."""
        self.xml_file = xml_file if xml_file is not None else getattr(type(self), "xml_file", "")
        self.frame_skip = _positive(self.name, "frame_skip", self.frame_skip if frame_skip is None else frame_skip)
        self.view_options = {name: options.pop(name) for name in VIEW_OPTIONS if name in options}
        self.model = self.read_model()
        self.fixed = self.encode_settings({name: options.pop(name, default) for name, default in self.settings.items()})
        self._declare()
        super().__init__(**options)

    def _declare(self) -> None:
        """Everything that follows from the class and the model."""
        package, model = load().package, self.model
        warnings = [name for name in package.mjtWarning.__members__ if name != "mjNWARNING"]
        self.problems = (*(f"MuJoCo: {WARNINGS.get(name, name)}" for name in warnings), "MuJoCo failed")
        self.state_kind = int(package.mjtState.mjSTATE_INTEGRATION)
        self.state_size = package.mj_stateSize(model, self.state_kind)
        self.dt = model.opt.timestep * self.frame_skip
        hooks = self.hooks()
        names = mentioned(hooks.values())
        data = package.MjData(model)
        self.data_fields, self.model_fields = data_fields(data, names | {"ctrl"}), model_fields(model, names)
        self.configured_fields = model_fields(model, mentioned([hooks["configure"]] if "configure" in hooks else []))
        self.needs_forces = any(field.name in FORCE_FIELDS for field in self.data_fields)
        self.id_numbers = {name: _number(self.name, model, name, thing) for name, thing in self.ids.items()}
        self.state = {**type(self).state, "physics": ("f8", (self.state_size,))}
        addresses = address_fields(self.data_fields, self.model_fields, self.configured_fields)
        self.scratch = {**type(self).scratch, **addresses}
        self.metadata = {"render_modes": ["human", "rgb_array"], "render_fps": max(1, int(np.round(1.0 / self.dt)))}
        self._declare_spaces()
        self._set_functions()

    def _declare_spaces(self) -> None:
        low, high = self.model.actuator_ctrlrange.astype(np.float32).T
        free = ~self.model.actuator_ctrllimited.astype(bool)
        if getattr(type(self), "action_space", None) is None:
            self.action_space = spaces.Box(np.where(free, -np.inf, low), np.where(free, np.inf, high), dtype=np.float32)
        if getattr(type(self), "observation_space", None) is None:
            size = self.observation_size()
            self.observation_space = spaces.Box(-np.inf, np.inf, (size,), np.float64)

    def encode_settings(self, values: dict[str, Any]) -> dict[str, Any]:
        """Settings as numbers. A world that accepts other values, such as names, overrides this to translate them."""
        for name, value in values.items():
            if not isinstance(value, NUMBER):
                raise OptionError(f"{self.name}: {name!r} should be a number, got {value!r}")
        return values

    def observation_size(self) -> int:
        """How many numbers `observe` writes, for a world without an `observation_space`; it may depend on `self.model`
        and on `self.fixed`, the values of settings."""
        raise WorldError(f"{self.name} should have an observation_space, or a method observation_size(self)")

    def hooks(self) -> dict[str, Any]:
        """The functions of the class, by name."""
        found: dict[str, Any] = {}
        for name, arguments in HOOKS.items():
            function = inspect.getattr_static(type(self), name, None)
            is_static = isinstance(function, staticmethod)
            function = function.__func__ if is_static else function
            if function is None and name in OPTIONAL_HOOKS:
                continue
            if function is None:
                raise WorldError(f"{self.name} has no {name}: write a static method `def {name}({NEEDED_HOOKS[name]})`")
            if not is_static:
                raise WorldError(f"{self.name}.{name} should be a static method: put @staticmethod above `def {name}`")
            unknown = [argument for argument in inspect.signature(function).parameters if argument not in arguments]
            if unknown:
                raise WorldError(
                    f"{self.name}.{name} has an unknown argument {unknown[0]!r}; it may have {', '.join(arguments)}"
                )
            found[name] = function
        return found

    def _set_functions(self) -> None:
        self.reset, self.begin_step, self.step, self.observe = build_functions(self)
        self.step_parts = self.frame_skip

    # --- the model ------------------------------------------------------------------------------------------------

    @classmethod
    def model_path(cls, source: str) -> Path:
        """The path of a model file: relative to the file of the class, or to the current folder."""
        try:
            beside = Path(inspect.getfile(cls)).parent / source
        except (OSError, TypeError):  # a class in a notebook
            beside = Path(source)
        for path in (Path(source).expanduser(), beside):
            if path.is_file():
                return path.resolve()
        raise WorldError(f"{cls.__name__}: there is no model file {source!r}, neither here nor at {beside}")

    def read_model(self) -> Any:
        """The MjModel of `xml_file`."""
        package, source = load().package, self.xml_file
        if not source:
            raise WorldError(f"{self.name} names no model: write xml_file = 'robot.xml' in the class")
        try:
            if source.lstrip().startswith("<"):
                return package.MjModel.from_xml_string(source)
            return package.MjModel.from_xml_path(str(self.model_path(source)))
        except ValueError as error:
            raise WorldError(f"{self.name}: MuJoCo cannot read its model: {' '.join(str(error).split())}") from None

    # --- memory, compiled code, pickles ---------------------------------------------------------------------------

    @property
    def on_cpu(self) -> KernelWorld:
        return self if self.cpu_version is None else self.cpu_version

    def on_device(self, num_envs: int, device: Any) -> KernelWorld:
        """With mujoco-warp in place of MuJoCo's C library."""
        from rookery.worlds.mujoco.gpu_functions import gpu_version

        return gpu_version(self, num_envs, device)

    def fill_scratch(self, scratch: np.ndarray) -> Any:
        if self.simulation is not None:
            return None  # on a GPU, there is nothing to fill
        return SimulationSlots(load().package, self.model, scratch, self.state_size, self.configure is not None)

    def problem(self, number: int) -> str:
        """For a failure, also what MuJoCo said."""
        if number < len(self.problems) - 1:
            return super().problem(number)
        from rookery.worlds.mujoco.physics_native import last_error

        return f"{super().problem(number)}: {last_error()}"

    def link(self) -> None:
        from rookery.worlds.mujoco.physics_native import link

        link()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in (*MADE_FROM_HOOKS, "_renderer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_functions()

    @cached_property
    def table_facts(self) -> dict[str, Any]:
        """Also those of the model: a state continues only with the same one."""
        model = np.zeros(load().package.mj_sizeModel(self.model), np.uint8)
        load().package.mj_saveModel(self.model, None, model)
        facts = {"shape": [len(model)], "dtype": "uint8", "sha256": hashlib.sha256(model.tobytes()).hexdigest()}
        return {**describe(self.tables), "model": facts}

    # --- pictures -------------------------------------------------------------------------------------------------

    def render(self, state: Any, params: Any, mode: str) -> Any:

        if self._renderer is None:
            self._renderer = SimulationRenderer(self)
        return self._renderer.picture(np.asarray(state.physics), mode)

    def close(self) -> None:
        """Close the renderer, if there is one."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def _positive(world: str, name: str, value: Any) -> int:
    if not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionError(f"{world}: {name} should be an integer >= 1, got {value!r}")
    return int(value)


def _number(world: str, model: Any, key: str, thing: Any) -> int:
    """The number of a thing of the model, by its kind and name."""
    if not isinstance(thing, (tuple, list)) or [type(part) for part in thing] != [str, str]:
        raise WorldError(f"{world}.ids: {key!r} should be (kind, name in the model), got {thing!r}")
    kind, name = thing
    if kind not in KINDS:
        raise WorldError(f"{world}.ids: there is no kind {kind!r}; the kinds are {', '.join(KINDS)}")
    try:
        return int(getattr(model, kind)(name).id)
    except KeyError as error:
        raise WorldError(f"{world}.ids: the model has no {kind} {name!r} ({error.args[0]})") from None


SIZE = 480


class SimulationRenderer:
    """Draws states of one world, in a model and data of its own."""

    def __init__(self, world: Any) -> None:
        from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

        self._model, self._state_kind = copy(world.model), world.state_kind
        options = {"width": SIZE, "height": SIZE, **world.view_options}
        camera = options.pop("default_camera_config", None) or dict(world.camera) or None
        sizes = self._model.vis.global_  # pictures cannot be larger than the buffer in which they are drawn
        sizes.offwidth, sizes.offheight = max(sizes.offwidth, options["width"]), max(sizes.offheight, options["height"])
        self._data = load().package.MjData(self._model)
        self._renderer = MujocoRenderer(self._model, self._data, camera, **options)

    def picture(self, state: np.ndarray, mode: str) -> Any:
        """An array for "rgb_array"; None for "human", which shows it in a window."""
        package = load().package
        package.mj_setState(self._model, self._data, state, self._state_kind)
        package.mj_forward(self._model, self._data)
        try:
            return self._renderer.render(mode)
        except Exception as error:  # OpenGL's libraries raise anything, even AttributeError
            chosen = os.environ.get("MUJOCO_GL", "glfw")
            raise WorldError(
                f"MuJoCo cannot draw with MUJOCO_GL={chosen} ({error}): set it to egl (a GPU, or Mesa's libegl1) or "
                "osmesa (libosmesa6); glfw needs a screen"
            ) from error

    def close(self) -> None:
        """Close the window and free what pictures need."""
        self._renderer.close()
