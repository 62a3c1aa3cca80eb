"""Rollouts in one compiled loop: a perceptron and a kernel world, step after step, on the learner's threads.

For 8 envs of CartPole a step through Python takes 45 us, of which policy and world need 10. The loop does what
`Collector` does with `PPO.explore` and `PPO.record`, bit for bit, for any number of threads: each thread acts for some
envs and steps them. It leaves to Python the last step of a rollout and faults; and, of worlds with infos, every step in
which an episode ends.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from numba import types

from rookery.atomics import atomic_or, call_entry
from rookery.engine.kernel import KernelEngine
from rookery.kernel.batch_loop import STEP
from rookery.kernel.env_loop import ENDED, FAULT
from rookery.kernel.runner import BATCH_STEP
from rookery.learners.cached_njit import cached_cfunc, compiled, float_array, inner, int_array
from rookery.learners.heads import CategoricalHead
from rookery.learners.kernels.cpu.layer_table import share
from rookery.learners.kernels.cpu.ppo_tasks import act_rows, plan_at
from rookery.learners.kernels.cpu.slice_team import SliceTeam, run_tasks
from rookery.learners.learner import Learner
from rookery.once import once

ROWS_OF_TASK = 8  # envs that a thread acts for and steps at a time, at least
MOST_TASKS = 32
FINALS_KEPT = 2  # truncated episodes of each env until Python takes them
# Words that tasks read: of the world, the learner's plan, and of the rollout's present step.
WORDS = 12
(
    ENTRY, WORLD, ACTOR, ENVS, TASKS, OBSERVATIONS, ACTIONS, CHOICES, START, OUTPUTS, TAKEN, NOISE,
) = range(WORDS)  # fmt: skip
OUTCOME = WORDS  # the bitwise or of what came of the envs' steps


def _act_and_step(address: int, command: int, task: int, end: int, slot: int) -> int:
    """Act for a share of the envs, and step them."""
    words = int_array(address, WORDS)
    low, high = share(words[ENVS], task, words[TASKS])
    act_rows(plan_at(words[ACTOR]), words[OBSERVATIONS], words[OUTPUTS], low, high, slot)
    outputs = float_array(words[OUTPUTS], (high, words[CHOICES]))
    noise = float_array(words[NOISE], (high, words[CHOICES]))
    actions, taken = int_array(words[ACTIONS], high), int_array(words[TAKEN], high)
    for i in range(low, high):
        best = 0
        for k in range(1, words[CHOICES]):
            if outputs[i, k] + noise[i, k] > outputs[i, best] + noise[i, best]:
                best = k
        taken[i] = best
        actions[i] = best + words[START]
    atomic_or(address + 8 * OUTCOME, call_entry(words[ENTRY], words[WORLD], STEP, low, high, slot))
    return 0


@once
def _entry_point() -> Any:
    return cached_cfunc(types.int64(*[types.int64] * 5), error_model="numpy")(_act_and_step)


@inner
def _copy(source: np.ndarray, target: np.ndarray) -> None:
    """By hand: for `target[:] = source`, Numba compiles the texts of errors that cannot happen, for five seconds."""
    numbers, copies = source.reshape(-1), target.reshape(-1)
    for k in range(len(numbers)):
        copies[k] = numbers[k]


@compiled
def _roll(
    team: int,
    entry: int,
    words_address: int,
    words: np.ndarray,
    plan: np.ndarray,
    first: int,
    until: int,
    world: Any,
    noise: np.ndarray,
    kept: Any,
    finals: Any,
    informs: bool,
) -> tuple[int, int, int]:
    """Steps `first` to `until` of a rollout; returns how many were recorded, what came of one more that was made and is
    still to be recorded (or -1), and how many truncated episodes `finals` has taken."""
    observations, _, env_rewards, terminated, truncated, final_observations = world
    kept_observations, kept_outputs, kept_actions, kept_rewards, kept_terminated, kept_ended, kept_starts = kept
    final_steps, final_envs, final_kept = finals
    envs, truncations = len(observations), 0
    for t in range(first, until):
        if truncations + envs > len(final_steps):
            return t - first, -1, truncations
        _copy(observations, kept_observations[t])
        words[OUTPUTS], words[TAKEN] = kept_outputs[t].ctypes.data, kept_actions[t].ctypes.data
        words[NOISE], words[OUTCOME] = noise[t].ctypes.data, 0
        plan[BATCH_STEP] += 1
        run_tasks(team, entry, words_address, 0, words[TASKS])
        outcome = words[OUTCOME]
        if outcome & FAULT or (outcome & ENDED and informs):
            return t - first, outcome, truncations
        _copy(env_rewards, kept_rewards[t])
        if outcome & ENDED:
            for i in range(envs):
                ended = terminated[i] or truncated[i]
                kept_terminated[t, i] = terminated[i]
                kept_ended[t, i] = ended
                kept_starts[t + 1, i] = ended
                if truncated[i] and not terminated[i]:
                    final_steps[truncations], final_envs[truncations] = t, i
                    _copy(final_observations[i], final_kept[truncations])
                    truncations += 1
    return until - first, -1, truncations


class FusedCollector:
    """Fills a learner's rollouts from an engine's envs."""

    def __init__(self, envs: KernelEngine, learner: Any) -> None:
        self.envs, self.learner = envs, learner
        self._words = np.zeros(WORDS + 1, np.int64)
        self._alone = SliceTeam(1)
        self._sized_for = 0

    def _set_size(self) -> None:
        """Memory and words that depend on the number of envs."""
        envs, count = self.envs, self.envs.num_envs
        if count != self._sized_for:
            width = envs.plain_arrays()[0].shape[1]
            most = FINALS_KEPT * count
            self._finals = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros((most, width), np.float32)
            self._sized_for = count

    def roll(self, rounds: int) -> tuple[int, int]:
        """Make up to so many steps of all envs, except the last one of the rollout; returns how many were recorded, and
        what came of one more that was made and is still to be recorded (or -1)."""
        learner = self.learner
        first = learner.begin_rollout()
        until = min(first + rounds, learner.rollout.length - 1)
        total = 0
        while first < until:
            made, outcome = self._roll_some(first, until)
            first, total = first + made, total + made
            if outcome >= 0:
                return total, outcome
        return total, -1

    def _roll_some(self, first: int, until: int) -> tuple[int, int]:
        learner, envs, words = self.learner, self.envs, self._words
        head = cast(CategoricalHead, learner.head)
        self._set_size()
        entry, plan, plan_address = envs.compiled_step()
        actor, arrays = learner.accelerator.acting_plan(), envs.plain_arrays()
        tasks = max(1, min(MOST_TASKS, envs.num_envs // ROWS_OF_TASK))
        words[:OUTPUTS] = (
            entry, plan_address, actor.address, envs.num_envs, tasks, arrays[0].ctypes.data, arrays[1].ctypes.data,
            head.outputs, head.start,
        )  # fmt: skip
        team = actor.team if actor.team.threads <= envs.slots else self._alone
        made, outcome, truncations = _roll(
            team.address, _entry_point().address, words.ctypes.data, words, plan, first, until,
            (*arrays, envs.plain_finals()), learner.rollout.noise_array, learner.rollout.arrays(), self._finals,
            bool(envs.world.info),
        )  # fmt: skip
        learner.rollout.advance(slice(0, envs.num_envs), made)
        self._store_finals(truncations)
        return made, outcome

    def _store_finals(self, count: int) -> None:
        """What the loop has kept of truncated episodes, step by step as `PPO.record` stores them."""
        steps, envs, observations = (part[:count] for part in self._finals)
        for t in np.unique(steps):
            rows = np.flatnonzero(steps == t)
            leaf = torch.from_numpy(observations[rows])
            self.learner.rollout.finals.append((int(t), torch.from_numpy(envs[rows]), [leaf]))


def roller_for(envs: Any, learner: Learner) -> FusedCollector | None:
    """A fused collector, if the engine and the learner's accelerator support it. This depends on types and counts only,
    so that the same run is collected in the same way on every machine."""
    if not isinstance(envs, KernelEngine) or not learner.on_policy or len(envs.groups) > 1:
        return None
    return FusedCollector(envs, learner) if envs.plain and learner.accelerator.can_roll(envs.num_envs) else None
