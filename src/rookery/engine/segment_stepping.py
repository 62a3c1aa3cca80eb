"""Steps segments: sends actions to the workers, takes what they wrote into the batch, and restarts what has failed.

`Backend` is what a backend provides for that: workers that build envs, step them and answer calls.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rookery.console import say
from rookery.engine import seeding
from rookery.engine.async_calls import AsyncCalls
from rookery.engine.batch import ALL, Batch, BatchSpec
from rookery.engine.env_factory import EnvFactory
from rookery.engine.segments import Segment
from rookery.engine.settings import Settings
from rookery.engine.step_report import (
    NOTHING,
    REPORT,
    Failed,
    Failure,
    SlotTable,
    StepReport,
    add_final_observations,
    merge_report,
    positions_of,
)
from rookery.engine.worker_envs import EnvDescription
from rookery.errors import BadValue, RestartLimit, SpaceError, UsageError

EPISODE = np.dtype([("env", "i8"), ("return", "f8"), ("length", "i8"), ("seconds", "f8")])
CUT_SHORT = "; episodes that failures cut short end as truncated, and `{}` = raise would end the run with the traceback"
LONGEST_ERROR = 300  # characters of a failure that are reported
EPISODES_KEPT = 10_000  # steps with finished episodes that are kept until `finished_episodes` is called
_SAID: set[tuple[str, str]] = set()  # names of worlds, and what was said about them on the terminal


class Restarts:
    """Counts the restarts of each env and worker, and allows at most `max_restarts` within `restart_window` seconds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.root_seed = seeding.fresh_entropy()
        self.total = 0
        self._per_env: dict[int, int] = {}  # how many seeds of its own an env has used up
        self._times: dict[tuple[str, int], deque[float]] = defaultdict(deque)
        self._first: dict[tuple[str, int], str] = {}

    def allowed_after(self, error: BaseException | None) -> bool:
        """Whether an env that raised this is restarted; otherwise its exception is raised."""
        settings = self._settings
        if isinstance(error, UsageError):
            return False
        return bool(getattr(settings, self.option_for(error)) == "restart")

    def option_for(self, error: BaseException | None) -> str:
        """The option that decides what follows this error."""
        is_value = isinstance(error, (BadValue, SpaceError)) and self._settings.bad_values != "allow"
        return "bad_values" if is_value else "on_failure"

    def count(self, kind: str, number: int, cause: str) -> None:
        """Count one restart of env or worker (`kind`) `number`; RestartLimit, with the first cause, if it is one too
        many."""
        key, now = (kind, number), time.monotonic()
        limit, window, times = self._settings.max_restarts, self._settings.restart_window, self._times[(kind, number)]
        while times and now - times[0] > window:
            times.popleft()
        if not times:
            self._first[key] = cause
        if len(times) >= limit:
            first = self._first[key]
            last = "" if cause == first else f"\nThe last one:\n{cause}"
            error = first.rstrip().rpartition("\n")[2]  # a list of failed runs shows the first line only
            raise RestartLimit(
                f"{kind} {number} failed again after {len(times)} restarts within {window:g} s "
                f"(max_restarts={limit}): {error}\nThe first failure:\n{first}{last}"
            )
        times.append(now)
        self.total += 1

    def reseed(self, seed: Any) -> None:
        """Derive the seeds of later restarts from what `reset(seed=...)` was given, if it names one root."""
        root = seeding.root_of(seed)
        self.root_seed = self.root_seed if root is None else root

    def next_seed(self, row: int) -> int:
        """A seed for a restarted env: not that of the episode that failed, and derived from the root seed alone."""
        self._per_env[row] = self._per_env.get(row, 0) + 1
        return seeding.child_seed(self.root_seed, row, self._per_env[row])

    def state_dict(self) -> dict[str, Any]:
        return {"root_seed": self.root_seed, "restarts": {str(row): count for row, count in self._per_env.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.root_seed = state["root_seed"]
        self._per_env = {int(row): count for row, count in state["restarts"].items()}


class Backend(AsyncCalls):
    """The interface between the engine, which is the same on all backends, and a backend."""

    backend = ""
    batch: Batch

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many workers there are now."""

    @abstractmethod
    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        """Build the first env of the first worker and describe it."""

    @abstractmethod
    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        """Set `self.batch` and build all the other envs."""

    @abstractmethod
    def _start_step(self, segments: Sequence[Segment]) -> None:
        """Start stepping these segments."""

    @abstractmethod
    def _wait(self, segments: Sequence[Segment], need: int, timeout: float | None = None) -> None:
        """Block until at least `need` envs in these segments have been stepped; CallTimeout after `timeout` seconds."""

    @abstractmethod
    def _read_report(self, segment: Segment) -> StepReport:
        """The report of a finished segment that has one."""

    @abstractmethod
    def _call_workers(self, calls: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        """Call a method of `WorkerEnvs`, given with its arguments, in each worker named, in parallel. Raises what the
        first env to fail raised or, if `raw`, the Failed that carries it."""

    @abstractmethod
    def _notify_workers(self, method: str, args: tuple) -> None:
        """Call a method of `WorkerEnvs` in every worker before its next step, without waiting."""

    def _check_workers(self) -> None:
        """Find out now which workers have died, while they can be replaced."""

    @abstractmethod
    def _resize_workers(self, spec: BatchSpec) -> None:
        """Move to a batch of `self.num_envs` and the new `self.segments`."""

    @abstractmethod
    def _usage(self) -> list[dict[str, Any]]:
        """Per worker: pid, CPU seconds used so far, bytes of memory."""

    def _release(self) -> None:
        """Return to the system what an engine that has failed no longer needs."""


class SegmentStepping(Backend):
    """Sends segments and receives them: arrays from the batch; infos, notes and failures from the workers' reports."""

    segments: list[Segment]
    on_note: Callable[[str], None] | None = None  # receives what the engine has to say about its envs while they run
    _segment_of_row: dict[int, Segment]

    def __init__(self, source: EnvFactory, settings: Settings) -> None:
        self.source, self.settings = source, settings
        self.num_envs, self._copy = settings.num_envs, settings.copy
        self._restarts = Restarts(settings)
        self._slot_table = SlotTable()
        self._in_flight: dict[int, Segment] = {}  # sent and not yet returned to the caller
        self._resent: set[int] = set()  # segments sent again, as their worker died while they were in flight
        self._noted: set[str] = set()
        self._episodes: deque[tuple[np.ndarray, ...]] = deque(maxlen=EPISODES_KEPT)
        self._broken: BaseException | None = None

    def is_in_flight(self, segment: Segment) -> bool:
        """Whether a segment was sent and not yet received."""
        return segment.index in self._in_flight

    def send_segments(self, segments: Sequence[Segment], actions: Any, rows: slice | np.ndarray, count: int) -> None:
        """Start stepping segments, which hold `count` envs: `rows` of the batch."""
        batch = self.batch
        flags = batch.actions.put(rows, actions, count)
        if batch.exact is not None:
            for segment in segments:
                batch.exact[segment.index] = flags
        self._start_step(segments)
        for segment in segments:  # only now: what failed to start is not in flight
            self._in_flight[segment.index] = segment

    def receive_segments(self, segments: Sequence[Segment], rows: slice | np.ndarray, count: int) -> tuple:
        """Wait for segments that were sent; returns what Gymnasium's `step` returns, for these rows."""
        infos: dict[str, Any] = {}
        batch, status = self.batch, NOTHING
        try:
            self._wait(segments, count)
            for segment in segments:
                status |= batch.status[segment.index]
            if status & REPORT or self._resent:  # something besides arrays, or a worker was lost
                reports = self._collect_reports(segments, count)
                self._merge_reports(segments, reports, infos, positions_of(rows, self.num_envs))
            if status:
                self._slot_table.read(infos, batch.info_values, batch.info_masks, rows)
        except Exception:
            self._forget_in_flight(segments)
            raise  # after Ctrl-C they stay in flight: the workers are still stepping, and recv() returns their results
        self._forget_in_flight(segments)
        if rows is not ALL or batch.any_end():
            self._record_episodes(infos, rows, count)
        rewards, terminated, truncated = batch.rewards, batch.terminated, batch.truncated
        if rows is not ALL:
            rewards, terminated, truncated = rewards[rows], terminated[rows], truncated[rows]
        observations = batch.observations.take(rows, self._copy)
        return observations, rewards.copy(), terminated.copy(), truncated.copy(), infos

    def _forget_in_flight(self, segments: Sequence[Segment]) -> None:
        self._pending = None
        for segment in segments:
            self._in_flight.pop(segment.index, None)

    def _collect_reports(self, segments: Sequence[Segment], count: int) -> list[StepReport]:
        """The reports of finished segments; waits again for segments whose worker is lost in the meantime."""
        reports: dict[int, StepReport] = {}
        statuses = self.batch.status
        while True:
            for index in self._resent:  # their worker was lost: what it had reported is void
                reports.pop(index, None)
            self._resent.clear()
            for segment in segments:
                if statuses[segment.index] == REPORT and segment.index not in reports:
                    reports[segment.index] = self._read_report(segment)
            if not self._resent:
                return list(reports.values())
            self._wait(segments, count)

    def _merge_reports(
        self, segments: Sequence[Segment], reports: list[StepReport], infos: dict, position: dict[int, int] | None
    ) -> None:
        """Merge reports. Recovering from a failure may find a worker dead, and send its segments again."""
        while True:
            for report in reports:
                self._merge_report(report, infos, position)
            if not self._resent:
                return
            again = [segment for segment in segments if segment.index in self._resent]
            self._resent.clear()
            count = sum(len(segment.rows) for segment in again)
            self._wait(again, count)
            reports = self._collect_reports(again, count)

    def _merge_report(self, report: StepReport, infos: dict[str, Any], position: dict[int, int] | None) -> None:
        if merge_report(report, infos, self._slot_table, self.batch, position):
            self._share_slots()
        for about, text in report.notes:
            self._note(about, text)
        for failure in report.failures:
            self._recover(failure, infos, position)

    def _note(self, about: str, text: str) -> None:
        """Say something about the envs once: to `on_note` or, once for all engines of this world, on the terminal."""
        if about in self._noted:
            return
        self._noted.add(about)
        if self.on_note is not None:
            self.on_note(f"{self.source.name}: {text}")
        elif (self.source.name, about) not in _SAID:
            say(f"{self.source.name}: {text}")
        _SAID.add((self.source.name, about))

    def _share_slots(self) -> None:
        self._notify_workers("set_slots", (list(self._slot_table.slots.values()),))

    def _record_episodes(self, infos: dict[str, Any], rows: slice | np.ndarray, count: int) -> None:
        """Record finished episodes and, in SAME_STEP mode, add their last observations to the infos."""
        batch = self.batch
        ended = (batch.terminated[rows] | batch.truncated[rows]).nonzero()[0]
        if not len(ended):
            return
        ids = ended if rows is ALL else np.arange(self.num_envs)[rows][ended]
        self._episodes.append((ids, batch.returns[ids], batch.lengths[ids], batch.seconds[ids]))
        if batch.finals is not None:
            add_final_observations(infos, batch.finals, ended, ids, batch.lengths[ids] > 0, count)

    def finished_episodes(self) -> np.ndarray:
        """Episodes that ended since the last call, as records of env, return, length and seconds, oldest first."""
        episodes = np.zeros(sum(len(ids) for ids, *_ in self._episodes), EPISODE)
        for name, parts in zip(EPISODE.names or (), zip(*self._episodes, strict=True), strict=False):
            episodes[name] = np.concatenate(parts)
        episodes = episodes[episodes["length"] > 0]  # that of one that continues, or was lost, is unknown
        self._episodes.clear()
        return episodes

    # --- failures -----------------------------------------------------------------------------------------------

    def _recover(self, failure: Failure, infos: dict[str, Any], position: dict[int, int] | None) -> None:
        """Restart a failed env if that is allowed, else raise what it raised."""
        while True:
            if not self._restarts.allowed_after(failure.error):
                raise failure.exception()
            self._count_restart("env", failure.row, failure.trace, self._restarts.option_for(failure.error))
            announce = failure.phase == "step"
            worker = self._segment_of_row[failure.row].worker
            restart = ("restart", (failure.row, self._restarts.next_seed(failure.row), announce))
            try:
                (reports,) = self._call_workers({worker: restart}, raw=True).values()
            except Failed as again:  # while being built
                failure = Failure(failure.row, failure.phase, again.failure.error)
                continue
            again_failed = [f for report in reports for f in report.failures]
            for report in reports:
                report.failures = []
                self._merge_report(report, infos, position)
            if not again_failed:
                return
            failure = Failure(failure.row, failure.phase, again_failed[0].error)

    def _count_restart(self, kind: str, number: int, cause: str, option: str = "on_failure") -> None:
        """Count a restart, which this option allows; one too many ends the engine."""
        try:
            self._restarts.count(kind, number, cause)
        except RestartLimit as limit:
            self._fail(limit)
            raise
        self._tell_restart(kind, number, cause, option)

    def _tell_restart(self, kind: str, number: int, cause: str, option: str) -> None:
        """Tell of the first restart, and again when there are twice as many: a run may survive thousands. Without
        `on_note` the infos of the step are enough: a program that steps an engine reads them."""
        total = self._restarts.total
        if self.on_note is None or total & (total - 1):
            return
        error = cause.rstrip().rpartition("\n")[2][:LONGEST_ERROR]
        who = f"env {number} was" if kind == "env" else f"worker {number} was, with its envs,"
        rest = CUT_SHORT.format(option) if total == 1 else f"; {total:,} restarts so far"
        self.on_note(f"{self.source.name}: {who} restarted after `{error}`{rest}")

    def _fail(self, error: BaseException) -> None:
        """End the engine after this error. The caller may keep the engine for long, so it releases what it holds."""
        self._broken, self._pending = error, None
        self._in_flight.clear()
        self._release()
