"""Lost workers of the process backend: dead, or killed because a step took too long. Others take their places.

A worker is replaced while the others continue. With a `step_timeout`, a step waits for it RESTART_SECONDS longer than
that and no more: then the envs of a worker that is still starting come back truncated, with `info["restarted"]` and the
last observation there was, in every step until it has taken its place, and once more when it has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode

from rookery.engine.machine import oom_kills
from rookery.engine.segment_stepping import SegmentStepping
from rookery.engine.segments import Segment, format_rows, rows_of
from rookery.engine.step_report import REPORT, Failed, StepReport
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout, DeferInterrupt
from rookery.engine.workers.launcher import describe_exit
from rookery.engine.workers.worker_handle import ProcessResources, RestartingWorker, WorkerHandle
from rookery.errors import StepTimeout, WorkerDied

RESTART_SECONDS = 3.0  # how long a step waits for new workers when its `step_timeout` is over
START_SECONDS = 10.0  # a new worker that takes longer to build its envs is hung, where steps have a timeout,
SLOWER = 3  # unless all workers took long at first: then so many times that
SEND_SECONDS = 2.0  # for messages to a new worker that listens
POLL_SECONDS = 0.005  # between two looks at a worker that is starting


class WorkerRestarts(SegmentStepping):
    """Replaces lost workers, where `on_failure="restart"` allows it."""

    _handles: list[WorkerHandle]
    _restarting: dict[int, RestartingWorker]
    _resources: ProcessResources
    _progress: dict[int, tuple[Any, float]]
    _oom_kills: int
    _reset_options: dict[int, dict[str, Any]]
    _start_seconds: float  # what the first start of all workers took
    _call_began = 0.0  # when the caller began to wait for results
    _lost_reports: dict[int, StepReport]  # of segments whose worker is still starting
    if TYPE_CHECKING:

        def _start_arguments(self, number: int) -> tuple: ...
        def _poll_exits(self) -> None: ...

    # --- losing workers -----------------------------------------------------------------------------------------

    def _handle_lost(self, number: int, hung_row: int | None) -> None:
        """Handle a worker that is dead, or was killed at env `hung_row`: raise, or begin to start another in its place.
        Its segments that were in flight are stepped again, also if it had finished them: its observations are lost."""
        error = self._death_error(number, hung_row)
        if self.settings.on_failure != "restart":
            self._fail(error)
            raise error
        self._progress.pop(number, None)
        self._discard(number)
        for segment in self.segments:
            if segment.worker == number and segment.index in self._in_flight:
                self._resent.add(segment.index)
                self._lost_reports.pop(segment.index, None)
                self.batch.done[segment.index] = self.batch.go[segment.index] - 1
        self._restart(number, f"{type(error).__name__}: {error}")
        self._poll_exits()

    def _kill(self, number: int) -> int:
        """Kill a worker that hangs; returns the env it was at."""
        row = self._handles[number].current_row()
        self._handles[number].process.kill()
        return row

    def _discard(self, number: int) -> None:
        handle = self._handles[number]
        handle.process.kill()
        handle.process.wait()
        handle.discard()

    def _death_error(self, number: int, hung_row: int | None) -> WorkerDied:
        handle, rows = self._handles[number], rows_of(self.segments, number)
        name = f"worker {number} (pid {handle.process.pid}, envs {format_rows(rows)})"
        if hung_row is not None:
            handle.process.wait()
            return StepTimeout(
                f"env {hung_row} did not return within step_timeout={self.settings.step_timeout:g} s; {name} was killed"
            )
        row = handle.current_row()
        at = f" while at env {row}" if row in rows else ""
        handle.process.kill()  # no effect on a dead one; an env may also have closed the channel of a living one
        return WorkerDied(f"{name} {self._manner(handle.process.wait())}{at}")

    def _manner(self, status: int | None) -> str:
        before, self._oom_kills = self._oom_kills, oom_kills()
        return describe_exit(status, self._oom_kills > before)

    # --- starting others ----------------------------------------------------------------------------------------

    def _restart(self, number: int, cause: str) -> None:
        """Begin to start a worker. Each attempt counts, also one that cannot begin."""
        timeout = self.settings.step_timeout
        start_timeout = None if timeout is None else max(timeout, START_SECONDS, SLOWER * self._start_seconds)
        while True:
            self._count_restart("worker", number, cause)
            try:
                with DeferInterrupt():  # else a process could be started and never stopped
                    self._restarting[number] = RestartingWorker(
                        number, self._resources.launcher, self._converse, start_timeout, timeout
                    )
                return
            except OSError as error:
                cause = f"WorkerDied: worker {number} could not be started: {error}"

    def _converse(self, handle: WorkerHandle) -> Generator[int, Any, None]:
        """The requests to a new worker: to build the same envs, and to reset them with seeds of their own."""
        batch, rows = self.batch, rows_of(self.segments, handle.number)
        mine = [s for s in self.segments if s.worker == handle.number]
        spaces = self.single_observation_space, self.single_action_space
        yield handle.request("ping", ())  # from now on it reads what it is sent, however long
        yield handle.request("set_stepping", (False,))
        yield handle.request("start", self._start_arguments(handle.number), timeout=SEND_SECONDS)
        yield handle.request("build", (rows, spaces), timeout=SEND_SECONDS)
        yield handle.request_attach(self._resources.block, batch.spec, mine, SEND_SECONDS)
        handle.attach(batch)
        yield handle.request("reset_with", (self._reset_options,), timeout=SEND_SECONDS)
        seeds = [self._restarts.next_seed(row) for row in rows]
        reports = yield handle.request("restart_all", (rows, seeds), timeout=SEND_SECONDS)
        for report in reports:
            for k, row, value in report.objects:
                batch.observations.columns[k][row] = value
            if report.failures:
                raise Failed(report.failures[0])

    def _advance_restarts(self) -> None:
        """Continue with the workers that are being started; nothing here takes long."""
        for number, restarting in list(self._restarting.items()):
            try:
                with DeferInterrupt():  # else a request could be made, and its number lost
                    if restarting.advance():
                        self._take_place(number, restarting)
            except (Failed, ChannelClosed, ChannelTimeout, OSError) as error:
                status = restarting.abort()
                del self._restarting[number]
                self._restart(number, self._start_problem(number, error, status))
            except Exception as error:
                self._fail(error)
                raise

    def _take_place(self, number: int, restarting: RestartingWorker) -> None:
        """The new worker is stepped from now on; its envs' next step reports the restart."""
        assert restarting.handle is not None
        del self._restarting[number]
        handle = self._handles[number] = restarting.handle
        self._poll_exits()
        for method, value in (
            ("set_slots", list(self._slot_table.slots.values())),
            ("reset_with", self._reset_options),  # they may have changed since it was sent them
            ("set_stepping", True),
        ):
            handle.notify(method, (value,), SEND_SECONDS)

    def _start_problem(self, number: int, error: Exception, status: int | None) -> str:
        if isinstance(error, Failed):
            return error.failure.trace
        name = f"worker {number} (envs {format_rows(rows_of(self.segments, number))})"
        if isinstance(error, OSError):
            return f"WorkerDied: {name} could not be started: {error}"
        manner = "took too long, and was killed" if isinstance(error, ChannelTimeout) else self._manner(status)
        return f"WorkerDied: {name} {manner} while it was started"

    def _await_restart(self, number: int) -> None:
        """Wait until a worker that is being started has taken its place."""
        while number in self._restarting:
            self._advance_restarts()
            time.sleep(POLL_SECONDS if number in self._restarting else 0.0)

    def _live_handles(self) -> list[WorkerHandle]:
        return [handle for handle in self._handles if handle.number not in self._restarting]

    # --- steps without a worker ---------------------------------------------------------------------------------

    def _answer_for_lost(self, segments: Sequence[Segment]) -> None:
        """If a step has waited long enough, and only for workers that are still starting, end it for their envs."""
        timeout = math.inf if self.settings.step_timeout is None else self.settings.step_timeout
        if time.perf_counter() < self._call_began + timeout + RESTART_SECONDS:
            return
        go, done = self.batch.go, self.batch.done
        missing = [segment for segment in segments if done[segment.index] != go[segment.index]]
        if all(segment.worker in self._restarting for segment in missing):
            for segment in missing:
                self._lost_reports[segment.index] = self._truncate(segment.rows)
                self.batch.status[segment.index], done[segment.index] = REPORT, go[segment.index]

    def _truncate(self, rows: range) -> StepReport:
        """End the episodes of these envs, of which nothing is known but the last observation."""
        batch, at = self.batch, slice(rows.start, rows.stop)
        batch.rewards[at], batch.terminated[at], batch.truncated[at] = 0.0, False, True
        batch.returns[at], batch.lengths[at], batch.seconds[at] = 0.0, 0, 0.0
        batch.info_masks[:, at] = False
        restarted = [(row, {"restarted": True}) for row in rows]
        if self.settings.autoreset_mode is not AutoresetMode.SAME_STEP:
            return StepReport(infos=restarted)
        assert batch.finals is not None
        for final, last in zip(batch.finals.columns, batch.observations.columns, strict=True):
            final[at] = last[at]
        return StepReport(infos=restarted, final_infos=[(row, {"restarted": True}) for row in rows])
