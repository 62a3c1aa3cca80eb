"""The loop over envs on a CPU: checks the actions first, and records the statistics of finished episodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from gymnasium import spaces

from rookery.kernel.env_loop import BAD_ACTION, ENDED, FAULT, NOTHING, build, build_begin_step
from rookery.kernel.translate import Function
from rookery.kernel.world import KernelWorld
from rookery.kernel.world_calls import build_action_check

# Commands: step all envs, or what is left of their steps; reset the envs in `reset_mask`; only check the actions; make
# all of a step but its last part, if the world can.
STEP, RESET, CHECK_ACTIONS, BEGIN_STEP = 0, 1, 2, 3
EPISODES_KEPT = 10_000  # finished episodes that a slot (one per thread) keeps until they are read


def build_loop(world: KernelWorld, catch: Callable[[Function], Function] | None = None) -> Function:
    """`run(columns, tables, stats, command, low, high, slot, header)`: runs a command on envs [low, high). An exception
    ends the call, unless `catch` wraps what is done for one env (see call_record.py)."""
    functions, catch = build(world), catch or _call_on
    step_env, reset_env = catch(functions.step_env), catch(_with_mode(functions.reset_env))
    agents = world.num_agents
    fits, copy_observations = build_action_check(world), _build_copy(world)

    def check_actions(columns: Any, low: int, high: int) -> int:
        good = True
        for i in range(low, high):  # without a branch or a store: 0.5 ns per env instead of 4
            good &= fits(columns, i)
        if good:
            return NOTHING
        for i in range(low, high):
            if not fits(columns, i):
                columns.faults[i] = BAD_ACTION
        return FAULT

    def record_episode(columns: Any, stats: Any, i: int, slot: int, batch_step: int, now: int) -> None:
        for row in range(i * agents, i * agents + agents):
            episode = stats.episodes[slot, stats.counts[slot] % EPISODES_KEPT]
            episode.batch_step = batch_step
            episode.row = row
            episode.total = columns.last_returns[row]
            episode.length = columns.last_lengths[row]
            episode.nanoseconds = now - stats.started[i]
            stats.counts[slot] += 1

    def step_all(columns: Any, tables: Any, stats: Any, low: int, high: int, slot: int, header: Any) -> int:
        _, per_env, mode, strict, batch_step, now = header
        outcome = check_actions(columns, low, high)
        if outcome != NOTHING:
            return outcome
        for i in range(low, high):
            code = step_env(columns, tables, stats, i, slot, per_env, mode, strict)
            if code == ENDED:
                record_episode(columns, stats, i, slot, batch_step, now)
            if columns.states[i].steps == 0:
                stats.started[i] = now
            if len(stats.copies) > 0 and i > low:  # one env later: a row that is still being written is slow to read
                copy_observations(columns, stats, i - 1)
            outcome |= code
        if len(stats.copies) > 0 and high > low:
            copy_observations(columns, stats, high - 1)
        return outcome

    def reset_masked(columns: Any, tables: Any, stats: Any, low: int, high: int, slot: int, header: Any) -> int:
        _, per_env, mode, strict, _, now = header
        outcome = NOTHING
        for i in range(low, high):
            if columns.reset_mask[i]:
                outcome |= reset_env(columns, tables, stats, i, slot, per_env, mode, strict)
                stats.started[i] = now
        return outcome

    def run(columns: Any, tables: Any, stats: Any, command: int, low: int, high: int, slot: int, header: Any) -> int:
        if command == STEP:
            return step_all(columns, tables, stats, low, high, slot, header)
        if command == RESET:
            return reset_masked(columns, tables, stats, low, high, slot, header)
        return check_actions(columns, low, high)

    return run if world.begin_step is None else _also_in_parts(run, catch(build_begin_step(world.begin_step)))


def _build_copy(world: KernelWorld) -> Function:
    """Copies what the agents of an env observe into `stats.copies`: while it is in the cache, on the thread that steps
    the env. After a step of 140 us on two threads, a copy of 500 kB on one thread takes another 45."""
    space, agents = world.observation_space, world.num_agents
    size = 0 if isinstance(space, spaces.Dict) else math.prod(space.shape or ())

    def copy(columns: Any, stats: Any, i: int) -> None:
        for row in range(i * agents, i * agents + agents):
            for k in range(size):
                stats.copies[row, k] = columns.flat[row, k]

    return copy


def _call_on(function: Function) -> Function:
    """What is done for one env, with an argument `stats` after the tables, which it does not use."""

    def call(columns: Any, tables: Any, stats: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        return function(columns, tables, i, slot, per_env, mode, strict)

    return call


def _with_mode(reset_env: Function) -> Function:
    """`reset_env` with the arguments of `step_env`."""

    def reset(columns: Any, tables: Any, i: int, slot: int, per_env: int, mode: int, strict: int) -> int:
        return reset_env(columns, tables, i, slot, per_env, strict)

    return reset


def _also_in_parts(run: Function, begin_env: Function) -> Function:
    """As `run`, with the command BEGIN_STEP."""

    def run_or_begin(
        columns: Any, tables: Any, stats: Any, command: int, low: int, high: int, slot: int, header: Any
    ) -> int:
        if command != BEGIN_STEP:
            return run(columns, tables, stats, command, low, high, slot, header)
        _, per_env, mode, strict, _, _ = header
        outcome = NOTHING
        for i in range(low, high):
            outcome |= begin_env(columns, tables, stats, i, slot, per_env, mode, strict)
        return outcome

    return run_or_begin


# --- how a team of threads divides a batch, by what a step costs ------------------------------------------------------

CHUNKS = 4  # per thread's share, at least, so that the other threads can take some of them
CHUNK_SECONDS = 20e-6  # a shorter chunk is not worth dividing further: to take one costs about 0.1 us
PART_SECONDS = 5e-6  # a shorter last part of a step is not worth being apart, which costs 1 to 2 us
ENVS_IN_PARTS = 3  # per thread: those that are taken last. More would not shorten the wait for the last one
FEW = 8  # envs per thread, at most, that are taken by their cost: with more, the wait for the last one is short
PATIENCE = 100_000  # nanoseconds of looks for the next batch, from the end of the last one on; then the thread sleeps
MOST_PATIENCE = 20 * PATIENCE


class Division(NamedTuple):
    """How a batch is divided."""

    shares: int  # one for each thread, or one for all of them
    chunks: int  # of each share
    by_cost: bool = False  # each chunk is one env, and the costliest are first
    patience: int = PATIENCE  # for how many nanoseconds a thread looks for the next batch before it sleeps
    in_parts: int = 0  # of so many envs, the last part of a step is a chunk of its own


def division_of(envs: int, seconds: float, threads: int, parts: int = 1) -> Division:
    """How to divide a batch that takes one thread so many seconds, if a step has so many equal parts. Chunks of costly
    envs are single envs, after which threads wait longer for the next batch."""
    each = seconds / envs
    if envs <= FEW * threads and each > CHUNK_SECONDS:
        patience = max(PATIENCE, min(MOST_PATIENCE, int(2e9 * each)))
        apart = parts > 1 and each / parts > PART_SECONDS and envs > threads
        in_parts = min(envs, ENVS_IN_PARTS * threads) if apart else 0
        return Division(1, envs + in_parts, True, patience, in_parts)
    return Division(threads, max(CHUNKS, min(-(-envs // threads), int(seconds / threads / CHUNK_SECONDS))))
