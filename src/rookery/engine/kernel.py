"""The kernel backend: a kernel world's envs, stepped by compiled code on one thread or several."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from rookery.engine import seeding
from rookery.engine.async_calls import AsyncCalls, Finish, check_time
from rookery.engine.batch import ALL, STEPS, Batch, BatchSpec, private_batch
from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory, EnvFromWorld
from rookery.engine.kernel_envs import KernelEnvs, compiled_world, env_numbers, per_env_parameters
from rookery.engine.loops import read_records
from rookery.engine.machine import process_usage
from rookery.engine.segment_stepping import EPISODE
from rookery.engine.segments import Segment
from rookery.engine.settings import Settings, masked_worlds, positive_int, without_mask
from rookery.engine.step_report import Failure, StepReport, positions_of
from rookery.engine.thread_choice import ThreadChoice
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import BadValue, OptionError, SpaceError, StateError, UsageError
from rookery.kernel.env_arrays import EnvArrays
from rookery.kernel.env_loop import BAD_ACTION, DISABLED, ENDED, FAULT, NEXT_STEP, SAME_STEP, STOPPED
from rookery.kernel.runner import Runner
from rookery.kernel.tables import check_same

MODES = {AutoresetMode.NEXT_STEP: NEXT_STEP, AutoresetMode.SAME_STEP: SAME_STEP, AutoresetMode.DISABLED: DISABLED}
LARGE = 2**15  # bytes of observations that compiled steps copy too; NumPy copies fewer in the time to arrange that
SAVED = (
    "params", "states", "memory", "infos", "final_infos", "finals", "rewards", "terminated", "truncated", "masks",
    "final_masks",
)  # fmt: skip


class KernelEngine(Engine):
    """All envs in this process, stepped by compiled code without the GIL.

    With several agents in a world, every agent of every env is a row: `num_envs` counts rows, `num_worlds` counts envs,
    and row `i * num_agents + k` is agent k of env i.
    """

    backend = "kernel"

    def __init__(self, source: EnvFactory, settings: Settings) -> None:
        kernel = compiled_world(source, settings, self.backend)
        self.world, self.agents, self._kernel = kernel.world, kernel.world.num_agents, kernel
        self._threads, self._earlier_steps = settings.workers, 0
        if self.agents > 1:
            if settings.groups > 1 or settings.batch_size is not None:
                raise OptionError("a world with several agents is stepped as a whole: omit groups and batch_size")
            settings = replace(settings, num_envs=settings.num_envs * self.agents)
        super().__init__(source, replace(settings, workers=1))

    # --- what a backend provides --------------------------------------------------------------------------------

    @property
    def num_worlds(self) -> int:
        """How many envs there are; with one agent per env, as many as rows."""
        return self.num_envs // self.agents

    @property
    def workers(self) -> int:
        return 1

    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        self._envs = KernelEnvs(self._kernel)
        return self._envs.description()

    def _batch_spec(self) -> BatchSpec:
        return replace(super()._batch_spec(), exact_actions=False)  # compiled code takes those of its space

    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        self.batch: Batch = private_batch(spec)
        self.arena = EnvArrays(self.world, self.num_worlds, max(self._threads, 1), self._given(spec))
        self._use_records()
        self._runner = self._new_runner(MODES[spec.autoreset_mode])
        self._envs.attach(self.arena, self._runner)
        self.close_extras()
        threads = 1 if self._runner.is_plain else self._threads
        self._thread_choice = ThreadChoice(self._runner, threads)
        self._silent = not self.world.info and self.world.action_mask is None
        self._info_keys = [(name, f"_{name}") for name in self.world.info]
        self._info_mask, self._info_dtype = self.arena.info_mask, self.arena.infos.dtype
        self._info_bytes, self._final_info_bytes = map(_as_bytes, (self.arena.infos, self.arena.final_infos))
        self._info_columns = record_columns(self.arena.infos.dtype, self.world.info)
        self._all_informed, self._everywhere = bytes([1]) * self.num_worlds, np.ones(self.num_envs, np.bool_)
        self._everywhere.flags.writeable = False
        views = {name: self.arena.infos[name] for name in self.world.info}
        self._info_views = {**views, **{f"_{name}": self._everywhere for name in views}}  # for `copy=False`
        self._observed = self.batch.observations.only_array  # None, if they are a dict of arrays
        size = 0 if self._observed is None else self._observed.nbytes
        self._copies_in_step = self.settings.copy and size >= LARGE and not self._runner.is_plain
        self._same_step = spec.autoreset_mode is AutoresetMode.SAME_STEP

    def _new_runner(self, mode: int) -> Runner:
        settings = self.settings
        return Runner(
            self.arena, mode, settings.bad_values != "allow", timeout=settings.step_timeout, bounds=settings.bounds
        )

    def _given(self, spec: BatchSpec) -> dict[str, np.ndarray]:
        """The batch's arrays, in the shapes that the compiled loop takes."""
        batch, rows = self.batch, self.num_envs
        observed, acted = batch.observations.only_array, batch.actions.only_array
        given = {
            "actions": acted if self.agents == 1 else acted.reshape(self.num_worlds, self.agents, *acted.shape[1:]),
            "rewards": batch.rewards,
            "terminated": batch.terminated,
            "truncated": batch.truncated,
            "last_returns": batch.returns,
            "last_lengths": batch.lengths,
        }
        if observed is not None:
            given["observations"] = observed.reshape(rows, *(observed.shape[1:] or (1,)))
            if batch.finals is not None:
                given["finals"] = batch.finals.only_array.reshape(given["observations"].shape)
        return given

    def _use_records(self) -> None:
        """A dict of observations is stored as records by the compiled code: the batch gives out their fields."""
        if isinstance(self.world.observation_space, spaces.Dict):
            for columns, records in ((self.batch.observations, "observations"), (self.batch.finals, "finals")):
                if columns is not None:
                    columns.columns = [self.arena.arrays[records][leaf.path[0]] for leaf in columns.leaves]

    def _start_step(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self.batch.go[segment.index] += 1

    def _wait(self, segments: Sequence[Segment], need: int, timeout: float | None = None) -> None:
        start = 0.0 if timeout is None else time.perf_counter()
        go, done, count = self.batch.go, self.batch.done, 0
        for segment in segments:
            if done[segment.index] != go[segment.index]:
                if count >= need:
                    continue
                done[segment.index] = go[segment.index]
                self._outcome(segment.low // self.agents, segment.high // self.agents)
            count += segment.high - segment.low
        if timeout is not None:
            check_time("step", start, timeout)

    def _read_report(self, segment: Segment) -> StepReport:
        raise AssertionError("compiled code writes its results into arrays only")

    def _call_workers(self, calls: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        return {k: getattr(self._envs, method)(*args) for k, (method, args) in calls.items()}

    def _notify_workers(self, method: str, args: tuple) -> None:
        """Nothing to do: info columns have their places already, and `reset_with` is kept by `KernelEnvs`."""

    def _resize_workers(self, spec: BatchSpec) -> None:
        old, kept = self.arena, min(self.arena.num_envs, self.num_worlds)
        self._earlier_steps += self._runner.steps
        self._start_workers(spec, self.description)
        if old.per_env or len(old.params) > 1:
            self.arena.spread_params()
        for name in (*SAVED, "observations", "last_returns", "last_lengths", "started"):
            rows = kept if len(old.arrays[name]) in (1, old.num_envs) else kept * self.agents
            self.arena.arrays[name][:rows] = old.arrays[name][:rows]
        self._runner.refresh()

    def _usage(self) -> list[dict[str, Any]]:
        self.batch.worker_words[STEPS] = self._earlier_steps + self._runner.steps
        return [process_usage(os.getpid())]

    # --- stepping -----------------------------------------------------------------------------------------------

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs once."""
        if self.closed or self._in_flight or self._broken or self._pending:
            self._require_idle("step")
        batch = self.batch
        mine = batch.actions.only_array
        if type(actions) is np.ndarray and actions.dtype == mine.dtype and actions.shape == mine.shape:
            mine[...] = actions  # the common case, at half the cost
        else:
            batch.actions.put(ALL, actions, self.num_envs)
        step_all = self._runner.step_all if self._thread_choice.single else self._thread_choice.step
        if not self._copies_in_step:
            return self.finish_step(step_all())
        copies = np.empty_like(self._observed)
        return self.finish_step(self._runner.step_with_copies(step_all, copies), copies)

    def step_rows(
        self, actions: Any, rows: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """The same without a segment for each env, at a tenth of the cost."""
        self._require_idle("step")
        self.batch.actions.put(rows, actions, len(rows))
        first, *others = rows.tolist() if self.agents == 1 else (rows[:: self.agents] // self.agents).tolist()
        last = first
        for env in others:  # those that are next to each other in one call
            if env != last + 1:
                self._outcome(first, last + 1)
                first = env
            last = env
        self._outcome(first, last + 1)
        return self.finish_rows(rows)

    def finish_step(
        self, outcome: int, copies: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """What `step` returns, after the compiled code has run; with the copies of observations that it made."""
        batch = self.batch
        infos: dict[str, Any] = {}
        if outcome & ENDED and self._reset_options:
            outcome |= self._envs.restart_with_waiting(batch.terminated | batch.truncated)
            copies = None
        if outcome & FAULT:
            self._recover_all(infos, None)
            copies = None
        if not self._silent:
            self._read_infos(infos, ALL)
        if self._same_step and (outcome & ENDED or "restarted" in infos):
            self._read_finals(infos, ALL)
        if copies is not None:
            observed: Any = copies
        elif self._observed is None:
            observed = batch.observations.take(ALL, self._copy)
        else:
            observed = self._observed.copy() if self._copy else self._observed
        return (
            observed, batch.rewards.copy(), batch.terminated.copy(),
            batch.truncated.copy(), infos,
        )  # fmt: skip

    @property
    def plain(self) -> bool:
        """Whether a step is only arrays: one vector of floats per row, one discrete action, no masks. Infos may
        be read where episodes end."""
        return self.has_plain_steps and self._same_step

    @property
    def has_plain_steps(self) -> bool:
        """As `plain`, whatever follows the end of an episode."""
        observed, acted = self.batch.observations.only_array, self.batch.actions.only_array
        if observed is None:
            return False
        vectors = observed.ndim == 2 and observed.dtype == np.float32 and acted.ndim == 1
        watched = self.settings.step_timeout is not None or self._runner.is_plain
        return vectors and self.world.action_mask is None and self.agents == 1 and not self._copy and not watched

    def plain_arrays(self) -> tuple[np.ndarray, ...]:
        """Observations, actions, rewards and flags of all envs, as compiled code reads and writes them."""
        batch = self.batch
        return self._observed, batch.actions.only_array, batch.rewards, batch.terminated, batch.truncated

    def plain_finals(self) -> np.ndarray:
        """The last observations of episodes that ended in the latest step, where they did."""
        assert self.batch.finals is not None
        finals = self.batch.finals.only_array
        assert finals is not None
        return finals

    @property
    def slots(self) -> int:
        """How many threads may step envs at the same time."""
        return self.arena.slots

    def compiled_step(self) -> tuple[int, np.ndarray, int]:
        """For compiled loops: the address of the code that steps, and its plan with its address."""
        self._require_idle("step")
        return self._runner.compiled()

    def receive_segments(self, segments: Sequence[Segment], rows: slice | np.ndarray, count: int) -> tuple:
        try:
            self._wait(segments, count)
        finally:
            self._forget_in_flight(segments)
        return self.finish_rows(rows)

    def finish_rows(self, rows: slice | np.ndarray) -> tuple:
        """What a step of these rows returns, after the compiled code has run."""
        infos: dict[str, Any] = {}
        batch = self.batch
        if self._reset_options:
            ended = np.zeros(self.num_envs, np.bool_)
            ended[rows] = batch.terminated[rows] | batch.truncated[rows]
            self._envs.restart_with_waiting(ended)
        if self.arena.faults.any():
            self._recover_all(infos, positions_of(rows, self.num_envs))
        if not self._silent:
            self._read_infos(infos, rows)
        terminated, truncated = batch.terminated[rows].copy(), batch.truncated[rows].copy()
        if self._same_step and (terminated | truncated).any():
            self._read_finals(infos, rows)
        return batch.observations.take(rows, self._copy), batch.rewards[rows].copy(), terminated, truncated, infos

    def _outcome(self, low: int, high: int) -> int:
        """Step envs [low, high)."""
        if high - low == self.num_worlds:
            return self._thread_choice.step()
        return self._runner.step_range(low, high)

    # --- infos, faults, episodes --------------------------------------------------------------------------------

    def _read_infos(self, infos: dict[str, Any], rows: slice | np.ndarray) -> None:
        if rows is not ALL or self._info_mask.tobytes() != self._all_informed:
            every_row = self._info_mask if self.agents == 1 else np.repeat(self._info_mask, self.agents)
            self._add_columns(infos, self._info_bytes, rows, every_row[rows])
        elif self._copy:  # the common case, at a fifth of the cost
            read_records(infos, self._info_columns, self._info_bytes, self._everywhere)
        else:
            infos.update(self._info_views)  # as observations, until the next step: 1 us instead of 12 for 15 columns
        if self.world.action_mask is not None:
            infos["action_mask"] = self.arena.masks[rows].copy()
            infos["_action_mask"] = np.ones(len(infos["action_mask"]), np.bool_)

    def _add_columns(self, infos: dict[str, Any], records: np.ndarray, rows: Any, mask: np.ndarray) -> None:
        """Infos as columns with their mask: views of one copy of all records, at a tenth of the cost of a copy each.
        As bytes, because NumPy copies records field by field, which takes 20 us for 256 envs and 15 columns."""
        count = np.count_nonzero(mask)
        if not count:
            return
        raw, mask = records.copy() if rows is ALL else records[rows].copy(), mask.copy()
        if count < len(mask):
            raw[~mask] = 0
        copied = np.ndarray(len(mask), self._info_dtype, raw)
        for name, key in self._info_keys:
            infos[name], infos[key] = copied[name], mask

    def _read_finals(self, infos: dict[str, Any], rows: slice | np.ndarray) -> None:
        """The last observations and infos of episodes that ended in this step."""
        batch, finals = self.batch, self.batch.finals
        assert finals is not None
        ended = batch.terminated[rows] | batch.truncated[rows]
        ids = np.arange(self.num_envs)[rows]
        infos["final_obs"] = np.full(len(ids), None, dtype=object)
        infos["final_info"] = infos.get("final_info", {})
        known = ended & ~infos["_restarted"] if "restarted" in infos else ended.copy()  # of the others nothing is left
        self._add_columns(infos["final_info"], self._final_info_bytes, rows, known)
        if self.world.action_mask is not None:
            masks = np.where(ended[:, None], self.arena.final_masks[rows], np.int8(0))
            infos["final_info"]["action_mask"], infos["final_info"]["_action_mask"] = masks, ended.copy()
        infos["_final_obs"], infos["_final_info"] = ended, known
        for at in ended.nonzero()[0].tolist():
            infos["final_obs"][at] = finals.row(int(ids[at]))

    def _recover_all(self, infos: dict[str, Any], position: dict[int, int] | None, phase: str = "step") -> None:
        """Raise the first fault, or restart the envs where that is allowed."""
        arena = self.arena
        try:
            stopped_first = np.argsort(arena.faults != STOPPED, kind="stable")  # they leave no env between two parts
            for env in stopped_first[arena.faults[stopped_first] != 0].tolist():
                fault = arena.faults[env]
                error = self._runner.fault_to_exception(env)
                if isinstance(error, (BadValue, SpaceError)):
                    when = "" if fault == BAD_ACTION else f", step {arena.states['steps'][env]} of its episode"
                    error.args = (f"env {env}{when}: {error}",)
                if fault == BAD_ACTION or isinstance(error, UsageError):
                    raise error
                self._recover(Failure(env * self.agents, phase, error), infos, position)
        finally:
            arena.faults[:] = 0  # of all envs, also if the first was raised

    def finished_episodes(self) -> np.ndarray:
        """Episodes that ended since the last call, as records of env, return, length and seconds, oldest first."""
        taken = self.arena.take_episodes()
        episodes = np.zeros(len(taken), EPISODE)
        for mine, theirs in (("env", "row"), ("return", "total"), ("length", "length")):
            episodes[mine] = taken[theirs]
        episodes["seconds"] = taken["nanoseconds"] * 1e-9
        return episodes

    # --- resetting, parameters, state ---------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`. Other options are values for the world's parameters."""
        self._require_idle("reset")
        options, mask = without_mask(options)
        everything = np.ones(self.num_worlds, np.bool_)
        chosen = everything if mask is None else masked_worlds(mask, self.num_envs, self.agents)
        envs = np.flatnonzero(chosen)
        seeds = seeding.env_seeds(seed, self.num_worlds)
        self._restarts.reseed(seed)
        if options:
            self._envs.apply_waiting(envs.tolist())
            self.set_parameters(envs=envs, **options)
        infos: dict[str, Any] = {}
        self.arena.info_mask[:] = False  # envs that are not reset have no infos
        if self._envs.begin(envs, seeds) & FAULT:
            self._recover_all(infos, None, "reset")
        if not self._silent:
            self._read_infos(infos, ALL)
        if mask is not None and self.world.action_mask is not None:
            others = ~np.repeat(chosen, self.agents)
            infos["action_mask"][others], infos["_action_mask"][others] = 0, False
        self._last_ids = None
        return self.batch.observations.take(ALL, self.settings.copy), infos

    def _begin_reset(self, seed: Any, options: dict[str, Any] | None) -> Finish:
        return AsyncCalls._begin_reset(self, seed, options)  # there are no workers to start it in

    def reset_with(self, options: Mapping[int, dict[str, Any]]) -> None:
        """As in other backends; options are values of the world's parameters. With several agents, keys are numbers of
        worlds."""
        super().reset_with(options)
        self._envs.set_next_parameters(options)

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The world's parameters as they are now, one value per env."""
        return per_env_parameters(self.arena.params, self.num_worlds)

    def set_parameters(self, envs: Any = None, **values: Any) -> None:
        """Change parameters from the next step on: of all envs or of some, with one value or one per env."""
        self._require_idle("set_parameters")
        self._envs.set_parameters(env_numbers(envs, self.num_worlds), values)

    def set_tables(self, **tables: Any) -> None:
        """Replace arrays of the world's tables, without compiling again. A contiguous array of the declared dtype is
        not copied, nor is such a slice of one. If a table becomes shorter, call `reset` before the next step."""
        self._require_idle("set_tables")
        self.world = self.world.with_tables(**tables)
        self._envs.replace_tables(self.world)
        self.source = replace(self.source, makers=(EnvFromWorld(self.world),))

    def state_dict(self, portable: bool = True) -> dict[str, Any]:
        """Everything needed to continue exactly from here; always arrays and plain values. See `load_state_dict`."""
        self._require_idle("state_dict")
        return {
            **self._state_header(portable=True),
            "observations": self.batch.observations.take(ALL),
            "world": self.world.name,
            "layout": repr(self.world.state_dtype),
            "parameters": repr(self.world.params_dtype),
            "tables": self.world.table_facts,
            "arrays": {name: _bytes(self.arena.arrays[name]) for name in SAVED},
        }

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Continue from a `state_dict()` of this world; returns the observations held then."""
        self._require_idle("load_state_dict")
        self._check_state(state, "arrays")
        if state["world"] != self.world.name:
            raise StateError(f"the state was saved with world={state['world']!r}, this engine has {self.world.name!r}")
        if state["layout"] != repr(self.world.state_dtype):
            raise StateError(f"the fields of {self.world.name}'s state have changed since it was saved")
        parameters = repr(self.world.params_dtype)
        if state.get("parameters", parameters) != parameters:
            raise StateError(f"the parameters of {self.world.name} have changed since its state was saved")
        check_same(self.world.name, state.get("tables"), self.world.table_facts)
        self._load_params(state["arrays"]["params"])
        self._envs.forget_applied()
        for name in SAVED[1:]:
            if name == "memory" and not self.world.memory:
                continue  # which earlier versions did not save
            _restore(self.arena.arrays[name], state["arrays"][name], name)
        self._restarts.load_state_dict(state)
        self.batch.observations.put(ALL, state["observations"], self.num_envs)
        return self.batch.observations.take(ALL, self.settings.copy)

    def _load_params(self, saved: np.ndarray) -> None:
        """One record for all envs, or one for each."""
        records = np.frombuffer(saved.tobytes(), self.world.params_dtype)
        if len(records) > 1:
            self._envs.spread_params()
        self.arena.params[:] = records

    def resize(self, num_envs: int) -> None:
        """As in other backends; with several agents it counts worlds, as `make_vec` does."""
        positive_int("num_envs", num_envs)
        super().resize(num_envs * self.agents)

    def close_extras(self, **kwargs: Any) -> None:
        sharing = getattr(self, "_thread_choice", None)
        if sharing is not None:
            sharing.close()


def record_columns(record: np.dtype, names: Iterable[str]) -> list[tuple[str, str, np.dtype, int, tuple[int, ...]]]:
    """For each of these fields of a record: its name, the key of its mask, the dtype of its numbers, where it begins in
    the record, and its shape."""
    places: Mapping[str, Any] = record.fields or {}
    return [(name, f"_{name}", record[name].base, places[name][1], record[name].shape) for name in names]


def _as_bytes(records: np.ndarray) -> np.ndarray:
    """The memory of records, one row each."""
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(array.tobytes(), np.uint8)


def _restore(array: np.ndarray, saved: np.ndarray, name: str) -> None:
    if saved.nbytes != array.nbytes:
        raise StateError(f"the saved {name} have another size: the world has changed since the state was saved")
    array[...] = np.frombuffer(saved.tobytes(), array.dtype).reshape(array.shape)
