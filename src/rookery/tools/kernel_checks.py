"""Further checks of a world: a kernel world's array indices, the equality of compiled code and plain Python, and the
speed of one env and of a batch."""

from __future__ import annotations

import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np

from rookery import printing
from rookery.engine.autotune import legal, legal_batch, timed
from rookery.engine.make_vec import make_vec
from rookery.errors import RookeryError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.kernel_env import KernelEnv
from rookery.kernel.plain_values import PlainRecord, PlainRows
from rookery.kernel.two_players import TwoPlayerWorld
from rookery.kernel.world import KernelWorld, adapt
from rookery.tools.trajectory import ReportProblem, ReturnChecker
from rookery.tools.world_report import Watch, WorldReport

ENVS = 16
LEAST_STEPS = 4000  # of all envs together, with index checks
PLAIN_STEPS = 300
TURN_STEPS = 100
STEP_TIMEOUT = 10.0
CLOSE = {"rtol": 1e-6, "atol": 1e-9}  # a compiler may round differently


def first_error(world: KernelWorld, steps: int, seed: int) -> str | None:
    """The first error in thousands of steps with every index checked; None if there is none."""
    try:
        envs = make_vec(world, ENVS, backend="kernel", bounds=True, bad_values="allow", step_timeout=STEP_TIMEOUT)
        envs.single_action_space.seed(seed)
        last: Any = envs.reset(seed=seed)
        for _ in range(max(steps, LEAST_STEPS) // ENVS):
            actions = [envs.single_action_space.sample() for _ in range(envs.num_envs)]
            last = envs.step(np.array(legal_batch(envs.single_action_space, actions, last)))
    except RookeryError as error:
        return str(error)
    return None


def plain_difference(world: KernelWorld, steps: int, seed: int) -> str | None:
    """The first difference between the compiled env and plain Python; None if there is none."""
    compiled, plain = KernelEnv(world), KernelEnv(world, plain=True)
    compiled.action_space.seed(seed)
    last: Any = compiled.reset(seed=seed)
    plain.reset(seed=seed)
    for step in range(min(steps, PLAIN_STEPS)):
        action = legal(compiled.action_space, compiled.action_space.sample(), last)
        last = compiled.step(action)
        try:
            there = plain.step(action)
        except ArithmeticError as error:
            return f"step {step} raises {type(error).__name__} in plain Python ({error}), and not in compiled code"
        if not all(_close(a, b) for a, b in zip(last[:4], there[:4], strict=True)):
            return f"step {step} gives {last[:4]} in compiled code, and {there[:4]} in plain Python"
        if last[2] or last[3]:
            last, _ = compiled.reset(), plain.reset()
    return None


def turn_problem(form: TwoPlayerWorld, seed: int) -> str | None:
    """What is wrong with a world's `turn`, if it has one: it should return 0 or 1, and the action of the other agent
    should change nothing."""
    world = form.world
    if world.turn is None:
        return None
    env, turn = KernelEnv(form), adapt(world.turn, "turn")
    tables = EnvArrays(form, 1)
    shown = tables.tables_type(*map(PlainRows, tables.tables.values()))
    env.action_space.seed(seed)
    last: Any = env.reset(seed=seed)
    for step in range(TURN_STEPS):
        agent = turn(env.state, PlainRecord(form.params_record()[0]), shown)
        if agent not in (0, 1):
            return f"turn should return 0 or 1, whose turn it is, and returned {agent!r} before step {step}"
        action = np.asarray(legal(env.action_space, env.action_space.sample(), last))
        saved = env.get_state()
        last, after = env.step(action), env.get_state()
        env.set_state(saved)
        other = slice(0, len(action) // 2) if agent == 1 else slice(len(action) // 2, None)  # player one is agent 0
        changed = np.asarray(env.action_space.sample())
        action[other] = changed[other]
        again = env.step(action)
        if not _same_step(last, again) or not np.array_equal(after["states"], env.get_state()["states"]):
            return f"it is the turn of agent {agent}, and the action of agent {1 - agent} changed step {step}"
        if last[2] or last[3]:
            last = env.reset()
    return None


def _same_step(one: Any, other: Any) -> bool:
    return all(_close(a, b, exact=True) for a, b in zip(one[:4], other[:4], strict=True))


def _close(one: Any, other: Any, exact: bool = False) -> bool:
    """Whether two results agree; an observation may be a dict of arrays."""
    if isinstance(one, dict):
        return all(_close(one[key], other[key], exact) for key in one)
    return np.array_equal(one, other, equal_nan=True) if exact else np.allclose(one, other, **CLOSE, equal_nan=True)


SPEED_SECONDS = 0.3  # in steps and resets
SPEED_WALL_SECONDS = 2.0  # with what is done between them
CHECKED_STEPS = 1000  # whose values are checked too
BATCH_SECONDS = 0.3
TINY_STEP = 30e-6  # seconds
SLOW_RESET = 200  # steps


def measure_env(
    env: gym.Env, actions: list[Any], ended: bool, watch: Watch, note: ReportProblem, report: WorldReport
) -> None:
    """Step one env for a while; `ended` says whether an episode has ended before."""
    checker, end = ReturnChecker(env, note), time.perf_counter() + SPEED_WALL_SECONDS
    watch.now("reset() while its speed was measured")
    took, last = timed(env.reset)
    steps, in_resets, resets, count = 0.0, took, [took], 0
    while (steps + in_resets < SPEED_SECONDS and time.perf_counter() < end) or count == 0:
        action = legal(env.action_space, actions[count % len(actions)], last)
        where = f"step() number {count} while its speed was measured"
        watch.now(where)
        start = time.perf_counter()
        last = env.step(action)
        steps += time.perf_counter() - start
        if count < CHECKED_STEPS:
            checker.step(where, last)
        count += 1
        if last[2] or last[3]:
            watch.now(f"reset() number {len(resets)} while its speed was measured")
            took, last = timed(env.reset)
            in_resets += took
            resets.append(took)
    report.reset_seconds = statistics.median(resets)
    report.steps_per_second = count / (steps + in_resets - resets[0])
    advise_on_times(steps / count, report)
    if not ended and len(resets) == 1:
        report.advice.append(
            f"no episode ended in a trial of {max(count, len(actions)):,} steps. Training reports the returns of "
            "episodes that ended: return terminated or truncated at some time"
        )


def measure_batch(world: KernelWorld, seed: int, watch: Watch, report: WorldReport) -> None:
    """Step as many envs of a kernel world as `make_vec` and `train` make by default."""
    watch.now("compiling the world for a batch", slow=True)
    envs = make_vec(world, backend="kernel")
    try:
        envs.single_action_space.seed(seed)
        last: Any = envs.reset(seed=seed)
        actions = [envs.single_action_space.sample() for _ in range(envs.num_envs)]
        took, count, end = 0.0, 0, time.perf_counter() + SPEED_WALL_SECONDS
        while (took < BATCH_SECONDS and time.perf_counter() < end) or count == 0:
            watch.now(f"step {count} of a batch of {envs.num_envs} envs")
            chosen = np.array(legal_batch(envs.single_action_space, actions, last))
            start = time.perf_counter()
            last = envs.step(chosen)
            took += time.perf_counter() - start
            count += 1
    finally:
        envs.close()
    report.batch_envs, report.batch_steps_per_second = envs.num_envs, count * envs.num_envs / took


def advise_on_times(step: float, report: WorldReport) -> None:
    """What a step of so many seconds, beside the report's reset, suggests."""
    reset = report.reset_seconds
    if step < TINY_STEP:
        report.advice.append(f"a step takes only {printing.duration(step)}: give each worker many envs")
    if reset > SLOW_RESET * step:
        report.advice.append(
            f"a reset takes as long as {reset / step:,.0f} steps: move what does not change to __init__"
        )
