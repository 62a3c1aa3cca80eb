"""The functions `reset`, `step` and `observe` of a kernel world, from the functions that a MujocoWorld has."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.kernel.declarations import FIRST_PROBLEM, mark_problem
from rookery.kernel.env_loop import RUNNING
from rookery.kernel.translate import Function
from rookery.kernel.world import passing
from rookery.worlds.mujoco.physics_memory import (
    STATE_FIELDS,
    advance,
    build_restore,
    build_views,
    forward,
    get_state,
    post_constraint,
    reset_data,
    set_state,
    view,
)

COMMON = ("state", "params", "tables", "model", "ids", "settings")
# The functions of a MujocoWorld, with the arguments that each may take, in any order.
HOOKS = {
    "configure": ("model", "params", "tables", "ids", "settings"),
    "reset": (*COMMON, "data"),
    "after_reset": (*COMMON, "data", "info"),
    "control": (*COMMON, "data", "action"),
    "reward": (*COMMON, "data", "action", "info"),
    "observe": (*COMMON, "data", "out"),
}
OPTIONAL_HOOKS = ("configure", "reset", "after_reset", "control")
FLOAT, COUNT = np.dtype("f8"), np.dtype("i4")


def copy_action(data: Any, action: Any) -> None:
    """The action becomes the control."""
    for k in range(len(data.ctrl)):
        data.ctrl[k] = action[k]


def do_nothing() -> None:
    """In place of a function that a world does not have."""


def build_functions(world: Any) -> tuple[Function, Function | None, Function, Function]:
    """`reset`, `begin_step`, `step` and `observe` of a MujocoWorld. The last call of `mj_step` can be made by another
    thread than those before it, unless it is the only one."""
    hooks = {"control": copy_action, **world.hooks()}
    calls = {name: passing(hooks.get(name, do_nothing), arguments) for name, arguments in HOOKS.items()}
    state_fields = [field for field in world.data_fields if field.name in STATE_FIELDS]
    before = build_views("data_before_step", "mj_data", state_fields, {}, writable=True)
    after = build_views("data", "mj_data", world.data_fields, {}, writable=True)
    seen = build_views("data", "mj_data", world.data_fields, {}, writable=False)
    numbers = {"dt": float(world.dt), "timestep": float(world.model.opt.timestep)}
    own_model = build_views("model", "mj_model", world.configured_fields, {}, writable=True)
    model = build_views("model", "mj_model", world.model_fields, numbers, writable=False)
    ids, settings = constants("ids", world.id_numbers), constants("settings", world.fixed)
    call_reset, call_after, call_control = calls["reset"], calls["after_reset"], calls["control"]
    call_reward, call_observe, call_configure = calls["reward"], calls["observe"], calls["configure"]
    restore_model = build_restore(world.configured_fields)
    load_state, save_state, clear_warnings, mark_problems, restore_problems = _build_memory(world)
    frame_skip, needs_forces = world.frame_skip, world.needs_forces
    in_parts = frame_skip > 1

    def configure(params: Any, tables: Any, scratch: Any) -> None:
        restore_model(scratch)  # as it was, whatever an env that the thread stepped before made of it
        call_configure(own_model(scratch), params, tables, ids, settings)

    def begin(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
        clear_warnings(scratch)
        configure(params, tables, scratch)
        reset_data(scratch.mj_model, scratch.mj_data)
        call_reset(state, params, tables, model(scratch), ids, settings, before(scratch))
        failed = forward(scratch.mj_model, scratch.mj_data)
        call_after(state, params, tables, model(scratch), ids, settings, after(scratch), info)
        save_state(scratch, state)
        mark_problems(scratch, state, failed)

    def reset_with_info(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
        begin(state, params, tables, scratch, info)

    def reset_without_info(state: Any, params: Any, tables: Any, scratch: Any) -> None:
        begin(state, params, tables, scratch, 0)

    def simulate(state: Any, action: Any, params: Any, tables: Any, scratch: Any, steps: int) -> int:
        """So many steps of the simulation; only the last one, if the env's step has begun."""
        clear_warnings(scratch)
        configure(params, tables, scratch)
        load_state(scratch, state)
        if in_parts and state.stage < 0:
            if restore_problems(scratch, state) != 0:
                return 1
            steps = 1
        else:
            call_control(state, params, tables, model(scratch), ids, settings, before(scratch), action)
        return advance(scratch.mj_model, scratch.mj_data, steps)

    def begin_step(state: Any, action: Any, params: Any, tables: Any, scratch: Any) -> None:
        failed = simulate(state, action, params, tables, scratch, frame_skip - 1)
        save_state(scratch, state)
        mark_problems(scratch, state, failed)

    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        failed = simulate(state, action, params, tables, scratch, frame_skip)
        if needs_forces and failed == 0:
            failed = post_constraint(scratch.mj_model, scratch.mj_data)
        reward, terminated = call_reward(
            state, params, tables, model(scratch), ids, settings, after(scratch), action, info
        )
        save_state(scratch, state)
        mark_problems(scratch, state, failed)
        return reward, terminated

    def observe(state: Any, out: Any, params: Any, tables: Any, scratch: Any) -> None:
        call_observe(state, params, tables, model(scratch), ids, settings, seen(scratch), out)

    informs = "info" in getattr(hooks.get("after_reset"), "__code__", do_nothing.__code__).co_varnames
    reset = reset_with_info if informs else reset_without_info
    return reset, (begin_step if in_parts else None), step, observe


