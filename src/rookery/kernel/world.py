"""The base class of kernel worlds: an env written as plain functions over the state of one env.

The functions are written once, in ordinary Python, and run in three ways: as plain Python (to debug), compiled for CPU
threads, and compiled for a GPU. docs/kernel-worlds.md shows how to write one.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from keyword import iskeyword
from types import FunctionType
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space, spaces

from rookery.errors import OptionError, WorldError
from rookery.kernel.declarations import Simulation, checked, declared, has_masks, mask_of_turns
from rookery.kernel.tables import Table, TableWindow, check_window, declarations, describe, fill, replaced

# The engine's fields in every env's record, before the world's own fields. `seed`, `episode` and `draws` are the key of
# the next random number; `steps` counts since the reset; `returns` sums rewards, one per agent.
ENGINE_FIELDS = (("seed", "u4"), ("episode", "u4"), ("draws", "u4"), ("steps", "i4"), ("stage", "i4"))
RESERVED = (*(name for name, _ in ENGINE_FIELDS), "returns")
RESERVED_INFOS = ("action_mask", "final_obs", "final_info", "restarted")  # keys that the engine adds to infos
COMPILED_TYPES = "?bhilqBHILQfd"  # NumPy's characters for dtypes that can be compiled

# The arguments that each function may take, in any order.
ARGUMENTS = {
    "reset": ("state", "params", "tables", "scratch", "info", "memory"),
    "step": ("state", "action", "params", "tables", "scratch", "info", "rewards", "memory"),
    "easy": ("state", "action", "params", "tables", "info", "rewards"),
    "observe": ("state", "out", "agent", "params", "tables", "scratch", "memory"),
    "action_mask": ("state", "out", "agent", "params", "tables"),
    "turn": ("state", "params", "tables"),
    "window_start": ("state", "params", "tables"),
}
# The same for functions that no author writes: all of a step but its last part; and, of a world with a `simulation`,
# what comes before it, and what follows for a first state.
INTERNAL = {
    "begin_step": ("state", "action", "params", "tables", "scratch"),
    "before_simulation": ("state", "action", "params", "tables", "scratch"),
    "after_settling": ("state", "params", "tables", "scratch", "info"),
}
ROLES = {**ARGUMENTS, **INTERNAL}
OPTIONAL = ("action_mask", "easy", "turn", "window_start")  # functions that a world need not have
SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class KernelWorld:
    """Subclass it, declare what follows, and write `reset`, `step` and `observe` as static methods for ONE env.

    - `reset(state)` starts an episode; every field of `state` is 0 when it is called.
    - `step(state, action)` returns the reward and whether the episode terminated; or also, as a third value, whether it
      was truncated for another reason than `time_limit`.
    - `observe(state, out)` writes the observation into `out`. If the observation space is a Dict, each key is an
      attribute of `out`.
    - `action_mask(state, out)`, optional, writes 1 for each action that is allowed now, and 0 for the others. In a
      MultiDiscrete space the choices of all components follow one another.
    - `turn(state)`, optional, with several agents that take turns: returns the agent whose action counts next.
    - `easy(state, action)`, optional, for worlds whose steps are sometimes short and sometimes long. For a short (easy)
      step, it makes the step and returns 0 and what `step` returns. For a long (hard) step it changes nothing, and
      returns the kind of hard step, a number from 1 to `hard_kinds`. A GPU makes all easy steps first, then the hard
      steps grouped by kind, so that threads do not wait for a neighbour's longer step.

    Each may also take `params` (the parameters, as attributes) and `tables` (read-only arrays, as attributes). `reset`,
    `step` and `observe` may take `scratch` (working memory, as attributes; its values on entry of `reset` and `step`
    are undefined, and `observe`, which follows them, finds what they left) and `memory` (the env's own bytes, which a
    reset does not clear). `step` may take `info`, whose attributes
    are the env's info columns; if `reset` takes it too, a reset returns infos.

    With `num_agents` above 1, `step` receives one action per agent, writes `rewards[agent]`, and returns only whether
    the episode terminated (or that, and whether it was truncated); `info` holds one record per agent, and `observe`
    takes the number of the `agent`.
    """

    observation_space: Space
    action_space: Space
    state: Mapping[str, Any] = {}  # field -> dtype, or (dtype, shape)
    memory: int = 0  # bytes of an env beside its state, which a GPU lays out byte by byte over all envs
    scratch: Mapping[str, Any] = {}
    info: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}  # name -> default: a number, an array, or (dtype, shape) for zeros
    aliases: ClassVar[Mapping[str, str]] = {}  # other names for parameters
    tables: Mapping[str, np.ndarray | Table] = {}  # an array, or a Table whose array is given when the world is made
    time_limit: int = 0  # steps after which an episode is truncated; 0 means never
    num_agents: int = 1
    hard_kinds: int = 1  # the number of kinds of hard steps that `easy` returns
    clips_actions = False  # True: the world clips actions outside a Box; False: such actions are rejected
    problems: tuple[str, ...] = ()  # what `mark_problem(state, k)` reports, in words, by its number k
    returned_by = "step"  # the function of the class that returns what a step does
    bounds = True  # False: indices are not checked in compiled code, where a wrong one can change other envs, or crash
    max_registers = 0  # of a GPU's thread: with fewer of them, more envs run at the same time; 0: the compiler decides
    calls_c = False  # True: it calls functions of a C library, which a GPU cannot
    step_parts = 1  # equal parts of a step, of which `begin_step`, if there is one, makes all but the last
    simulation: Simulation | None = None  # what steps all envs on a GPU, between the world's own functions
    render_parameters: Mapping[str, Any] = {}  # values of parameters for envs that have a render mode
    metadata: dict[str, Any] = {"render_modes": [], "render_fps": 50}

    reset: Callable[..., Any]
    step: Callable[..., Any]
    observe: Callable[..., Any]
    action_mask: Callable[..., Any] | None = None
    easy: Callable[..., Any] | None = None
    turn: Callable[..., Any] | None = None
    table_window: TableWindow | None = None  # the part of the observation that is a stretch of a table
    window_start: Callable[..., Any] | None = None  # where it begins in the table
    begin_step: Callable[..., Any] | None = None
    before_simulation: Callable[..., Any] | None = None
    after_settling: Callable[..., Any] | None = None

    def __init__(self, **parameters: Any) -> None:
        """Takes values of parameters, and the arrays of tables that are only declared."""
        self.tables = fill(self.name, type(self).tables, self.tables, parameters)
        _check(self)
        self._table_forms = declarations(type(self).tables, self.tables)
        forms = {
            name: declared(self.name, name, default)
            for name, default in {"time_limit": self.time_limit, **self.parameters}.items()
        }
        self._forms = {name: form for name, (form, _) in forms.items()}
        self.values: dict[str, Any] = {name: default for name, (_, default) in forms.items()}
        self.values.update(self.encode(parameters))
        self._mask_turns()

    def _mask_turns(self) -> None:
        """Where agents take turns, let the masks say that the others have no choice."""
        if self.turn is not None and has_masks(self.action_space):
            own = None if self.action_mask is None else adapt(self.action_mask, "action_mask")
            self.action_mask = mask_of_turns(self.action_space, adapt(self.turn, "turn"), own)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made from the class again: such a function cannot be pickled."""
        return {name: value for name, value in vars(self).items() if name != "action_mask" or self.turn is None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._mask_turns()

    @property
    def name(self) -> str:
        return type(self).__name__

    # --- record types -------------------------------------------------------------------------------------------

    @property
    def state_dtype(self) -> np.dtype:
        engine = [*ENGINE_FIELDS, ("returns", "f8", (self.num_agents,))]
        return np.dtype([*engine, *_fields(self.state)], align=True)

    @property
    def scratch_dtype(self) -> np.dtype:
        return np.dtype(_fields(self.scratch) or [("nothing", "u1")], align=True)

    @property
    def info_dtype(self) -> np.dtype:
        return np.dtype(_fields(self.info) or [("nothing", "u1")], align=True)

    @property
    def params_dtype(self) -> np.dtype:
        return np.dtype([form.field(name) for name, form in self._forms.items()], align=True)

    def params_record(self) -> np.ndarray:
        """The parameters as an array of one record."""
        record = np.zeros(1, self.params_dtype)
        for name, value in self.values.items():
            record[name] = value
        return record

    @cached_property
    def table_facts(self) -> dict[str, Any]:
        """Shape, dtype and hash of each table; computed at the first use, and once, because tables do not change."""
        return describe(self.tables)

    @property
    def table_sizes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each table without its first dimension, where `set_tables` cannot change it."""
        shapes = {name: form.shape[1:] for name, form in self._table_forms.items()}
        return {name: tuple(map(int, shape)) for name, shape in shapes.items() if None not in shape}  # type: ignore[arg-type]

    def with_tables(self, **tables: Any) -> KernelWorld:
        """The same world with other arrays of some tables. They are not copied if they are contiguous and of the
        declared dtype."""
        other = copy(self)
        other.tables = replaced(self.name, self.tables, self._table_forms, tables)
        check_window(other)
        other.__dict__.pop("table_facts", None)
        return other

    def problem(self, number: int) -> str:
        """What `mark_problem(state, number)` reports."""
        return self.problems[number]

    def fill_scratch(self, scratch: np.ndarray) -> Any:
        """Write into new scratch records, one per thread, what their fields should hold from the start. The object that
        is returned lives as long as the records."""

    @property
    def on_cpu(self) -> KernelWorld:
        """The world of which this one is the version for a GPU: itself, if they are the same."""
        return self

    def on_device(self, num_envs: int, device: Any) -> KernelWorld:
        """The world whose functions the GPU runs, for so many envs: this one, unless it calls a C library."""
        if self.calls_c:
            raise OptionError(f"{self.name} calls functions of a C library, which a GPU cannot: use backend='kernel'")
        return self

    def link(self) -> None:
        """Called before the world is compiled and before its compiled code is loaded: load the C libraries it calls."""

    @property
    def informs_at_reset(self) -> bool:
        """Whether `reset` writes info columns."""
        return bool(self.info) and "info" in inspect.signature(self.reset).parameters

    def parameter_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a parameter or of an alias; () for a number, and for a name that is neither."""
        form = self._forms.get(self.aliases.get(name, name))
        return () if form is None else form.shape

    def encode(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as numbers, and as nested lists of numbers for arrays. A world that accepts other values,
        such as names, overrides this to translate them."""
        values = {self.aliases.get(name, name): value for name, value in values.items()}
        check_names(self.name, values, self.values)
        return {name: checked(self.name, name, value, self._forms[name]) for name, value in values.items()}

    def render(self, state: Any, params: Any, mode: str) -> Any:
        """A picture of one env: an array (height, width, 3) of bytes for mode "rgb_array". If the world has `memory`,
        it is passed as a further argument of that name."""
        raise NotImplementedError(f"{self.name} cannot be rendered")


def check_names(world: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse parameters that do not exist; the error names the nearest one."""
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise OptionError(f"{world} has no parameter {name!r}{hint} (it has {', '.join(known)})")


def own_codes(world: KernelWorld) -> set[Any]:
    """The code objects of a world's own functions, without those of their helpers."""
    functions = (getattr(world, role, None) for role in ROLES)
    return {function.__code__ for function in functions if isinstance(function, FunctionType)}


def adapt(function: Callable[..., Any], role: str) -> Callable[..., Any]:
    """A function that takes all arguments of the role and passes on those that `function` takes.

    >>> adapt(lambda out, state: (state, out), "observe")("the state", "the array", 0, None, None, None, None)
    ('the state', 'the array')
    """
    return passing(function, ROLES[role])


def passing(function: Callable[..., Any], arguments: Sequence[str]) -> Callable[..., Any]:
    """A function that takes these arguments and passes on those that `function` takes."""
    wanted = ", ".join(inspect.signature(function).parameters)
    everything = ", ".join(arguments)
    return eval(f"lambda {everything}: function({wanted})", {"function": function, "__name__": __name__})  # noqa: S307 - names checked before


def _fields(declared: Mapping[str, Any]) -> list[tuple]:
    return [(name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in declared.items()]


def _check(world: KernelWorld) -> None:
    """Refuse a world with an invalid declaration."""
    _check_spaces(world)
    _check_functions(world)
    if not isinstance(world.memory, int) or world.memory < 0:
        raise WorldError(f"{world.name}.memory should be a number of bytes, got {world.memory!r}")
    for kind in ("num_agents", "hard_kinds"):
        number = getattr(world, kind)
        if not isinstance(number, int) or number < 1:
            raise WorldError(f"{world.name}.{kind} should be an integer >= 1, got {number!r}")
    _check_names(world)
    _check_time_limit(world)
    for kind in ("state", "scratch", "info"):
        _check_fields(world, kind)
    _check_tables(world)
    check_window(world)


def _check_spaces(world: KernelWorld) -> None:
    for kind in ("observation_space", "action_space"):
        space = getattr(world, kind, None)
        if kind == "observation_space" and isinstance(space, spaces.Dict):
            _check_keys(world, space)
            continue
        if not isinstance(space, SPACES):
            known = ", ".join(s.__name__ for s in SPACES)
            raise WorldError(f"{world.name}.{kind} should be one of {known}, got {space!r}")
        if np.dtype(space.dtype).char not in COMPILED_TYPES:
            raise WorldError(f"{world.name}.{kind} has the dtype {space.dtype}, which cannot be compiled")


def _check_keys(world: KernelWorld, space: spaces.Dict) -> None:
    """Refuse a Dict of observations whose parts cannot be the fields of a record."""
    if not space.spaces:
        raise WorldError(f"{world.name}.observation_space is an empty Dict")
    for key, part in space.spaces.items():
        if not _is_attribute(key):
            raise WorldError(f"{world.name}.observation_space: the key {key!r} cannot be the name of an attribute")
        if not isinstance(part, SPACES):
            known = ", ".join(s.__name__ for s in SPACES)
            raise WorldError(f"{world.name}.observation_space[{key!r}] should be one of {known}, got {part!r}")
        kind = np.dtype(part.dtype)
        if kind.char not in COMPILED_TYPES or (kind == np.bool_ and part.shape):
            raise WorldError(
                f"{world.name}.observation_space[{key!r}] has the dtype {kind}, which cannot be compiled in a Dict"
            )


def _check_functions(world: KernelWorld) -> None:
    for role, arguments in ARGUMENTS.items():
        function = getattr(world, role, None)
        if function is None and role in OPTIONAL:
            continue
        if function is None:
            usual = ", ".join(arguments[: 1 if role == "reset" else 2])
            raise WorldError(f"{world.name} has no {role}: write a static method `def {role}({usual})`")
        if not isinstance(function, FunctionType):
            raise WorldError(f"{world.name}.{role} should be a static method: put @staticmethod above `def {role}`")
        asked = inspect.signature(function).parameters
        unknown = [name for name in asked if name not in arguments]
        if unknown:
            raise WorldError(
                f"{world.name}.{role} has an unknown argument {unknown[0]!r}; it may have {', '.join(arguments)}"
            )
        if "rewards" in asked and world.num_agents == 1:
            raise WorldError(
                f"{world.name}.{role} has the argument 'rewards', but num_agents is 1: return the reward instead"
            )
    if world.turn is not None and world.num_agents == 1:
        raise WorldError(f"{world.name}.turn says whose turn it is, but num_agents is 1: set num_agents = 2")
    if world.action_mask is not None and not has_masks(world.action_space):
        raise WorldError(
            f"{world.name}.action_mask needs a Discrete or MultiDiscrete action space, got {world.action_space}"
        )


def _check_names(world: KernelWorld) -> None:
    for kind in ("state", "scratch", "info", "parameters", "tables"):
        declared = getattr(world, kind)
        if not isinstance(declared, Mapping):
            raise WorldError(f"{world.name}.{kind} should be a dictionary with names as keys, got {declared!r}")
        odd = [name for name in declared if not _is_attribute(name)]
        if odd:
            raise WorldError(f"{world.name}.{kind}: {odd[0]!r} cannot be the name of an attribute")
    for kind, names in (("state", RESERVED), ("info", RESERVED_INFOS)):
        taken = [name for name in getattr(world, kind) if name in names]
        if taken:
            raise WorldError(
                f"{world.name}.{kind} may not have a field {taken[0]!r}: the engine uses that name; choose another"
            )
    both = [name for name in world.tables if name in world.parameters]
    if both:
        raise WorldError(f"{world.name}: {both[0]!r} is the name of a table and of a parameter")
    unknown = [name for name, meant in world.aliases.items() if meant not in ("time_limit", *world.parameters)]
    if unknown:
        raise WorldError(f"{world.name}.aliases: {unknown[0]!r} is for a parameter that does not exist")


def _check_time_limit(world: KernelWorld) -> None:
    if not isinstance(world.time_limit, (int, np.integer)):
        raise WorldError(
            f"{world.name}.time_limit should be a number of steps, or 0 for no limit, got {world.time_limit!r}"
        )


def _is_attribute(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and not iskeyword(name) and not name.startswith("_")


def _check_fields(world: KernelWorld, kind: str) -> None:
    try:
        record = np.dtype(_fields(getattr(world, kind)), align=True)
    except (TypeError, ValueError) as error:
        raise WorldError(f"{world.name}.{kind} should map names to NumPy dtypes: {error}") from None
    for name in record.names or ():
        if record[name].base.char not in COMPILED_TYPES or not record[name].base.isnative:
            raise WorldError(
                f"{world.name}.{kind}: {name!r} has the dtype {record[name].base}, which cannot be compiled; "
                "use a dtype of numbers, such as 'f8', 'i8' or 'u1'"
            )
        if record[name].shape and record[name].base == np.bool_:
            raise WorldError(f"{world.name}.{kind}: {name!r} is an array of bools, which cannot be compiled; use 'u1'")


def _check_tables(world: KernelWorld) -> None:
    for name, table in world.tables.items():
        try:
            kind = np.asarray(table).dtype
        except ValueError as error:
            raise WorldError(f"{world.name}.tables: {name!r} cannot be an array: {error}") from None
        if kind.names is None and kind.char not in COMPILED_TYPES:
            raise WorldError(f"{world.name}.tables: {name!r} should hold numbers, got the dtype {kind}")
