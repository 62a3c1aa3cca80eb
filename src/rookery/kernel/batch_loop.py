"""The loop over envs on a CPU: checks the actions first, and keeps the books of episodes."""

from __future__ import annotations

from typing import Any

from rookery.kernel.env_loop import BAD_ACTION, ENDED, FAULT, NOTHING, build
from rookery.kernel.translate import Function
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import build_action_check

# What it can be asked to do: step all, begin those that are wanted, only look at the actions.
STEP, BEGIN, CHECK = 0, 1, 2
EPISODES_KEPT = 10_000  # a slot remembers this many ends of episodes until they are asked for


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
        _, per_env, _, strict, _, now = header
        outcome = NOTHING
        for i in range(low, high):
            if columns.wanted[i]:
                outcome |= begin(columns, tables, i, slot, per_env, strict)
                books.started[i] = now
        return outcome

    def work(columns: Any, tables: Any, books: Any, what: int, low: int, high: int, slot: int, header: Any) -> int:
        if what == STEP:
            return step_all(columns, tables, books, low, high, slot, header)
        if what == BEGIN:
            return begin_wanted(columns, tables, books, low, high, slot, header)
        return check(columns, low, high)

    return work
