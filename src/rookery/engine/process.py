"""The process backend: many envs in each of a few worker processes, over one block of shared memory."""

from __future__ import annotations

import contextlib
import os
import select
import time
import weakref
from collections.abc import Sequence
from typing import Any

from rookery.console import size_text
from rookery.engine.batch import ASLEEP, Batch, BatchSpec
from rookery.engine.engine import Engine
from rookery.engine.env_factory import EnvFactory
from rookery.engine.failure import Failed, Failure
from rookery.engine.loops import fence, watch
from rookery.engine.machine import allowed_cores, oom_kills, usable_cores
from rookery.engine.process_usage import process_usage
from rookery.engine.segments import Segment, rows_of
from rookery.engine.settings import Settings
from rookery.engine.step_report import StepReport
from rookery.engine.worker_envs import EnvDescription
from rookery.engine.workers.channel import ChannelClosed, ChannelTimeout
from rookery.engine.workers.contention import Contention
from rookery.engine.workers.exit_status import ending, listed
from rookery.engine.workers.held_interrupts import Undisturbed
from rookery.engine.workers.launcher import WorkerLauncher
from rookery.engine.workers.shared_block import map_block
from rookery.engine.workers.worker_handle import OVERSLEPT_SECONDS, Resources, WorkerHandle, dismiss, kill_silent, ring
from rookery.errors import MemoryShortage, StepTimeout, WorkerDied

WATCH_SECONDS = 1e-3  # how long parent and workers look for news before they sleep; not at all after longer waits
START_SECONDS = 60.0  # a hung start is found after this long, where steps have a timeout
LAST_STEP_SECONDS = 0.5  # what the others may still take for their step when an engine fails
clock = time.perf_counter
CHECK_SECONDS = 1.0  # the longest sleep without a look around


