"""The loop around a world's functions: autoreset, time limits, returns and checks, for any number of envs.

Like the worlds, it is plain Python that is compiled: `build` closes it over a world's functions, and `translate`
turns the result into machine code for a CPU or a GPU. One env never looks at another, so envs may be stepped in any
order, by any number of threads.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from rookery.worlds.kernel import RESERVED, KernelWorld, adapt
from rookery.worlds.translate import Function

# Where an env stands.
RUNNING, RESET_NEXT, OVER = 0, 1, 2
# When an env begins anew, as in Gymnasium.
NEXT_STEP, SAME_STEP, DISABLED = 0, 1, 2
# What a step may come to, besides numbers; a batch returns the union.
NOTHING, ENDED, FAULT, HARD = 0, 1, 2, 4
# What a loop can be asked to do: step all, begin those that are wanted, only look at the actions.
STEP, BEGIN, CHECK = 0, 1, 2
EPISODES_KEPT = 10_000  # a slot remembers this many ends of episodes until they are asked for
# What `faults` holds for an env.
FINE, BAD_OBSERVATION, BAD_REWARD, BAD_ACTION, NOT_RUNNING = range(5)

COLUMNS = (
    "states",  # (n,) records
    "params",  # (1,) or (n,) records
    "scratch",  # (slots,) records
    "infos",  # (rows,) records; a row is an agent of an env
    "final_infos",  # (rows,) records, of episodes that ended (SAME_STEP)
    "spoke",  # (n,) whether infos hold something of this step
    "wanted",  # (n,) whether to begin anew when told to
    "actions",  # (n, ...)
    "flat_actions",  # (n, size): the same memory, flat
    "action_low",  # (size,) what the action space allows
    "action_high",
    "observations",  # (rows, ...)
    "flat",  # (rows, size)
    "finals",  # (rows, ...): last observations of episodes that ended (SAME_STEP)
    "flat_finals",
    "low",  # (size,) what the observation space allows
    "high",
    "rewards",  # (rows,)
    "terminated",  # (rows,)
    "truncated",  # (rows,)
    "masks",  # (rows, actions)
    "final_masks",  # of episodes that ended (SAME_STEP)
    "last_returns",  # (rows,) of the episode that ended last
    "last_lengths",  # (rows,)
    "faults",  # (n,)
)
Columns: Any = namedtuple("Columns", COLUMNS)  # type: ignore[misc]


class Parts(NamedTuple):
    """What can be done to env i, each as a function of (columns, tables, i, slot, per_env, mode, strict)."""

    advance: Function  # the whole step; returns what it came to
    advance_if_easy: Function  # the same, but HARD if the step is not an easy one
    advance_hard: Function  # such a step
    begin: Function  # a new episode; without mode and strict


def build(world: KernelWorld) -> Parts:
    """The parts of the loop, closed over a world's functions."""
    agents, size = world.num_agents, math.prod(world.observation_space.shape or ())
    choices = mask_size(world)
    world_reset, observe = adapt(world.reset, "reset"), adapt(world.observe, "observe")
    clear, masks = _clearer(world.state_dtype), _masker(world)
    act, act_if_easy = _actor(world), _easy_actor(world)

    def start(state: Any, params: Any, tables: Any, scratch: Any) -> None:
        clear(state)
        for agent in range(agents):
            state.returns[agent] = 0.0
        state.episode += 1
        state.draws = 0
        state.steps = 0
        state.stage = RUNNING
        world_reset(state, params, tables, scratch)

    def look(columns: Any, tables: Any, i: int, state: Any, params: Any) -> None:
        for agent in range(agents):
            observe(state, columns.observations[i * agents + agent], agent, params, tables)
        masks(columns, i, state, params, tables)

    def settle(columns: Any, i: int, terminated: bool, truncated: bool) -> None:
        for row in range(i * agents, i * agents + agents):
            columns.terminated[row] = terminated
            columns.truncated[row] = truncated

    def begin(columns: Any, tables: Any, i: int, slot: int, per_env: int) -> None:
        state, params = columns.states[i], columns.params[i * per_env]
        start(state, params, tables, columns.scratch[slot])
        look(columns, tables, i, state, params)
        settle(columns, i, False, False)
        for row in range(i * agents, i * agents + agents):
            columns.rewards[row] = 0.0
        columns.spoke[i] = False

    def finish(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any, mode: int) -> None:
        for agent in range(agents):
            columns.last_returns[i * agents + agent] = state.returns[agent]
            columns.last_lengths[i * agents + agent] = state.steps
        if mode == NEXT_STEP:
            state.stage = RESET_NEXT
        elif mode == DISABLED:
            state.stage = OVER
        else:
            for row in range(i * agents, i * agents + agents):
                columns.final_infos[row] = columns.infos[row]
                for k in range(size):
                    columns.flat_finals[row, k] = columns.flat[row, k]
                for k in range(choices):
                    columns.final_masks[row, k] = columns.masks[row, k]
            columns.spoke[i] = False
            start(state, params, tables, columns.scratch[slot])
            look(columns, tables, i, state, params)

    def fault_of(columns: Any, i: int) -> int:
        for row in range(i * agents, i * agents + agents):
            reward = columns.rewards[row]
            if reward - reward != 0.0:  # NaN and infinity, without asking for either by name
                return BAD_REWARD
            good = True
            for k in range(size):
                value = columns.flat[row, k]
                good &= (columns.low[k] <= value) & (value <= columns.high[k])
            if not good:
                return BAD_OBSERVATION
        return FINE

    def stand(columns: Any, tables: Any, i: int, slot: int, per_env: int) -> int:
        """For an env that is not running."""
        if columns.states[i].stage == RESET_NEXT:
            begin(columns, tables, i, slot, per_env)
            return NOTHING
        columns.faults[i] = NOT_RUNNING
        return FAULT

    def advance(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if i < 0:  # never; but now the compiler knows, and leaves out Python's counting from the end in every index
            return NOTHING
        if columns.states[i].stage != RUNNING:
            return stand(columns, tables, i, slot, per_env)
        return advance_hard(columns, tables, i, slot, per_env, mode, strict)

    def advance_hard(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        state, params = columns.states[i], columns.params[i * per_env]
        terminated = act(columns, tables, i, slot, state, params)
        return conclude(columns, tables, i, slot, per_env, mode, strict, terminated)

    def advance_if_easy(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        if columns.states[i].stage != RUNNING:
            return stand(columns, tables, i, slot, per_env)
        done, terminated = act_if_easy(columns, tables, i, columns.states[i], columns.params[i * per_env])
        if not done:
            return HARD
        return conclude(columns, tables, i, slot, per_env, mode, strict, terminated)

    def conclude(
        columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int, terminated: bool
    ) -> int:
        """All that follows the world's own step."""
        state, params = columns.states[i], columns.params[i * per_env]
        state.steps += 1
        columns.spoke[i] = True
        truncated = params.time_limit > 0 and state.steps >= params.time_limit
        look(columns, tables, i, state, params)
        settle(columns, i, terminated, truncated)
        if strict:
            fault = fault_of(columns, i)
            if fault != FINE:
                columns.faults[i] = fault
                return FAULT
        if terminated or truncated:
            finish(columns, tables, i, slot, state, params, mode)
            return ENDED
        return NOTHING

    return Parts(advance, advance_if_easy, advance_hard, begin)


def mask_size(world: KernelWorld) -> int:
    """How many places an action mask has; 0 in a world without masks."""
    return int(getattr(world.action_space, "n", 1)) if world.action_mask is not None else 0


def build_action_check(world: KernelWorld) -> Function:
    """`fits(columns, i)`: whether env i can be given its action."""
    size = world.num_agents * math.prod(world.action_space.shape or ())

    def fits(columns: Any, i: int) -> bool:
        good = True
        for k in range(size):
            action = columns.flat_actions[i, k]
            good &= (columns.action_low[k] <= action) & (action <= columns.action_high[k])
        return good

    return fits


def build_loop(world: KernelWorld) -> Function:
    """`work(columns, tables, books, what, low, high, slot, header)`: STEP, BEGIN or CHECK envs [low, high)."""
    advance, _, _, begin = build(world)
    agents = world.num_agents
    fits = build_action_check(world)

    def check(columns: Any, low: int, high: int) -> int:
        good = True
        for i in range(low, high):  # without a branch or a store: 0.5 ns an env, where it was 4
            good &= fits(columns, i)
        if good:
            return NOTHING
        for i in range(low, high):
            if not fits(columns, i):
                columns.faults[i] = BAD_ACTION
        return FAULT

    def note(columns: Any, books: Any, i: int, slot: int, turn: int, now: int) -> None:
        for row in range(i * agents, i * agents + agents):
            episode = books.episodes[slot, books.counts[slot] % EPISODES_KEPT]
            episode.turn = turn
            episode.row = row
            episode.total = columns.last_returns[row]
            episode.length = columns.last_lengths[row]
            episode.nanoseconds = now - books.started[i]
            books.counts[slot] += 1

    def step_all(columns: Any, tables: Any, books: Any, low: int, high: int, slot: int, header: Any) -> int:
        _, per_env, mode, strict, turn, now = header
        outcome = check(columns, low, high)
        if outcome != NOTHING:
            return outcome
        for i in range(low, high):
            code = advance(columns, tables, i, slot, per_env, mode, strict)
            if code == ENDED:
                note(columns, books, i, slot, turn, now)
            if columns.states[i].steps == 0:
                books.started[i] = now
            outcome |= code
        return outcome

    def begin_wanted(columns: Any, tables: Any, books: Any, low: int, high: int, slot: int, header: Any) -> int:
        _, per_env, _, _, _, now = header
        for i in range(low, high):
            if columns.wanted[i]:
                begin(columns, tables, i, slot, per_env)
                books.started[i] = now
        return NOTHING

    def work(columns: Any, tables: Any, books: Any, what: int, low: int, high: int, slot: int, header: Any) -> int:
        if what == STEP:
            return step_all(columns, tables, books, low, high, slot, header)
        if what == BEGIN:
            return begin_wanted(columns, tables, books, low, high, slot, header)
        return check(columns, low, high)

    return work


def _actor(world: KernelWorld) -> Function:
    """Calls the world's step, and stores its rewards."""
    agents, step = world.num_agents, adapt(world.step, "step")
    clear_info = _clearer(world.info_dtype)

    def act_alone(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> bool:
        clear_info(columns.infos[i])
        reward, terminated = step(
            state, columns.actions[i], params, tables, columns.scratch[slot], columns.infos[i], columns.rewards
        )
        columns.rewards[i] = reward
        state.returns[0] += reward
        return terminated

    def act_together(columns: Any, tables: Any, i: int, slot: int, state: Any, params: Any) -> bool:
        first = i * agents
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        terminated = step(state, columns.actions[i], params, tables, columns.scratch[slot], infos, rewards)
        for agent in range(agents):
            state.returns[agent] += rewards[agent]
        return terminated

    return act_alone if agents == 1 else act_together


def _easy_actor(world: KernelWorld) -> Function:
    """The same for a world's easy steps: returns whether this is one, and if so, whether it terminated."""
    if world.easy is None:
        return never_easy
    agents, easy = world.num_agents, adapt(world.easy, "easy")
    clear_info = _clearer(world.info_dtype)

    def act_alone(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[bool, bool]:
        clear_info(columns.infos[i])
        done, reward, terminated = easy(state, columns.actions[i], params, tables, columns.infos[i], columns.rewards)
        if done:
            columns.rewards[i] = reward
            state.returns[0] += reward
        return done, terminated

    def act_together(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[bool, bool]:
        first = i * agents
        rewards, infos = columns.rewards[first : first + agents], columns.infos[first : first + agents]
        for row in range(first, first + agents):
            clear_info(columns.infos[row])
        done, terminated = easy(state, columns.actions[i], params, tables, infos, rewards)
        if done:
            for agent in range(agents):
                state.returns[agent] += rewards[agent]
        return done, terminated

    return act_alone if agents == 1 else act_together


def never_easy(columns: Any, tables: Any, i: int, state: Any, params: Any) -> tuple[bool, bool]:
    """Stands in where a world knows no easy steps."""
    return False, False


def _masker(world: KernelWorld) -> Function:
    """Writes the action masks, where the world has any."""
    if world.action_mask is None:
        return no_masks
    agents, action_mask = world.num_agents, adapt(world.action_mask, "action_mask")

    def write_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
        for agent in range(agents):
            action_mask(state, columns.masks[i * agents + agent], agent, params, tables)

    return write_masks


def no_masks(columns: Any, i: int, state: Any, params: Any, tables: Any) -> None:
    """Stands in where a world has no action masks."""


def _clearer(dtype: np.dtype) -> Function:
    """A function that sets every field of a record to 0, but for the engine's own: no episode sees the one before."""
    lines = []
    for name in dtype.names or ():
        if name not in RESERVED:
            shape = dtype[name].shape
            index = ", ".join(f"k{d}" for d in range(len(shape)))
            loops = "".join(f"{'    ' * (d + 1)}for k{d} in range({size}):\n" for d, size in enumerate(shape))
            target = f"record.{name}[{index}]" if shape else f"record.{name}"
            lines.append(f"{loops}{'    ' * (len(shape) + 1)}{target} = 0\n")
    scope: dict[str, Any] = {"__name__": __name__}
    exec(f"def clear(record):\n{''.join(lines) or '    pass'}", scope)  # noqa: S102 - field names were checked before
    return scope["clear"]