def constants(title: str, numbers: Mapping[str, Any]) -> Any:
    """Numbers as attributes of one constant."""
    kind: Any = namedtuple(title, tuple(numbers) or ("nothing",))  # type: ignore[misc]
    return kind(*(numbers.values() or (0,)))


def _build_memory(world: Any) -> tuple[Function, Function, Function, Function, Function]:
    """Functions that move an env's state into a thread's data and back, and the data's counts of warnings."""
    size, kind, warnings = world.state_size, world.state_kind, len(world.problems) - 1  # the last one is a failure

    def load_state(scratch: Any, state: Any) -> None:
        buffer = view(scratch.mj_buffer, (size,), FLOAT)
        for k in range(size):
            buffer[k] = state.physics[k]
        set_state(scratch.mj_model, scratch.mj_data, scratch.mj_buffer, size, kind)

    def save_state(scratch: Any, state: Any) -> None:
        get_state(scratch.mj_model, scratch.mj_data, scratch.mj_buffer, size, kind)
        buffer = view(scratch.mj_buffer, (size,), FLOAT)
        for k in range(size):
            state.physics[k] = buffer[k]

    def clear_warnings(scratch: Any) -> None:
        counts = view(scratch.mj_warnings, (2 * warnings - 1,), COUNT)  # a count, then what it was about, and so on
        for k in range(warnings):
            counts[2 * k] = 0

    def mark_problems(scratch: Any, state: Any, failed: int) -> None:
        counts = view(scratch.mj_warnings, (2 * warnings - 1,), COUNT)
        for k in range(warnings):
            if counts[2 * k] > 0:
                mark_problem(state, k)
        if failed != 0:
            reset_data(scratch.mj_model, scratch.mj_data)  # it was left in the middle of something
            mark_problem(state, warnings)

    def restore_problems(scratch: Any, state: Any) -> int:
        """As if the first part of the step had been made here: a warning is counted again, and forgotten by MuJoCo if
        it resets the data. Returns 1 if MuJoCo failed in the first part."""
        state.stage = ~state.stage
        problem = state.stage - FIRST_PROBLEM
        if problem < 0:
            return 0
        if problem == warnings:
            return 1
        state.stage = RUNNING
        view(scratch.mj_warnings, (2 * warnings - 1,), COUNT)[2 * problem] = 1
        return 0

    return load_state, save_state, clear_warnings, mark_problems, restore_problems
