"""The engine: many envs as one `gymnasium.vector.VectorEnv`. A backend adds how the envs are stepped.

`step(actions)` writes the actions into the batch, has the backend step the segments of all workers, waits for them,
and returns what the workers wrote into the batch.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from rookery.engine import seeding
from rookery.engine.async_calls import Deferred, Finish
from rookery.engine.batch import ALL, STEPS, WORKER_WORDS, BatchSpec, check_count, check_memory, is_custom, leaves
from rookery.engine.env_factory import EnvFactory
from rookery.engine.segment_stepping import SegmentStepping
from rookery.engine.segments import (
    Group,
    Segment,
    complete_segments,
    divide,
    group_ranges,
    redivide,
    rows_by_worker,
    rows_of,
)
from rookery.engine.settings import Settings, masked_rows, plain_int, positive_int, without_mask
from rookery.engine.snapshot import load_columns, load_options, save_columns, save_options
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import CallPending, CustomSpaceError, NoCallPending, OptionError, StateError, UsageError
from rookery.foreign_names import missing

INHERITED = UsageError("the engine belongs to another process")


class Engine(SegmentStepping):
    """The same on all backends: Gymnasium's interface, and methods beyond it.

    With `copy=False` the observations returned by `reset`, `step` and `recv` are views that the next `step` or `send`
    of the same envs overwrites; rewards, terminated and truncated are always copies.
    """

    forkable = True  # whether a forked child can use its copy of the engine: workers and threads stay with the parent

    def __init__(self, source: EnvFactory, settings: Settings) -> None:
        super().__init__(source, settings)
        check_count(self.num_envs, compiled=self.backend == "kernel")
        self._reset_options: dict[int, dict[str, Any]] = {}  # see reset_with
        self._last_ids: np.ndarray | None = None
        self._pending = None
        if not self.forkable:
            _unforkable.add(self)
        self._set_segments(divide(self.num_envs, settings.workers, settings.groups, settings.per_env))
        description = self._build_first_env(rows_of(self.segments, 0))
        self._check_custom_spaces(description)
        check_memory(description.observation_space, description.action_space, self.num_envs)
        self._set_description(description)
        self._start_workers(self._batch_spec(), description)
        if settings.spaces_differ:
            self.observation_space = batch_differing_spaces(list(self.get_attr("observation_space")))

    def _check_custom_spaces(self, description: EnvDescription) -> None:
        """With `shared_memory=True`, refuse spaces that shared memory cannot hold."""
        found = [leaf for leaf in leaves(description.observation_space) if is_custom(leaf.space)]
        if self.settings.shared_memory and found:
            raise CustomSpaceError(
                f"observation{found[0].name} of {self.source.name} is in {found[0].space}, a class of its own, which "
                "shared memory cannot hold; shared_memory=False sends it through a pipe"
            )

    def _set_segments(self, segments: list[Segment]) -> None:
        self.segments = segments
        self._segment_of_row = {row: segment for segment in segments for row in segment.rows}

    def _set_description(self, description: EnvDescription) -> None:
        self.description, self.spec, self.render_mode = description, description.spec, description.render_mode
        self.single_observation_space, self.single_action_space = (
            description.observation_space,
            description.action_space,
        )
        self.metadata = {**description.metadata, "autoreset_mode": self.settings.autoreset_mode}
        self._set_batched_spaces()

    def _set_batched_spaces(self) -> None:
        mode = self.settings.observation_mode
        self.observation_space = (
            mode[0] if isinstance(mode, tuple) else batch_space(self.single_observation_space, self.num_envs)
        )
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        ranges = group_ranges(self.num_envs, self.settings.groups)
        me = weakref.proxy(self)  # a plain reference would be a cycle, and keep workers alive until a full collection
        self.groups = tuple(Group(me, rows.start, rows.stop) for rows in ranges)

    def _batch_spec(self) -> BatchSpec:
        return BatchSpec(
            self.single_observation_space, self.single_action_space, self.num_envs, self.settings.autoreset_mode
        )

    # --- Gymnasium's interface ----------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # which knows all names that there are

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(missing(f"a {type(self).__name__}", name, dir(type(self))))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all envs, or those in `options["reset_mask"]`. Env i gets `seed + i`; a list gives each env its own
        seed, unchanged."""
        self._require_idle("reset")
        return self._finish_reset(self._call_workers(self._reset_calls(seed, options)))

    def _reset_calls(self, seed: Any, options: dict[str, Any] | None) -> dict[int, tuple[str, tuple]]:
        """What to call in each worker."""
        options, mask = without_mask(options)
        rows = list(range(self.num_envs)) if mask is None else masked_rows(mask, self.num_envs)
        seeds = seeding.env_seeds(seed, self.num_envs)
        self._restarts.reseed(seed)
        return {
            worker: ("reset", (part, [seeds[row] for row in part], options))
            for worker, part in rows_by_worker(rows, self._segment_of_row).items()
        }

    def _finish_reset(self, results: dict[int, Any]) -> tuple[Any, dict[str, Any]]:
        infos: dict[str, Any] = {}
        for reports in results.values():
            for report in reports:
                self._merge_report(report, infos, None)
        self._last_ids = None
        return self.batch.observations.take(ALL, self.settings.copy), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all envs once."""
        if self.closed or self._in_flight or self._broken or self._pending:
            self._require_idle("step")
        self.send_segments(self.segments, actions, ALL, self.num_envs)
        return self.receive_segments(self.segments, ALL, self.num_envs)

    def call_some(self, rows: Sequence[int], name: str, /, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """`call` for some envs only."""
        return self._call_rows(rows, lambda part: ("call", (part, name, args, kwargs)))

    def set_some(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """`set_attr` for some envs only."""
        value_of = dict(zip(rows, values, strict=True))
        self._call_rows(rows, lambda part: ("set_attr", (part, name, [value_of[row] for row in part])))

    def is_wrapped(self, wrapper: type, rows: Sequence[int] | None = None) -> tuple[bool, ...]:
        """Whether each env has a wrapper of this class around it."""
        rows = range(self.num_envs) if rows is None else rows
        return self._call_rows(rows, lambda part: ("is_wrapped", (part, wrapper)))

    # --- beyond Gymnasium ---------------------------------------------------------------------------------------

    def send(self, actions: Any, env_ids: Sequence[int] | np.ndarray | None = None) -> None:
        """Start stepping some envs: `env_ids`, or those of the last `recv` (all of them after a reset)."""
        self.require_usable("send")
        env_ids = self._last_ids if env_ids is None else env_ids
        if env_ids is None and not self._in_flight:
            return self.send_segments(self.segments, actions, ALL, self.num_envs)
        ids = np.asarray(range(self.num_envs) if env_ids is None else env_ids)
        if ids.ndim != 1 or ids.dtype.kind not in "iu":  # nor a mask, which would pass for envs 0 and 1
            raise OptionError(f"env_ids should be a list of env numbers, got {env_ids!r}")
        segments = complete_segments(ids, self._segment_of_row, self._in_flight)
        return self.send_segments(segments, actions, ids, len(ids))

    def recv(self) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Results of the first `batch_size` envs to finish, in ascending order; `infos["env_id"]` names them."""
        self.require_usable("recv")
        waiting = list(self._in_flight.values())
        if not waiting:
            raise NoCallPending("recv() was called, but no env is being stepped; call send(actions) first")
        size = sum(s.high - s.low for s in waiting)
        need = min(self.settings.batch_size or size, size)
        if need == self.num_envs:
            self._last_ids = None
            result = self.receive_segments(self.segments, ALL, need)
            result[4]["env_id"] = np.arange(need)
            return result
        self._wait(waiting, need)
        go, done, chosen, count = self.batch.go, self.batch.done, [], 0
        for segment in waiting:  # in the order they were sent, so that none waits for ever
            if done[segment.index] == go[segment.index] and count < need:
                chosen.append(segment)
                count += segment.high - segment.low
        ids = np.sort(np.concatenate([np.arange(s.low, s.high) for s in chosen]))
        self._last_ids = ids
        result = self.receive_segments(chosen, ids, len(ids))
        result[4]["env_id"] = ids
        return result

    def step_rows(
        self, actions: Any, rows: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step the envs of these rows, in ascending order and fewer than `batch_size`; returns what `step` does, for
        them."""
        self.send(actions, rows)
        return self.recv()

    def reset_with(self, options: Mapping[int, dict[str, Any]]) -> None:
        """Start the next episodes of some envs with these reset options, by env number, also where envs reset
        themselves. They hold for all later episodes, until others are given. A running episode is not changed."""
        self._require_idle("reset_with")
        count = getattr(self, "num_worlds", self.num_envs)
        unknown = [env for env in options if not 0 <= env < count]
        if unknown:
            raise OptionError(f"there is no env {unknown[0]}: there are {count}")
        self._reset_options.update(options)
        self._notify_workers("reset_with", (dict(options),))

    @property
    def restarts(self) -> int:
        """How many times an env or a worker was restarted so far."""
        return self._restarts.total

    def resize(self, num_envs: int) -> None:
        """Change the number of envs. Envs that stay keep their worker, state and seed; new ones must be reset
        (`reset(options={"reset_mask": ...})`) before they are stepped."""
        self._require_idle("resize")
        num_envs = plain_int(num_envs)
        positive_int("num_envs", num_envs)
        if not self.source.endless and num_envs > len(self.source.makers):
            raise OptionError(f"cannot grow to {num_envs} envs: the list contains {len(self.source.makers)} worlds")
        if self.settings.groups > 1:
            raise UsageError("an engine with groups cannot be resized; make a new one")
        if isinstance(self.settings.observation_mode, tuple):
            raise UsageError("an engine with a batched space in observation_mode cannot be resized; make a new one")
        if num_envs == self.num_envs:
            return
        check_memory(self.single_observation_space, self.single_action_space, num_envs)
        self._check_workers()
        workers = max(self.workers, min(self.settings.workers, num_envs))
        self._set_segments(redivide(self.segments, num_envs, workers, self.settings.per_env))
        self.num_envs, self._last_ids = num_envs, None
        self._set_batched_spaces()
        old = self.batch.worker_words
        try:
            self._resize_workers(self._batch_spec())
        except BaseException as error:
            self._fail(error)  # some envs have moved to the new batch and others have not
            raise
        if self.settings.spaces_differ:
            self.observation_space = batch_differing_spaces(list(self.get_attr("observation_space")))
        for k in range(STEPS, min(len(old), len(self.batch.worker_words)), WORKER_WORDS):
            self.batch.worker_words[k] = old[k]

    def stats(self) -> list[dict[str, Any]]:
        """Per worker: `pid`, `envs`, `steps` so far, `cpu_seconds`, `memory` in bytes. Differences between two calls
        give rates; cheap enough to call every second, also while envs are being stepped."""
        self._require_open("stats")
        words = self.batch.worker_words
        return [
            {**usage, "worker": k, "envs": len(rows_of(self.segments, k)), "steps": words[k * WORKER_WORDS + STEPS]}
            for k, usage in enumerate(self._usage())
        ]

    def state_dict(self, portable: bool = False) -> dict[str, Any]:
        """Everything needed to continue exactly from here; see `load_state_dict`. It may hold pickles of envs, for this
        run's live memory only. If `portable`, it is nested dicts of arrays and plain values, fit for a file; a
        StateError then names what an env has that cannot be written so."""
        self._require_idle("state_dict")
        rows = range(self.num_envs)
        envs = self._call_rows(rows, lambda part: ("save", (part, portable)))
        return {
            **self._state_header(portable),
            "reset_options": save_options(self._reset_options, portable),
            "observations": save_columns(self.batch.observations) if portable else self.batch.observations.take(ALL),
            "envs": {str(row): saved for row, saved in zip(rows, envs, strict=True)},
        }

    def load_state_dict(self, state: dict[str, Any]) -> Any:
        """Continue from a `state_dict()`, of any backend and number of workers; returns the observations held then."""
        self._require_idle("load_state_dict")
        self._check_state(state, "envs")
        saved = state["envs"]
        self._call_rows(range(self.num_envs), lambda part: ("load", (part, [saved[str(row)] for row in part])))
        self._restarts.load_state_dict(state)
        options = load_options(state.get("reset_options"), state["portable"])
        self.reset_with({row: options.get(row, {}) for row in {*self._reset_options, *options}})
        if state["portable"]:
            load_columns(self.batch.observations, state["observations"])
        else:
            self.batch.observations.put(ALL, state["observations"], self.num_envs)
        return self.batch.observations.take(ALL, self.settings.copy)

    def _state_header(self, portable: bool) -> dict[str, Any]:
        mode = self.settings.autoreset_mode.name
        header = {"format": 1, "portable": portable, "num_envs": self.num_envs, "autoreset_mode": mode}
        return {**header, **self._restarts.state_dict()}

    def _check_state(self, state: dict[str, Any], contents: str) -> None:
        for name, mine in (("num_envs", self.num_envs), ("autoreset_mode", self.settings.autoreset_mode.name)):
            if state.get(name) != mine:
                raise StateError(f"the state was saved with {name}={state.get(name)!r}, this engine has {mine!r}")
        if contents not in state:
            raise StateError(
                f"the state was saved by another kind of backend than {self.backend!r}: it has no {contents!r}"
            )

    # --- asynchronous calls -------------------------------------------------------------------------------------

    def _begin_step(self, actions: Any) -> Finish:
        self.send_segments(self.segments, actions, ALL, self.num_envs)
        return self._finish_step

    def _finish_step(self, timeout: float | None) -> tuple:
        if len(self._in_flight) < len(self.segments):  # Ctrl-C has ended it
            raise NoCallPending("step_wait() was called, but the step was interrupted; call step_async() again")
        if timeout is not None:
            self._wait(self.segments, self.num_envs, timeout)
        return self.receive_segments(self.segments, ALL, self.num_envs)

    def _begin_reset(self, seed: Any, options: dict[str, Any] | None) -> Finish:
        return self._begin_calls("reset", self._reset_calls(seed, options), self._finish_reset)

    def _begin_call(self, name: str, args: tuple, kwargs: dict[str, Any]) -> Finish:
        rows = range(self.num_envs)
        split = rows_by_worker(rows, self._segment_of_row)
        calls = {worker: ("call", (part, name, args, kwargs)) for worker, part in split.items()}
        return self._begin_calls("call", calls, lambda results: _in_order(results, rows))

    def _begin_calls(self, name: str, calls: dict[int, tuple[str, tuple]], then: Callable[[Any], Any]) -> Finish:
        """Start calls in the workers, if that is possible, to pass their results to `then`."""
        return Deferred(name, lambda: then(self._call_workers(calls)))

    def _call_rows(self, rows: Sequence[int], call: Callable[[list[int]], tuple[str, tuple]]) -> tuple[Any, ...]:
        """One answer per row; `call` gives the method and arguments for the rows of one worker."""
        self._require_idle("call")
        split = rows_by_worker(rows, self._segment_of_row)
        return _in_order(self._call_workers({worker: call(part) for worker, part in split.items()}), rows)

    # --- whether it can be used ---------------------------------------------------------------------------------

    def require_usable(self, what: str) -> None:
        """Raise UsageError if the engine is closed, has failed, belongs to another process, or is being reset."""
        if self._broken is INHERITED:
            raise UsageError(
                f"{what}() was called in a forked process, but the engine and its workers belong to the process that "
                "made it; make an engine of its own here"
            )
        self._require_open(what)
        if self._broken is not None:
            cause = str(self._broken) or type(self._broken).__name__
            raise UsageError(f"{what}() was called, but this engine has failed: {cause}") from self._broken
        if self._pending is not None and self._pending.name != "step":
            self._refuse_pending(what)

    def _require_idle(self, what: str) -> None:
        self.require_usable(what)
        self._refuse_pending(what)
        if self._in_flight:
            raise CallPending(f"{what}() was called while envs are being stepped; call recv() for all of them first")


def _in_order(results: dict[int, dict[int, Any]], rows: Sequence[int]) -> tuple[Any, ...]:
    """The answers of all workers, one per row."""
    answers: dict[int, Any] = {}
    for part in results.values():
        answers.update(part)
    return tuple(answers[row] for row in rows)


_unforkable: weakref.WeakSet[Engine] = weakref.WeakSet()


def _mark_inherited() -> None:
    """In a forked child, mark the parent's engines as unusable: a step here would take the parent's replies, and a
    close would end its workers. `step` finds the mark at no extra cost."""
    for engine in list(_unforkable):
        engine._broken, engine.closed = INHERITED, True
        engine._in_flight.clear()


if hasattr(os, "register_at_fork"):  # only where processes can fork
    os.register_at_fork(after_in_child=_mark_inherited)