class ProcessEngine(Engine):
    """Workers write observations straight into the batch the caller reads; see signals.py for how they are woken."""

    backend = "process"
    forkable = False

    def __init__(self, source: EnvFactory, settings: Settings) -> None:
        launcher = WorkerLauncher(settings.start_method or default_start_method(settings.workers))
        self._held = Resources(launcher)
        self._hands, self._bell = self._held.hands, self._held.bell
        self._oom_kills = oom_kills()
        self._pinned = _pins(settings)
        # Watching pays where it takes no core from a worker: one is free, or each worker has its own to come back to.
        # Unpinned on as many cores, a watching parent halved the speed of two workers.
        spare = settings.workers < usable_cores()
        self._watch_seconds = WATCH_SECONDS if self._pinned or spare else 0.0
        self._last_wait, self._contention = 0.0, Contention()
        self._seen: dict[int, tuple[Any, float]] = {}  # per busy worker: where it is, and since when
        self._finalizer = weakref.finalize(self, self._held.close, settings.close_timeout)
        try:
            super().__init__(source, settings)
        except BaseException:
            self.closed = True
            self._finalizer()
            raise

    @property
    def workers(self) -> int:
        return len(self._hands)

    @property
    def start_method(self) -> str:
        return self._held.launcher.method

    # --- bringing workers up ------------------------------------------------------------------------------------

    def _build_first_env(self, rows: list[int]) -> EnvDescription:
        """The first worker alone: bad input and too little memory are found before there is a second one."""
        self._hire(0)
        return self._first_answer(0, "build", (rows[:1],))

    def _hire(self, number: int) -> WorkerHandle:
        with Undisturbed():  # between a process and its place among those that are ended
            hand = WorkerHandle(number, self._held.launcher)
            self._hands[number : number + 1] = [hand]
        strict = self.settings.strictness
        isolate = self.settings.isolate_random
        hiring = (self.source, strict, isolate, self._cores(number), self._watch_seconds)
        with contextlib.suppress(ChannelClosed, ChannelTimeout):  # found with the next question
            hand.request("hire", hiring, timeout=self._start_patience())
        return hand

    def _hire_late(self, number: int) -> WorkerHandle:
        """For an engine that was running already, and has no other backend to fall back on."""
        try:
            return self._hire(number)
        except OSError as error:
            raise WorkerDied(f"worker {number} could not be started: {error}") from error

    def _cores(self, number: int) -> list[int]:
        cores = allowed_cores()
        return [cores[number % len(cores)]] if self._pinned else []

    def _first_answer(self, number: int, method: str, args: tuple) -> Any:
        hand = self._hands[number]
        try:
            return hand.response(hand.request(method, args), self._start_patience())
        except Failed as failed:
            raise failed.failure.exception() from None
        except (ChannelClosed, ChannelTimeout) as lost:
            raise self._lost_at_start(number, lost) from None

    def _start_workers(self, spec: BatchSpec, description: EnvDescription) -> None:
        self._allocate(spec)
        while len(self._hands) <= max(s.worker for s in self.segments):
            self._hire(len(self._hands))
        self._attach(range(len(self._hands)), built={0: {rows_of(self.segments, 0)[0]}})
        self._watch_deaths()

    def _allocate(self, spec: BatchSpec) -> None:
        size = spec.fields()[1]
        try:
            self.batch = Batch(spec, map_block(self._held.new_block(size), size))
        except OSError as error:
            raise MemoryShortage(f"{size_text(size)} of shared memory could not be had: {error.strerror}") from None

    def _attach(self, numbers: Sequence[int], built: dict[int, set[int]]) -> None:
        """Have workers build the envs they lack and move to the block `fd`, all at the same time."""
        spaces = self.single_observation_space, self.single_action_space
        pending, block = [], self._held.block
        problems: list[BaseException] = []
        for number in numbers:
            hand = self._hands[number]
            mine = [s for s in self.segments if s.worker == number]
            missing = [row for row in rows_of(self.segments, number) if row not in built.get(number, ())]
            fds = (block, *(() if hand.batch is not None else (*hand.bell.fds, *self._bell.fds)))
            patience = self._start_patience(len(missing))
            try:
                build = hand.request("build", (missing, spaces), timeout=patience)
                pending.append((hand, build, patience, (len(fds), self.batch.spec, number, mine), fds))
            except (ChannelClosed, ChannelTimeout) as lost:
                problems.append(self._lost_at_start(number, lost))
        for hand, build, patience, where, fds in pending:
            try:
                # The answer first: large spaces fill a socket, and each side would wait for the other to read.
                hand.response(build, patience)
                hand.response(hand.request("attach", where, fds, patience), patience)
                hand.attached(self.batch)
            except Failed as failed:
                problems.append(failed.failure.exception())
            except (ChannelClosed, ChannelTimeout) as lost:
                problems.append(self._lost_at_start(hand.number, lost))
        if problems:  # only now, when all others know where to look for their next message
            raise problems[0]

    def _check_workers(self) -> None:
        self._call_workers({hand.number: ("rest", ()) for hand in self._hands})

    def _resize_workers(self, spec: BatchSpec) -> None:
        old, kept = self.batch, min(self.batch.spec.num_envs, spec.num_envs)
        self._allocate(spec)
        staff = max(s.worker for s in self.segments) + 1
        leaving, self._hands[staff:] = self._hands[staff:], []
        dismiss(leaving, self.settings.close_timeout)
        built = {hand.number: set(range(old.spec.num_envs)) for hand in self._hands}
        while len(self._hands) < staff:
            self._hire_late(len(self._hands))
        self.batch.observations.put(slice(0, kept), old.observations.take(slice(0, kept)), kept)
        self._attach(range(staff), built)
        self._watch_deaths()
        self._share_slots()

    def _watch_deaths(self) -> None:
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._by_pidfd = {}
        for hand in self._hands:
            self._by_pidfd[hand.process.pidfd] = hand.number
            self._poll.register(hand.process.pidfd, select.POLLIN)

    # --- stepping -----------------------------------------------------------------------------------------------

    def _start_step(self, segments: Sequence[Segment]) -> None:
        if self.batch.actions.object_leaves:
            self._send_objects(segments)
        go = self.batch.go
        for segment in segments:
            go[segment.index] += 1
        all_of_them = segments is self.segments
        ring(self._hands if all_of_them else [self._hands[k] for k in {s.worker for s in segments}])

    def _send_objects(self, segments: Sequence[Segment]) -> None:
        """The slow path: actions without a fixed size go by message."""
        actions = self.batch.actions
        items: dict[int, list[tuple[int, int, Any]]] = {}
        for s in segments:
            mine = items.setdefault(s.worker, [])
            mine += [(k, row, actions.columns[k][row]) for k in actions.object_leaves for row in range(s.low, s.high)]
        self._call_workers({worker: ("take_actions", (mine,)) for worker, mine in items.items()})

    def _wait(self, segments: Sequence[Segment], need: int) -> None:
        some = self.settings.per_env and need < len(segments)
        if some and self.settings.step_timeout is not None:  # others may finish again and again beside a hung one
            self._check_hangs(self.settings.step_timeout)
        start = clock()
        if some or self._last_wait > self._watch_seconds or not self._watch(segments, start + self._watch_seconds):
            self._sleep(segments, need if some else len(segments))
        now = clock()
        self._last_wait = now - start
        fence()
        if self._pinned and self._contention.changed(now - start, now):
            self._settle_workers()

    def _settle_workers(self) -> None:
        """Give up the cores to a busy neighbour, or take them back."""
        crowded = self._contention.crowded
        self._watch_seconds = 0.0 if crowded else WATCH_SECONDS
        for hand in self._hands:
            cores = allowed_cores() if crowded else self._cores(hand.number)
            hand.tell("settle", (cores, self._watch_seconds))

    def _watch(self, segments: Sequence[Segment], until: float) -> bool:
        """Look for the results of all these segments, one after the other, giving way to the workers."""
        go, done = self.batch.go, self.batch.done
        for segment in segments:
            index = segment.index
            if done[index] != go[index] and not watch(done, index, go[index] - 1, until - clock()):
                return False
        return True

    def _sleep(self, segments: Sequence[Segment], enough: int) -> None:
        """One poll waits for results, for deaths and for deadlines."""
        batch, timeout = self.batch, self.settings.step_timeout
        go, done = batch.go, batch.done

        def ready() -> bool:
            return sum([done[s.index] == go[s.index] for s in segments]) >= enough

        for hand in self._hands:
            with contextlib.suppress(ChannelClosed, ChannelTimeout):  # then found below
                hand.catch_up(timeout)
        pause = CHECK_SECONDS if timeout is None else min(CHECK_SECONDS, timeout / 4)
        batch.parent_words[ASLEEP] = 1
        fence()
        try:
            while not ready():
                start = time.monotonic()
                news = self._poll.poll(pause * 1000)
                if time.monotonic() - start > pause + OVERSLEPT_SECONDS:
                    self._seen.clear()  # nobody hung: all of us were stopped
                for fd, _ in news:
                    if fd == self._bell.fileno():
                        self._bell.silence()
                    elif fd in self._by_pidfd and not ready():
                        self._lose(self._by_pidfd[fd], None)
                if timeout is not None:
                    self._check_hangs(timeout)
        finally:
            batch.parent_words[ASLEEP] = 0

    def _check_hangs(self, timeout: float) -> None:
        """A worker that has been at the same env for too long is killed and treated as dead."""
        now, go, done = time.monotonic(), self.batch.go, self.batch.done
        busy: dict[int, int] = {}
        for s in self._in_flight.values():
            if done[s.index] != go[s.index]:
                busy[s.worker] = busy.get(s.worker, 0) + go[s.index]
        for number, asked in busy.items():
            row = self._hands[number].current_row()
            if number not in self._seen or self._seen[number][0] != (row, asked):
                self._seen[number] = (row, asked), now
            elif now - self._seen[number][1] > timeout:
                del self._seen[number]
                self._lose(number, self._kill(number))

    def _read_report(self, segment: Segment) -> StepReport:
        hand = self._hands[segment.worker]
        try:
            return hand.report(segment.index, segment.low, self.settings.step_timeout)
        except ChannelClosed:  # it died between the step and its last words
            self._lose(segment.worker, None)
        except ChannelTimeout:
            self._lose(segment.worker, self._kill(segment.worker))
        return StepReport()

    # --- asking -------------------------------------------------------------------------------------------------

    def _call_workers(self, wanted: dict[int, tuple[str, tuple]], raw: bool = False) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        first: Failed | None = None
        while left := [k for k in wanted if k not in answers]:
            asked = {k: self._request(k, *wanted[k]) for k in left}
            for k, number in asked.items():
                try:
                    if isinstance(number, Exception):
                        raise number
                    answers[k] = self._hands[k].response(number, self.settings.step_timeout)
                except Failed as failed:
                    answers[k], first = None, first or failed
                except ChannelClosed:
                    self._lose(k, None)  # raises, or puts a new worker in its place, which is asked again
                except ChannelTimeout:
                    self._lose(k, self._kill(k))
        if first is not None:
            raise first if raw else first.failure.exception()
        return answers

    def _notify_workers(self, method: str, args: tuple) -> None:
        for hand in self._hands:
            hand.tell(method, args, self._start_patience())

    def _request(self, worker: int, method: str, args: tuple) -> int | Exception:
        hand, timeout = self._hands[worker], self.settings.step_timeout
        try:
            hand.catch_up(timeout)  # a worker that has nothing else to do takes even a long message at once
            return hand.request(method, args, timeout=timeout)
        except (ChannelClosed, ChannelTimeout) as lost:
            return lost

    # --- losing workers -----------------------------------------------------------------------------------------

    def _lose(self, number: int, hung_row: int | None) -> None:
        """A worker is dead, or was killed at `hung_row`: raise, or put another in its place."""
        error = self._death(number, hung_row)
        if self.settings.on_failure != "restart":
            self._fail(error)
            raise error
        story = f"{type(error).__name__}: {error}"
        lost = [s for s in self.segments if s.worker == number and s.index in self._in_flight]
        self._resent |= {s.index for s in lost}
        while True:
            self._count_restart("worker", number, story)
            try:
                failure = self._replace(number, lost)
            except Failed as failed:
                failure = failed.failure
            except (ChannelClosed, ChannelTimeout) as lost_again:
                row = self._kill(number) if isinstance(lost_again, ChannelTimeout) else None
                story = f"WorkerDied: {self._death(number, row)}"
                continue
            except BaseException as broken_off:  # it could not be started, or Ctrl-C: there is nobody in its place
                self._fail(broken_off)
                raise broken_off from error
            if failure is None:
                return
            story = failure.trace

    def _kill(self, number: int) -> int:
        """End a worker that hangs; returns the env it was at."""
        row = self._hands[number].current_row()
        self._hands[number].process.kill()
        return row

    def _replace(self, number: int, lost: Sequence[Segment]) -> Failure | None:
        """A new worker with the same envs, started on seeds of their own. Segments that were on their way are asked
        for again, also if the dead worker had finished them: their observations are no longer there."""
        self._bury(number)
        batch, rows = self.batch, rows_of(self.segments, number)
        for segment in lost:  # nothing to do yet for the new worker
            batch.done[segment.index] = batch.go[segment.index]
        hand, patience = self._hire_late(number), self._start_patience(len(rows))
        mine = [s for s in self.segments if s.worker == number]
        spaces = self.single_observation_space, self.single_action_space
        fds = (self._held.block, *hand.bell.fds, *self._bell.fds)
        self._watch_deaths()
        hand.response(hand.request("build", (rows, spaces), timeout=patience), patience)
        attach = hand.request("attach", (len(fds), batch.spec, number, mine), fds, patience)
        hand.response(attach, patience)
        hand.attached(batch)
        slots = list(self._slot_table.slots.values())
        hand.response(hand.request("set_slots", (slots,)), patience)
        hand.response(hand.request("reset_with", (self._reset_options,), timeout=patience), patience)
        seeds = [self._restarts.next_seed(row) for row in rows]
        reports = hand.response(hand.request("revive", (rows, seeds)), self.settings.step_timeout)
        for report in reports:
            for k, row, value in report.objects:
                batch.observations.columns[k][row] = value
            if report.failures:
                return report.failures[0]
        for segment in lost:
            batch.done[segment.index] = batch.go[segment.index] - 1
        hand.ring()
        return None

    def _bury(self, number: int) -> None:
        hand = self._hands[number]
        hand.process.kill()
        hand.process.wait()
        hand.discard()

    def _start_patience(self, envs: int = 1) -> float | None:
        """A worker may take its time to start: interpreter, imports, building so many envs."""
        timeout = self.settings.step_timeout
        return None if timeout is None else max(timeout, START_SECONDS) * max(envs, 1)

    def _lost_at_start(self, number: int, lost: Exception) -> WorkerDied:
        if isinstance(lost, ChannelClosed):
            return self._death(number, None)
        self._kill(number)
        seconds = self._start_patience()
        return StepTimeout(
            f"worker {number} did not start its envs {listed(rows_of(self.segments, number))} within {seconds:g} s per "
            "env; it was killed"
        )

    def _death(self, number: int, hung_row: int | None) -> WorkerDied:
        hand, rows = self._hands[number], rows_of(self.segments, number)
        who = f"worker {number} (pid {hand.process.pid}, envs {listed(rows)})"
        if hung_row is not None:
            hand.process.wait()
            return StepTimeout(
                f"env {hung_row} did not return within step_timeout={self.settings.step_timeout:g} s; {who} was killed"
            )
        row = hand.current_row()
        at = f" while at env {row}" if row in rows else ""
        hand.process.kill()  # no effect on one that is dead; an env may also have closed the channel and live on
        manner = ending(hand.process.wait(), oom_kills() > self._oom_kills)
        self._oom_kills = oom_kills()
        return WorkerDied(f"{who} {manner}{at}")

    # --- the rest -----------------------------------------------------------------------------------------------

    def _usage(self) -> list[dict[str, Any]]:
        return [process_usage(hand.process.pid) for hand in self._hands]

    def _release(self) -> None:
        """Workers may close their envs in peace, but who hangs must not hold the error back that ends the engine."""
        try:
            kill_silent([hand for hand in self._hands if not hand.discarded], LAST_STEP_SECONDS)
        finally:
            self._held.close(self.settings.close_timeout)

    def close_extras(self, timeout: float | None = None, terminate: bool = False, **kwargs: Any) -> None:
        """Close all envs and end all workers, within `timeout` seconds (default: `close_timeout`)."""
        self.closed = True
        self._in_flight.clear()
        self._finalizer.detach()
        failures = self._held.close(0.0 if terminate else self.settings.close_timeout if timeout is None else timeout)
        del self.batch  # the block goes back to the system once no returned view refers to it
        if failures:
            raise failures[0].exception()


def _pins(settings: Settings) -> bool:
    """Pin workers where there is one for each core: measured +26 % to +50 % on short steps. With fewer workers the
    kernel finds free cores itself, and pinning would make separate runs share the same ones."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    return settings.workers == len(allowed_cores()) if settings.pin is None else settings.pin


def default_start_method(workers: int) -> str:
    """Safe with threads and without a guarded main module; many workers share one warm interpreter."""
    return "spawn" if workers <= max(2, len(allowed_cores())) else "forkserver"
