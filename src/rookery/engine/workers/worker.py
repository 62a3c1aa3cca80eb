"""A worker process: steps its envs when the bell rings, and answers messages in between."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import pickle
import select
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from rookery.engine.batch import ASLEEP, BELL, MAIL, ROW, WORKER_WORDS, Batch, BatchSpec
from rookery.engine.failure import Failed, Failure
from rookery.engine.loops import fence, watch
from rookery.engine.segments import Segment
from rookery.engine.step_report import REPORT, StepReport
from rookery.engine.worker_envs import WorkerEnvs
from rookery.engine.workers.channel import UNANSWERED, Channel, ChannelClosed, dumps
from rookery.engine.workers.child_process import settle_in
from rookery.engine.workers.shared_block import map_block
from rookery.engine.workers.wakeup import Wakeup

PARENT_CHECK_MS = 1000


def main(fd: int, parent: int) -> None:
    """Live until told to go, or until the parent is gone. Never returns."""
    settle_in(parent)
    logging.getLogger("rookery").setLevel(logging.WARNING)  # else every worker would say what the parent says once
    code, channel = 0, Channel(socket.socket(fileno=fd))
    try:
        Worker(channel, os.getppid()).serve()
    except ChannelClosed:
        pass  # the parent is gone
    except BaseException:  # noqa: BLE001 - a defect of ours, or an env that reached into this loop: say so and go
        traceback.print_exc()
        code = 1
    channel.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)  # no atexit handlers or threads of the envs may hold the process back


class Worker:
    """One end of the protocol whose other end is `ProcessEngine`."""

    def __init__(self, channel: Channel, parent: int) -> None:
        self._channel, self._parent = channel, parent
        self._crew: WorkerEnvs | None = None
        self._batch: Batch | None = None
        self._running = True
        self._last_pause = 0.0

    def serve(self) -> None:
        while self._running and self._batch is None:  # no arrays yet: messages only
            self._answer()
        heard = 0
        while self._running:
            heard = self._listen(heard)
            while self._mail_read != self._words[self._base + MAIL]:
                self._mail_read += 1
                self._answer()
            self._work()

    # --- stepping -----------------------------------------------------------------------------------------------

    def _listen(self, heard: int) -> int:
        """Wait until the bell word changes: watch it for a moment, then sleep until the bell rings."""
        words, bell = self._words, self._base + BELL
        start = time.perf_counter()
        # Not after a longer pause: whoever keeps us waiting that long needs the core more than we do.
        if self._last_pause > self._watch_seconds or not watch(words, bell, heard, self._watch_seconds):
            words[self._base + ASLEEP] = 1
            fence()
            while words[bell] == heard:
                self._poll.poll(PARENT_CHECK_MS)
                if os.getppid() != self._parent:
                    os._exit(1)
            words[self._base + ASLEEP] = 0
            self._bell.silence()
        self._last_pause = time.perf_counter() - start
        heard = words[bell]
        fence()
        return heard

    def _work(self) -> None:
        """Step every segment that was asked for."""
        batch, crew = self._batch, self._crew
        assert batch is not None and crew is not None
        go, done, give_way = batch.go, batch.done, os.sched_yield
        for index, stepper in crew.steppers.items():
            asked = go[index]
            if asked == done[index]:
                continue
            status, report = stepper.step()
            batch.status[index] = status
            fence()
            done[index] = asked
            fence()
            if batch.parent_words[ASLEEP]:
                self._parent_bell.ring()
            give_way()  # at once: on a shared core the parent is waiting for this very moment
            if status == REPORT:  # after `done`, so that the parent is already reading when it is long
                self._reply(("report", index, report))

    # --- answering ----------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        (number, method, packed), fds = self._channel.receive()
        try:
            args = pickle.loads(packed)  # noqa: S301 - from our own live parent; apart, so that its failure has a number
            answer = getattr(self, f"_do_{method}", None)
            value = answer(fds, *args) if answer else getattr(self._crew, method)(*args)
            message = ("value", number, value)
        except Failed as failed:
            message = ("failed", number, failed.failure)
        except BaseException as error:  # noqa: BLE001
            message = ("failed", number, Failure(-1, method, error))
        self._reply(message)

    def _reply(self, message: tuple) -> None:
        """Packed apart, so that what cannot be pickled, or read at the other end, is told with its number."""
        kind, number, value = message
        if number == UNANSWERED and kind != "report":
            return
        try:
            packed = dumps(value)
        except Exception as error:  # noqa: BLE001 - pickling runs the objects' own code
            row, what = _culprit(value) if kind == "report" else (-1, "the answer")
            problem = TypeError(f"{what} cannot be sent to another process: {error}")
            kind = "report" if kind == "report" else "failed"
            packed = dumps(Failure(row, "step" if kind == "report" else "call", problem))
        self._channel.send((kind, number, packed))

    def _do_hire(
        self, _: list[int], source: Any, strict: bool, isolate: bool | None, cores: Sequence[int], watch_seconds: float
    ) -> int:
        _one_torch_thread()
        self._do_settle([], cores, watch_seconds)
        self._crew = WorkerEnvs(source, strict, isolate)
        return os.getpid()

    def _do_settle(self, _: list[int], cores: Sequence[int], watch_seconds: float) -> None:
        """Where to run, and how long to look for the next task before sleeping."""
        if cores:
            os.sched_setaffinity(0, cores)
        self._watch_seconds = watch_seconds

    def _do_attach(self, fds: list[int], sent: int, spec: BatchSpec, number: int, segments: Sequence[Segment]) -> None:
        assert self._crew is not None
        if len(fds) < sent:  # the kernel drops those that are beyond the limit, without a word
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        block, *bells = fds
        buffer = map_block(block, spec.fields()[1])
        os.close(block)
        if bells:
            half = len(bells) // 2
            self._bell, self._parent_bell = Wakeup(bells[:half]), Wakeup(bells[half:])
            self._poll = select.poll()
            self._poll.register(self._bell, select.POLLIN)
        batch, base = Batch(spec, buffer), number * WORKER_WORDS
        self._crew.attach(batch, base + ROW, segments)
        self._batch, self._words, self._base = batch, batch.worker_words, base
        self._mail_read = self._words[self._base + MAIL]

    def _do_rest(self, _: list[int]) -> None:
        """Nothing; the answer says that what came before is done."""

    def _do_leave(self, _: list[int]) -> list[Failure]:
        self._running = False
        return self._crew.close() if self._crew else []


def _culprit(report: StepReport) -> tuple[int, str]:
    """Which env's info cannot be pickled, and which key of it."""
    for row, info in [*report.infos, *report.final_infos]:
        for key, value in info.items():
            try:
                dumps(value)
            except Exception:  # noqa: BLE001
                return row, f"info[{key!r}] ({type(value).__name__})"
    return -1, "what the env returned"


def _one_torch_thread() -> None:
    """Under `fork` torch may be here already, with a thread per core for each worker."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
