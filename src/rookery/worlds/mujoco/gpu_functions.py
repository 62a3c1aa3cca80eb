"""The functions of a MujocoWorld for a GPU, where mujoco-warp simulates all envs at once: see kernel/declarations.py.

They call the same functions of the class as step_functions.py does for the CPU. An env finds its rows of the
simulation's arrays by its number, in `scratch.simulated_env`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

from rookery.console import say
from rookery.kernel.declarations import mark_problem
from rookery.kernel.translate import Function
from rookery.kernel.world import passing
from rookery.once import once
from rookery.worlds.mujoco.mujoco_library import load
from rookery.worlds.mujoco.physics_memory import STATE_FIELDS, record_kind
from rookery.worlds.mujoco.step_functions import HOOKS, constants, copy_action, do_nothing
from rookery.worlds.mujoco.warp_simulation import WarpSimulation, load_warp

LARGEST = 1e10  # MuJoCo's mjMAXVAL: a larger number means that the simulation is unstable
PROBLEMS = {  # what mujoco-warp has memory for is set in another way
    "mjWARN_CONTACTFULL": "there are more contacts than its memory on the GPU holds: set gpu_contacts in the class",
    "mjWARN_CNSTRFULL": "there are more constraints than its memory on the GPU holds: set gpu_constraints in the class",
}


def gpu_version(world: Any, num_envs: int, device: Any) -> Any:
    """The world as a GPU runs it."""
    engine = load_warp().engine
    other = copy(world)
    other.calls_c, other.cpu_version = False, world
    other.begin_step, other.step_parts = None, 1
    other.simulation = WarpSimulation(world, num_envs, device)
    other.state = type(world).state
    other.scratch = {**type(world).scratch, "simulated_env": "i8"}
    names = [name for name in load().package.mjtWarning.__members__ if name != "mjNWARNING"]
    texts = zip(names, world.problems, strict=False)
    other.problems = (*(f"MuJoCo: {PROBLEMS[name]}" if name in PROBLEMS else text for name, text in texts), "")
    functions = build_gpu_functions(world, other.simulation, names)
    other.reset, other.step, other.observe, other.before_simulation, other.after_settling = functions
    tell(
        f"{world.name} is simulated by mujoco-warp {engine.__version__}. It differs from MuJoCo on the CPU: "
        f"{', '.join(other.simulation.differences)}"
    )
    return other


@once
def tell(text: str) -> None:
    """Say something once."""
    say(text)


def build_gpu_functions(world: Any, simulation: WarpSimulation, warnings: list[str]) -> tuple[Function, ...]:
    """`reset`, `step`, `observe`, `before_simulation` and `after_settling` of a MujocoWorld."""
    hooks = {"control": copy_action, **world.hooks()}
    calls = {name: passing(hooks.get(name, do_nothing), arguments) for name, arguments in HOOKS.items()}
    fields = [field.name for field in world.data_fields]
    state_fields = [name for name in fields if name in STATE_FIELDS]
    before = build_rows("data_before_step", {name: f"mj_data_{name}" for name in state_fields})
    after = build_rows("data", {name: f"mj_data_{name}" for name in fields})
    settled = [name for name in fields if f"mj_first_{name}" in simulation.arrays]
    first = build_rows("data", {name: f"mj_{'first' if name in settled else 'data'}_{name}" for name in fields})
    model_fields = {field.name: f"mj_model_{field.name}" for field in world.model_fields}
    shared = [name for name in model_fields if name not in simulation.own_model_fields]
    numbers = {"dt": float(world.dt), "timestep": float(world.model.opt.timestep)}
    own_model = build_rows("model", {name: model_fields[name] for name in simulation.own_model_fields})
    model = build_rows("model", model_fields, shared, numbers)
    ids, settings = constants("ids", world.id_numbers), constants("settings", world.fixed)
    call_reset, call_after, call_control = calls["reset"], calls["after_reset"], calls["control"]
    call_reward, call_observe, call_configure = calls["reward"], calls["observe"], calls["configure"]
    restore = build_copies(simulation, "mj_start_", "mj_state_")  # the model's initial state
    restore_model = build_copies(simulation, "mj_original_", "mj_own_")
    find_problem = build_problem(warnings)

    def configure(params: Any, tables: Any, scratch: Any) -> None:
        restore_model(tables, scratch)
        call_configure(own_model(tables, scratch), params, tables, ids, settings)

    def begin(state: Any, params: Any, tables: Any, scratch: Any) -> None:
        configure(params, tables, scratch)
        restore(tables, scratch)
        call_reset(state, params, tables, model(tables, scratch), ids, settings, before(tables, scratch))

    def reset_with_info(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
        begin(state, params, tables, scratch)

    def reset_without_info(state: Any, params: Any, tables: Any, scratch: Any) -> None:
        begin(state, params, tables, scratch)

    def after_settling(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
        call_after(state, params, tables, model(tables, scratch), ids, settings, first(tables, scratch), info)

    def before_simulation(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
        configure(params, tables, scratch)
        call_control(state, params, tables, model(tables, scratch), ids, settings, before(tables, scratch), action)

    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        problem = find_problem(tables, scratch)
        if problem >= 0:
            mark_problem(state, problem)
            restore(tables, scratch)  # as MuJoCo does
        reward, terminated = call_reward(
            state, params, tables, model(tables, scratch), ids, settings, after(tables, scratch), action, info
        )
        return reward, terminated

    def observe(state: Any, out: Any, params: Any, tables: Any, scratch: Any) -> None:
        if state.steps == 0:
            call_observe(state, params, tables, model(tables, scratch), ids, settings, first(tables, scratch), out)
        else:
            call_observe(state, params, tables, model(tables, scratch), ids, settings, after(tables, scratch), out)

    informs = "info" in getattr(hooks.get("after_reset"), "__code__", do_nothing.__code__).co_varnames
    reset = reset_with_info if informs else reset_without_info
    return reset, step, observe, before_simulation, after_settling


def build_rows(
    title: str, arrays: Mapping[str, str], shared: Iterable[str] = (), numbers: Mapping[str, float] | None = None
) -> Function:
    """A function of the tables and the scratch record that returns an env's rows of these arrays, and these numbers,
    as attributes of one object. Of arrays that are `shared` there is one row."""
    numbers = numbers or {}
    rows = [f"tables.{table}[{0 if name in shared else 'scratch.simulated_env'}]" for name, table in arrays.items()]
    made = ", ".join([*rows, *map(repr, numbers.values())]) or "0"
    scope: dict[str, Any] = {"Kind": record_kind(title, (*arrays, *numbers) or ("nothing",)), "__name__": __name__}
    exec(f"def rows(tables, scratch):\n    return Kind({made})", scope)  # noqa: S102 - names of fields, and numbers
    return scope["rows"]


def build_copies(simulation: WarpSimulation, source: str, target: str) -> Function:
    """A function that gives an env's rows of the arrays whose names begin with `target` the numbers of those of
    `source`, which have one row."""
    parts = [name.removeprefix(source) for name in simulation.arrays if name.startswith(source)]
    loops = [
        f"    for k in range(tables.{source}{part}.shape[1]):\n"
        f"        tables.{target}{part}[env, k] = tables.{source}{part}[0, k]\n"
        for part in parts
    ]
    scope: dict[str, Any] = {"__name__": __name__}
    exec(f"def copies(tables, scratch):\n    env = scratch.simulated_env\n{''.join(loops)}", scope)  # noqa: S102 - names of MuJoCo's arrays
    return scope["copies"]


def build_problem(warnings: list[str]) -> Function:
    """A function that returns the number of what went wrong in an env's simulation, or -1."""
    overflow = load_warp().engine.OverflowType
    no_constraints = int(overflow.NEFC | overflow.NJMAX_NNZ)
    no_contacts = int(overflow.BROADPHASE | overflow.NARROWPHASE | overflow.CCD)
    constraints, contacts = warnings.index("mjWARN_CNSTRFULL"), warnings.index("mjWARN_CONTACTFULL")
    bad_positions, bad_velocities = warnings.index("mjWARN_BADQPOS"), warnings.index("mjWARN_BADQVEL")

    def bad(numbers: Any) -> bool:
        good = True
        for k in range(len(numbers)):
            good &= abs(numbers[k]) <= LARGEST  # false for NaN
        return not good

    def find_problem(tables: Any, scratch: Any) -> int:
        env = scratch.simulated_env
        full = tables.mj_overflow[env, 0]
        tables.mj_overflow[env, 0] = 0
        if bad(tables.mj_state_qpos[env]):
            return bad_positions
        if bad(tables.mj_state_qvel[env]):
            return bad_velocities
        if full & no_constraints != 0:
            return constraints
        return contacts if full & no_contacts != 0 else -1

    return find_problem
