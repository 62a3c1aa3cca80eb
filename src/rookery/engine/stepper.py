"""Steps a range of envs, one after another, and writes the results into their rows of the batch.

This is the only place where an env's `step` and `reset` are called: every backend runs this code, in its own process,
thread or loop, so all of them give the same numbers.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rookery.engine.batch import ROW, STEPS, Batch, join, scalars
from rookery.engine.loops import step_each, store
from rookery.engine.observation_writer import ObservationWriter
from rookery.engine.seeding import GlobalRandom
from rookery.engine.step_report import NOTHING, REPORT, SLOTS, Failure, Slot, StepReport
from rookery.errors import BadValue, ResetNeeded, RookeryError, SpaceError

_RUNNING, _RESET_NEXT, _RESTARTED, _OVER = range(4)
STEP_RETURNS = "step() should return (observation, reward, terminated, truncated, info)"
WHOLE_EPISODE = "whole_episode"  # an info: see `Stepper._record_episode`


@dataclass
class StepError:
    """The result of a step that raised."""

    error: BaseException


class Stepper:
    """Envs [low, low + len(envs)) of the batch."""

    # In the caller's own thread a KeyboardInterrupt comes from the user, not from the env. The thread backend steps in
    # other threads, but resets in the caller's.
    interruptible = reset_interruptible = False
    same_spaces = True  # whether all envs have the batch's observation space

    def __init__(self, envs: list[gym.Env], low: int, strict: bool | str, isolation: list[GlobalRandom] | None) -> None:
        self.envs, self.low, self.strict, self.isolation = envs, low, strict, isolation
        self._phase = [_OVER] * len(envs)
        self._returns, self._lengths = scalars(np.zeros(len(envs))), scalars(np.zeros(len(envs), np.int64))
        self._started = [0.0] * len(envs)
        self._steps = [self._entry(i) for i in range(len(envs))]
        self._slots: dict[str, tuple[tuple[type, ...], Any, Any]] = {}
        self.reset_options: dict[int, dict[str, Any]] = {}  # by row: reset options that hold for all resets of an env

    # --- setup --------------------------------------------------------------------------------------------------

    def attach(self, batch: Batch, words: Any, row_word: int, segment: int) -> None:
        """Use these arrays from now on; `words[row_word]` names the env that is being stepped."""
        self._exact = None if batch.exact is None else batch.exact[segment : segment + 1]  # see `Columns.put`
        low, high = self.low, self.low + len(self.envs)
        self._batch, self._words, self._row_word = batch, words, row_word
        self._count_word = row_word - ROW + STEPS
        self._mode = batch.spec.autoreset_mode
        spaces = None if self.same_spaces else [env.observation_space for env in self.envs]
        self._observer = ObservationWriter(batch.observations, low, high, self.strict, spaces)
        self._final = None
        if batch.finals is not None:
            self._final = ObservationWriter(batch.finals, low, high, self.strict, spaces)
        self._rewards = scalars(batch.rewards[low:high])
        self._terminated = scalars(batch.terminated[low:high])
        self._truncated = scalars(batch.truncated[low:high])
        rows, actions = batch.observations.only_array, batch.actions.only_array
        self._plain_rows = None if rows is None else rows[low:high]
        self._plain_columns = self._rewards, self._terminated, self._truncated, self._returns, self._lengths
        # The common case of actions that are one array, without a call of a method of ours.
        self._copy_actions = None if actions is None or batch.exact is not None else actions[low:high].copy
        self._masks = batch.info_masks[:, low:high]
        self._used_masks = self._masks[:0]
        self._slots_used = True  # perhaps, by a worker that had these rows before and died
        self._slots = {}

    def add_slots(self, slots: Iterable[Slot]) -> None:
        """Write these info keys to shared memory from the next step on."""
        low, high = self.low, self.low + len(self.envs)
        for slot in slots:
            values = self._batch.info_values[slot.index, low:high]
            values = values.view(np.int64) if slot.integer else values
            self._slots[slot.key] = slot.types, scalars(values), scalars(self._masks[slot.index])
        self._used_masks = self._masks[: len(self._slots)]

    def _entry(self, i: int) -> Any:
        """What is called to step env i: its bound method, wrapped only if its random state must be swapped."""
        step = self.envs[i].step
        if self.isolation is None:
            return step
        own_random = self.isolation[i]

        def isolated(action: Any) -> Any:
            own_random.enter()
            try:
                return step(action)
            finally:
                own_random.leave()

        return isolated

    def replace(self, i: int, env: gym.Env) -> None:
        """Replace a broken env."""
        self.envs[i] = env
        self._steps[i] = self._entry(i)

    # --- stepping -----------------------------------------------------------------------------------------------

    def step(self) -> tuple[int, StepReport | None]:
        """Step every env once; returns a status (NOTHING, SLOTS or REPORT) and the report, if there is one."""
        if self._slots_used:
            self._used_masks[...] = False
            self._slots_used = False
        sum_of_rewards, report = self._store(self._step_envs())
        self._words[self._count_word] += len(self._steps)
        if self.strict and not (sum_of_rewards - sum_of_rewards == 0.0 and self._observer.clean()):
            report = self._report_bad_values(report)
        if self._observer.has_kept:
            report = report or StepReport()
            self._move_to(report)
        return (REPORT if report else SLOTS if self._slots_used else NOTHING), report

    def _step_envs(self) -> list[Any]:
        """Only the envs' own steps. Between two of them the caches are cold: any other work here costs five times what
        it costs in `_store`, where it is done for all envs in a row (7 us per env with everything here)."""
        actions = self._actions() if self._copy_actions is None else self._copy_actions()
        return step_each(self._steps, actions, self._phase, self._words, self._row_word, self.low, self._caught)

    def _caught(self, error: BaseException) -> StepError:
        if isinstance(error, KeyboardInterrupt) and self.interruptible:
            raise error
        return StepError(error)

    def _store(self, results: list[Any]) -> tuple[float, StepReport | None]:
        """Write what the envs returned into their rows; returns the sum of rewards (not finite if one of them is not)
        and the report."""
        sum_of_rewards, left = self._store_plain(results)
        report: StepReport | None = None
        if not left:
            return sum_of_rewards, report
        ndarray = np.ndarray
        rewards, terminations, truncations = self._rewards, self._terminated, self._truncated
        returns, lengths = self._returns, self._lengths
        rows, shape, dtype = self._observer.flat_rows, self._observer.flat_shape, self._observer.flat_dtype
        for i in left:
            result = results[i]
            try:
                if type(result) is not tuple and not isinstance(result, tuple):  # named tuples are fine
                    report = self._step_outside_episode(i, result, report)
                    continue
                observation, reward, terminated, truncated, info = result
                rewards[i], terminations[i], truncations[i] = reward, terminated, truncated
                reward = rewards[i]  # a Python float now
                returns[i] += reward
                lengths[i] += 1
                sum_of_rewards += reward
                if terminated or truncated:
                    report, observation, info = self._end_episode(i, observation, info, report)
                if (
                    rows
                    and type(observation) is ndarray
                    and (observation.dtype is dtype or observation.dtype == dtype)
                    and observation.shape == shape
                ):
                    rows[i][...] = observation
                else:
                    self._observer.put(i, observation)
                if info:
                    report = self._store_info(i, info, report)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self.interruptible:
                    raise
                report = self._fail(i, "step", _explained(error, result), report)
        return sum_of_rewards, report

    def _store_plain(self, results: list[Any]) -> tuple[float, Sequence[int]]:
        """Store all ordinary results at once; returns the sum of their rewards, and the positions of the others."""
        if self._plain_rows is None:
            return 0.0, range(len(results))
        sum_of_rewards, marked, left = store(results, self._plain_rows, *self._plain_columns, self._slots)
        self._slots_used |= marked
        return sum_of_rewards, left

    def _actions(self) -> Iterable[Any]:
        """One action per env, in the form Gymnasium gives to a single env; arrays are copies."""
        flags = 0 if self._exact is None else self._exact[0]
        columns, low, high = self._batch.actions, self.low, self.low + len(self.envs)
        if columns.only_array is not None:
            return (columns.exact[0] if flags else columns.only_array)[low:high].copy()
        used = [columns.exact[k] if flags >> k & 1 else column for k, column in enumerate(columns.columns)]
        parts = [column[low:high].copy() for column in used]
        return [join(columns.space, iter(values)) for values in zip(*parts, strict=True)]

    def _end_episode(
        self, i: int, observation: Any, info: dict, report: StepReport | None
    ) -> tuple[StepReport | None, Any, dict]:
        """Record the end of an episode; in SAME_STEP mode the next one starts at once."""
        row = self.low + i
        info = self._record_episode(i, info)
        if self._mode is AutoresetMode.NEXT_STEP:
            self._phase[i] = _RESET_NEXT
        elif self._mode is AutoresetMode.DISABLED:
            self._phase[i] = _OVER
        else:
            assert self._final is not None
            self._final.put(i, observation)
            problem, final_objects = self._final.problem(i), list[tuple[int, int, Any]]()
            if problem is not None:
                raise problem
            if self._final.has_kept:
                final_objects, notes = self._final.take_kept()
                self._observer.keep(notes=notes)
            if info and not hasattr(info, "items"):
                raise _no_dict(info)
            if info or final_objects:  # copied before the reset: an env may return the same objects again
                report = report or StepReport()
                report.final_infos.append((row, _copied_info(info)))
                report.final_objects += final_objects
            observation, info = self._reset_env(i, None, None)
        return report, observation, info

    def _record_episode(self, i: int, info: Any) -> Any:
        """Record how the episode went; returns the info of its last step. An env whose episodes are parts of longer
        ones, such as the lives of a game, says of those how they went: (return, length), or None before one ends."""
        row, went = self.low + i, (self._returns[i], self._lengths[i])
        if type(info) is dict and WHOLE_EPISODE in info:
            went = info[WHOLE_EPISODE] or (0.0, 0)
            info = {key: value for key, value in info.items() if key != WHOLE_EPISODE}
        self._batch.returns[row], self._batch.lengths[row] = went
        self._batch.seconds[row] = time.perf_counter() - self._started[i]
        return info

    def _step_outside_episode(self, i: int, result: Any, report: StepReport | None) -> StepReport | None:
        """Handle an env that is not in an episode (after its end, or after a restart), or whose step failed."""
        if type(result) is StepError:
            return self._fail(i, "step", result.error, report)
        phase = self._phase[i]
        if result is not None or phase == _RUNNING:
            raise SpaceError(f"{STEP_RETURNS}, got {None if result is None else type(result).__name__}")
        if phase == _OVER:
            raise ResetNeeded("not in an episode: call reset(), or reset(options={'reset_mask': ...}) for some envs")
        self._rewards[i], self._terminated[i] = 0.0, False
        self._truncated[i] = phase == _RESTARTED
        if phase == _RESTARTED:
            return self._announce_restart(i, report)
        observation, info = self._reset_env(i, None, None)
        self._observer.put(i, observation)
        return self._store_info(i, info, report) if info else report

    def _announce_restart(self, i: int, report: StepReport | None) -> StepReport:
        """End the lost episode as truncated. Its last observation is lost: the new episode's first replaces it."""
        self._batch.returns[self.low + i], self._batch.lengths[self.low + i] = self._returns[i], self._lengths[i]
        self._batch.seconds[self.low + i] = 0.0
        self._returns[i], self._lengths[i] = 0.0, 0
        report = report or StepReport()
        report.infos.append((self.low + i, {"restarted": True}))
        if self._mode is AutoresetMode.SAME_STEP:
            assert self._final is not None
            self._final.put(i, self._batch.observations.row(self.low + i))
            report.final_infos.append((self.low + i, {"restarted": True}))
        self._phase[i] = {AutoresetMode.NEXT_STEP: _RESET_NEXT, AutoresetMode.DISABLED: _OVER}.get(self._mode, _RUNNING)
        return report

    def _store_info(self, i: int, info: dict[str, Any], report: StepReport | None) -> StepReport | None:
        """Write numbers with a slot to shared memory, and the rest into the report."""
        slots, rest = self._slots, None
        for key, value in info.items():
            slot = slots.get(key)
            if slot is not None and type(value) in slot[0]:
                try:
                    slot[1][i] = value
                    slot[2][i] = self._slots_used = True
                    continue
                except ValueError:
                    pass  # an integer of more than eight bytes
            if rest is None:
                rest = {key: value}
            else:
                rest[key] = value
        if rest is not None:
            report = report or StepReport()
            report.infos.append((self.low + i, rest))
        return report

    def _report_bad_values(self, report: StepReport | None) -> StepReport | None:
        """Some reward or observation is not finite or outside its space: report the envs that returned one."""
        failed = {f.row for f in report.failures} if report else set()
        problems: dict[int, RookeryError] = self._observer.problems(range(len(self.envs)))
        for i, reward in enumerate(self._rewards.tolist()):
            if not math.isfinite(reward):
                problems.setdefault(i, BadValue(f"reward is {reward}"))
        for i, problem in problems.items():
            if self.low + i not in failed:
                report = self._fail(i, "step", problem, report)
        return report

    def _fail(self, i: int, phase: str, error: BaseException, report: StepReport | None) -> StepReport:
        if isinstance(error, (BadValue, SpaceError)):
            error.args = (f"env {self.low + i}, step {self._lengths[i]} of its episode: {error}",)
        report = report or StepReport()
        report.failures.append(Failure(self.low + i, phase, error))
        self._rewards[i], self._terminated[i], self._truncated[i] = 0.0, False, False
        return report

    # --- resetting ----------------------------------------------------------------------------------------------

    def reset(self, positions: Sequence[int], seeds: Sequence[int | None], options: dict | None) -> StepReport:
        """Reset the envs at these positions."""
        report = StepReport()
        for i, seed in zip(positions, seeds, strict=True):
            try:
                observation, info = self._reset_env(i, seed, options)
                self._observer.put(i, observation)
                self._rewards[i], self._terminated[i], self._truncated[i] = 0.0, False, False
                if info:
                    report.infos.append((self.low + i, info))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self.reset_interruptible:
                    raise
                self._fail(i, "reset", error, report)
        wanted, failed = set(positions), {f.row for f in report.failures}
        for i, problem in self._observer.problems(wanted).items():
            if self.low + i not in failed:
                self._fail(i, "reset", problem, report)
        self._move_to(report)
        return report

    def _move_to(self, report: StepReport) -> None:
        """Hand over what the observer has kept besides arrays."""
        report.objects, report.notes = self._observer.take_kept()

    def restart(self, i: int, seed: int) -> StepReport:
        """Start a new episode after a failure; the next step reports it (`truncated`, `info["restarted"]`)."""
        lost_return, lost_length = self._returns[i], self._lengths[i]
        report = self.reset([i], [seed], None)
        self._returns[i], self._lengths[i] = lost_return, lost_length
        self._phase[i] = _RESTARTED
        return report

    def announce_restart(self, i: int) -> StepReport:
        """Report a restart within the step that caused it."""
        self._rewards[i], self._terminated[i], self._truncated[i] = 0.0, False, True
        return self._announce_restart(i, None)

    def _reset_env(self, i: int, seed: int | None, options: dict | None) -> tuple[Any, dict]:
        self._words[self._row_word] = self.low + i
        self._returns[i], self._lengths[i], self._started[i] = 0.0, 0, time.perf_counter()
        own_options = self.reset_options.get(self.low + i)
        if own_options is not None:
            options = {**own_options, **(options or {})}
        result = _pair(self._call_reset(i, seed, options))
        self._phase[i] = _RUNNING  # only now: an env whose reset failed is not in an episode
        return result

    def _call_reset(self, i: int, seed: int | None, options: dict | None) -> Any:
        if self.isolation is None:
            return self.envs[i].reset(seed=seed, options=options)
        own_random = self.isolation[i]
        if seed is not None:
            own_random.seed(seed)
        own_random.enter()
        try:
            return self.envs[i].reset(seed=seed, options=options)
        finally:
            own_random.leave()

    # --- state --------------------------------------------------------------------------------------------------

    def episode_stats(self, i: int) -> dict[str, Any]:
        """What the engine itself keeps about env i's episode."""
        seconds = time.perf_counter() - self._started[i]
        return {"phase": self._phase[i], "return": self._returns[i], "length": self._lengths[i], "seconds": seconds}

    def load_episode_stats(self, i: int, stats: dict[str, Any]) -> None:
        self._phase[i], self._returns[i], self._lengths[i] = stats["phase"], stats["return"], stats["length"]
        self._started[i] = time.perf_counter() - stats["seconds"]


