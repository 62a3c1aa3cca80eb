"""How rounds reach the envs and come back: what the engine does behind its interface, whatever the backend."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from rookery.engine import seeding
from rookery.engine.batch import ALL, Batch, BatchSpec, check_count, check_memory
from rookery.engine.env_factory import EnvFactory
from rookery.engine.failure import Failed, Failure
from rookery.engine.groups import Group
from rookery.engine.infos import SlotTable, add_info, mark
from rookery.engine.restart_guard import RestartGuard
from rookery.engine.settings import Settings, divide, group_ranges
from rookery.engine.stepper import NOTHING, REPORT, StepReport
from rookery.engine.worker_envs import Facts, Segment
from rookery.errors import BadValue, OptionError, RestartLimit, SpaceError, UsageError

EPISODES_KEPT = 10_000  # ends of episodes are remembered until asked for, up to this many
INHERITED = UsageError("the engine belongs to another process")


class Exchange(VectorEnv):
    """Who steps which envs, sending and receiving, merging infos, mending failures. `Engine` adds what users call."""

    forkable = True  # whether a forked child has a whole engine of its own: workers and threads stay with the parent

    def __init__(self, source: EnvFactory, settings: Settings) -> None:
        self.source, self.settings = source, settings
        self.num_envs, self._copy = settings.num_envs, settings.copy
        check_count(self.num_envs)
        self._guard = RestartGuard(settings.max_restarts, settings.restart_window)
        self._slot_table = SlotTable()
        self._root_seed = seeding.fresh_entropy()
        self._restarts: dict[int, int] = {}
        self._reset_options: dict[int, dict[str, Any]] = {}  # see reset_with
        self._in_flight: dict[int, Segment] = {}  # sent and not yet handed out
        self._asked_again: set[int] = set()  # segments whose worker was lost while they were in flight
        self._broken: BaseException | None = None
        self._last_ids: np.ndarray | None = None
        self._episodes: deque[tuple[np.ndarray, ...]] = deque(maxlen=EPISODES_KEPT)
        if not self.forkable:
            _unforkable.add(self)
        self._divide(settings.workers)
        facts = self._open(self._rows_of(0))
        check_memory(facts.observation_space, facts.action_space, self.num_envs)
        self._adopt(facts)
        self._staff(self._batch_spec(), facts)

    def _divide(self, workers: int) -> None:
        self.segments = divide(self.num_envs, workers, self.settings.groups, self.settings.per_env)
        self._segment_of_row = {row: s for s in self.segments for row in range(s.low, s.high)}

    def _adopt(self, facts: Facts) -> None:
        self.single_observation_space, self.single_action_space = facts.observation_space, facts.action_space
        self.metadata = {**facts.metadata, "autoreset_mode": self.settings.autoreset_mode}
        self.render_mode, self.spec, self.facts = facts.render_mode, facts.spec, facts
        self._batch_spaces()

    def _batch_spaces(self) -> None:
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        ranges = group_ranges(self.num_envs, self.settings.groups)
        me = weakref.proxy(self)  # a plain reference would be a cycle, and keep workers alive until a full collection
        self.groups = tuple(Group(me, rows.start, rows.stop) for rows in ranges)

    def _batch_spec(self) -> BatchSpec:
        return BatchSpec(
            self.single_observation_space, self.single_action_space, self.num_envs, self.settings.autoreset_mode
        )

    def _rows_of(self, worker: int) -> list[int]:
        return [row for s in self.segments if s.worker == worker for row in range(s.low, s.high)]

    # --- what a backend provides --------------------------------------------------------------------------------

    batch: Batch

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many workers there are now."""

    @abstractmethod
    def _open(self, rows: list[int]) -> Facts:
        """Build the first env of the first worker and tell about it."""

    @abstractmethod
    def _staff(self, spec: BatchSpec, facts: Facts) -> None:
        """Set `self.batch` and bring up all the other envs."""

    @abstractmethod
    def _post(self, segments: Sequence[Segment]) -> None:
        """Start stepping these segments."""

    @abstractmethod
    def _wait(self, segments: Sequence[Segment], need: int) -> None:
        """Block until at least `need` envs in these segments have been stepped."""

    @abstractmethod
    def _report(self, segment: Segment) -> StepReport:
        """The report of a finished segment that has one."""

    @abstractmethod
    def _ask(self, wanted: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        """Call a method of the crew of each worker named, side by side. Raises what the first env to fail raised or,
        if `raw`, the Failed that carries it."""

    @abstractmethod
    def _tell(self, method: str, args: tuple) -> None:
        """Call a method of every worker's crew before its next step, without waiting."""

    def _muster(self) -> None:
        """Find out now who has died, while it can be replaced."""

    @abstractmethod
    def _grow(self, spec: BatchSpec) -> None:
        """Move to a batch of `self.num_envs` and the new `self.segments`."""

    @abstractmethod
    def _usage(self) -> list[dict[str, Any]]:
        """Per worker: pid, CPU seconds used so far, bytes of memory."""

    def _let_go(self) -> None:
        """Give back to the system what an engine that has failed will not need again."""

    # --- sending and receiving ----------------------------------------------------------------------------------

    def _send(self, segments: Sequence[Segment], actions: Any, rows: slice | np.ndarray, count: int) -> None:
        self.batch.actions.put(rows, actions, count)
        self._post(segments)
        for segment in segments:  # only now: what failed to start is not on its way
            self._in_flight[segment.index] = segment

    def _receive(self, segments: Sequence[Segment], rows: slice | np.ndarray, count: int) -> tuple:
        infos: dict[str, Any] = {}
        batch, status = self.batch, NOTHING
        try:
            self._wait(segments, count)
            for segment in segments:
                status |= batch.status[segment.index]
            if status & REPORT or self._asked_again:  # something besides arrays, or a worker was lost
                reports = self._collect(segments, count)
                self._digest(segments, reports, infos, None if rows is ALL else _positions(rows, self.num_envs))
            if status:
                self._slot_table.read(infos, batch.info_values, batch.info_masks, rows)
        except Exception:
            self._land(segments)
            raise  # not so for Ctrl-C: the workers are still stepping, and recv() gets what they do
        self._land(segments)
        if rows is not ALL or batch.any_end():
            self._note_ends(infos, rows, count)
        rewards, terminated, truncated = batch.rewards, batch.terminated, batch.truncated
        if rows is not ALL:
            rewards, terminated, truncated = rewards[rows], terminated[rows], truncated[rows]
        observations = batch.observations.take(rows, self._copy)
        return observations, rewards.copy(), terminated.copy(), truncated.copy(), infos

    def _land(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            self._in_flight.pop(segment.index, None)

    def _collect(self, segments: Sequence[Segment], count: int) -> list[StepReport]:
        """Take the reports of finished segments; waits once more for those whose worker is lost meanwhile."""
        reports: dict[int, StepReport] = {}
        statuses = self.batch.status
        while True:
            for index in self._asked_again:  # their worker was lost: what was taken of them before is void
                reports.pop(index, None)
            self._asked_again.clear()
            for segment in segments:
                if statuses[segment.index] == REPORT and segment.index not in reports:
                    reports[segment.index] = self._report(segment)
            if not self._asked_again:
                return list(reports.values())
            self._wait(segments, count)

    def _digest(
        self, segments: Sequence[Segment], reports: list[StepReport], infos: dict, position: dict[int, int] | None
    ) -> None:
        """Merge reports. Acting on a failure may find a worker dead, and its segments on their way once more."""
        while True:
            for report in reports:
                self._absorb(report, infos, position)
            if not self._asked_again:
                return
            again = [s for s in segments if s.index in self._asked_again]
            self._asked_again.clear()
            count = sum(s.high - s.low for s in again)
            self._wait(again, count)
            reports = self._collect(again, count)

    def _absorb(self, report: StepReport, infos: dict[str, Any], position: dict[int, int] | None) -> None:
        """Merge a report into the infos of this step; act on failures."""
        count = self.num_envs if position is None else len(position)
        for k, row, value in report.objects:
            self.batch.observations.columns[k][row] = value
        for k, row, value in report.final_objects:
            self.batch.finals.columns[k][row] = value  # type: ignore[union-attr]
        fresh = []
        for row, info in report.infos:
            add_info(infos, info, row if position is None else position[row], count)
            fresh += self._slot_table.learn(info)
        for row, info in report.final_infos:
            at = row if position is None else position[row]
            add_info(infos.setdefault("final_info", {}), info, at, count)
        if fresh:
            self._spread_slots()
        for failure in report.failures:
            self._mend(failure, infos, position)

    def _note_ends(self, infos: dict[str, Any], rows: slice | np.ndarray, count: int) -> None:
        """Record finished episodes and, in SAME_STEP mode, hand out their last observations."""
        batch = self.batch
        ended = (batch.terminated[rows] | batch.truncated[rows]).nonzero()[0]
        if not len(ended):
            return
        ids = ended if rows is ALL else np.arange(self.num_envs)[rows][ended]
        self._episodes.append((ids, batch.returns[ids], batch.lengths[ids], batch.seconds[ids]))
        if batch.finals is not None:
            infos.setdefault("final_info", {})
            infos["final_obs"] = np.full(count, None, dtype=object)
            for at, row in zip(ended.tolist(), ids.tolist(), strict=True):
                infos["final_obs"][at] = batch.finals.row(row)
                mark(infos, "final_obs", at, count)
                mark(infos, "final_info", at, count)

    def _spread_slots(self) -> None:
        self._tell("set_slots", (list(self._slot_table.slots.values()),))

    # --- failures -----------------------------------------------------------------------------------------------

    def _mend(self, failure: Failure, infos: dict[str, Any], position: dict[int, int] | None) -> None:
        """Restart a failed env if that is allowed, else raise what it raised."""
        while True:
            if self._policy(failure) != "restart":
                raise failure.exception()
            self._grant_restart("env", failure.row, failure.trace)
            announce = failure.phase == "step"
            worker = self._segment_of_row[failure.row].worker
            ask = ("restart", (failure.row, self._restart_seed(failure.row), announce))
            try:
                (reports,) = self._ask({worker: ask}, raw=True).values()
            except Failed as again:  # while being built
                failure = Failure(failure.row, failure.phase, again.failure.error)
                continue
            again_failed = [f for report in reports for f in report.failures]
            for report in reports:
                report.failures = []
                self._absorb(report, infos, position)
            if not again_failed:
                return
            failure = Failure(failure.row, failure.phase, again_failed[0].error)

    def _grant_restart(self, kind: str, number: int, story: str) -> None:
        """Count a restart; one too many ends the engine."""
        try:
            self._guard.grant(kind, number, story)
        except RestartLimit as limit:
            self._fail(limit)
            raise

    def _policy(self, failure: Failure) -> str:
        if isinstance(failure.error, UsageError):
            return "raise"
        if isinstance(failure.error, (BadValue, SpaceError)) and self.settings.bad_values != "allow":
            return "raise" if self.settings.bad_values == "finite" else self.settings.bad_values
        return self.settings.on_failure

    def _restart_seed(self, row: int) -> int:
        """A new env must not replay the episode that broke the old one, yet depend on the seed alone."""
        self._restarts[row] = self._restarts.get(row, 0) + 1
        return seeding.child_seed(self._root_seed, row, self._restarts[row])

    # --- helpers ------------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """There is no going on after this error. Who caught it may keep the engine for long, so it holds nothing."""
        self._broken = error
        self._in_flight.clear()
        self._let_go()

    def _require_usable(self, what: str) -> None:
        if self._broken is INHERITED:
            raise UsageError(
                f"{what}() was called in a forked process, but the engine and its workers belong to the process that "
                "made it; make an engine of its own here"
            )
        if self.closed:
            raise UsageError(f"{what}() was called on a closed engine")
        if self._broken is not None:
            story = str(self._broken) or type(self._broken).__name__
            raise UsageError(f"{what}() was called, but this engine has failed: {story}") from self._broken

    def _require_idle(self, what: str) -> None:
        self._require_usable(what)
        if self._in_flight:
            raise UsageError(f"{what}() was called while envs are being stepped; call recv() for all of them first")

    def _whole_segments(self, ids: np.ndarray) -> list[Segment]:
        """The segments made up by these envs; an engine without `batch_size` steps whole segments only."""
        self._require_usable("send")
        wanted = set(ids.tolist())
        if len(wanted) != len(ids) or not wanted <= self._segment_of_row.keys():
            raise OptionError(f"env_ids should be distinct numbers below {self.num_envs}, got {ids.tolist()}")
        segments = list({self._segment_of_row[r].index: self._segment_of_row[r] for r in ids.tolist()}.values())
        if sum(s.high - s.low for s in segments) != len(ids):
            raise UsageError(
                f"env_ids={ids.tolist()} splits envs that are stepped together; make_vec(..., batch_size=...) makes an "
                "engine whose envs can be sent one by one"
            )
        busy = [s for s in segments if s.index in self._in_flight]
        if busy:
            raise UsageError(
                f"envs {list(range(busy[0].low, busy[0].high))} are being stepped already; recv() them first"
            )
        return segments

    def _masked_rows(self, mask: Any) -> list[int]:
        array = np.asarray(mask)
        if array.dtype != np.bool_ or array.shape != (self.num_envs,):
            raise OptionError(
                f"options['reset_mask'] should be a bool array of shape ({self.num_envs},), "
                f"got {array.dtype} of shape {array.shape}"
            )
        if not array.any():
            raise OptionError("options['reset_mask'] selects no env")
        return np.flatnonzero(array).tolist()

    def _split_rows(self, rows: Sequence[int], ask: Any) -> dict[int, tuple[str, tuple]]:
        mine: dict[int, list[int]] = {}
        for row in rows:
            if row not in self._segment_of_row:
                raise OptionError(f"there is no env {row}: there are {self.num_envs}")
            mine.setdefault(self._segment_of_row[row].worker, []).append(row)
        return {worker: ask(part) for worker, part in mine.items()}

    def _ask_rows(self, rows: Sequence[int], ask: Any) -> tuple[Any, ...]:
        self._require_idle("call")
        answers: dict[int, Any] = {}
        for part in self._ask(self._split_rows(rows, ask)).values():
            answers.update(part)
        return tuple(answers[row] for row in rows)


_unforkable: weakref.WeakSet[Exchange] = weakref.WeakSet()


def _disinherit() -> None:
    """In a forked child, mark the parent's engines: a step here would take the parent's replies, and a close end its
    workers. Marked so, they cost nothing to find in a step."""
    for engine in list(_unforkable):
        engine._broken, engine.closed = INHERITED, True
        engine._in_flight.clear()


if hasattr(os, "register_at_fork"):  # where processes fork at all
    os.register_at_fork(after_in_child=_disinherit)


def _positions(rows: slice | np.ndarray, num_envs: int) -> dict[int, int]:
    ids = np.arange(num_envs)[rows]
    return {row: at for at, row in enumerate(ids.tolist())}
