"""The functions `reset`, `step` and `observe` of a kernel world, from the functions that a MujocoWorld has."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.kernel.problems import mark_problem
from rookery.kernel.translate import Function
from rookery.kernel.world import passing
from rookery.worlds.mujoco.array_fields import STATE_FIELDS, build_views
from rookery.worlds.mujoco.physics_calls import (
    advance,
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


def build_functions(world: Any) -> tuple[Function, Function, Function]:
    """`reset`, `step` and `observe` of a MujocoWorld."""
    hooks = {"control": copy_action, **world.hooks()}
    calls = {name: passing(hooks.get(name, do_nothing), arguments) for name, arguments in HOOKS.items()}
    state_fields = [field for field in world.data_fields if field.name in STATE_FIELDS]
    before = build_views("data_before_step", "mj_data", state_fields, {}, writable=True)
    after = build_views("data", "mj_data", world.data_fields, {}, writable=True)
    seen = build_views("data", "mj_data", world.data_fields, {}, writable=False)
    numbers = {"dt": float(world.dt), "timestep": float(world.model.opt.timestep)}
    own_model = build_views("model", "mj_model", world.model_fields, {}, writable=True)
    model = build_views("model", "mj_model", world.model_fields, numbers, writable=False)
    ids, settings = constants("ids", world.id_numbers), constants("settings", world.fixed)
    call_reset, call_after, call_control = calls["reset"], calls["after_reset"], calls["control"]
    call_reward, call_observe, call_configure = calls["reward"], calls["observe"], calls["configure"]
    load_state, save_state, clear_warnings, mark_problems = _build_memory(world)
    frame_skip, needs_forces = world.frame_skip, world.needs_forces

    def begin(state: Any, params: Any, tables: Any, scratch: Any, info: Any) -> None:
        clear_warnings(scratch)
        call_configure(own_model(scratch), params, tables, ids, settings)
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

    def step(state: Any, action: Any, params: Any, tables: Any, scratch: Any, info: Any) -> Any:
        clear_warnings(scratch)
        call_configure(own_model(scratch), params, tables, ids, settings)
        load_state(scratch, state)
        call_control(state, params, tables, model(scratch), ids, settings, before(scratch), action)
        failed = advance(scratch.mj_model, scratch.mj_data, frame_skip)
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
    return (reset_with_info if informs else reset_without_info), step, observe


def constants(title: str, numbers: Mapping[str, Any]) -> Any:
    """Numbers as attributes of one constant."""
    kind: Any = namedtuple(title, tuple(numbers) or ("nothing",))  # type: ignore[misc]
    return kind(*(numbers.values() or (0,)))


def _build_memory(world: Any) -> tuple[Function, Function, Function, Function]:
    """Functions that move an env's state into a thread's data and back, and read the data's counts of warnings."""
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

    return load_state, save_state, clear_warnings, mark_problems