def _pair(result: Any) -> tuple[Any, dict]:
    """What reset() returned, checked: without an info, the observation itself might be unpacked."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
    raise SpaceError(f"reset() should return (observation, info), got {got}: return observation, {{}}")


def _copied_info(info: dict[str, Any]) -> dict[str, Any]:
    """A copy of an info, which a reset does not change; what cannot be copied (a lock, a socket) is not."""
    try:
        return copy.deepcopy(info)
    except Exception:  # noqa: BLE001 - copying runs the objects' own code
        if type(info) is not dict:
            return info
        return {key: _copied_info(value) for key, value in info.items()}


def _explained(error: BaseException, result: Any) -> BaseException:
    """A clearer error than Python's own for a malformed result of step()."""
    if isinstance(error, RookeryError) or not isinstance(result, tuple):
        return error
    if isinstance(error, ValueError) and len(result) != 5:
        old = ": the `done` of the old Gym is `terminated`, with False for `truncated`" if len(result) == 4 else ""
        return SpaceError(f"{STEP_RETURNS}, got {len(result)} values{old}")
    if isinstance(error, (TypeError, ValueError)) and not _is_number(result[1]):
        return SpaceError(f"reward should be a number, got {result[1]!r}")
    if isinstance(error, AttributeError) and not hasattr(result[4], "items"):
        return _no_dict(result[4])
    return error


def _no_dict(info: Any) -> SpaceError:
    return SpaceError(f"info should be a dict, got {info!r}")


def _is_number(value: Any) -> bool:
    try:
        float(value)
        return True
    except (TypeError, ValueError):
        return False
