"""A worker process: steps its envs when it is woken, and handles requests in between."""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import pickle
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any

from rookery.engine.batch import ASLEEP, MESSAGES, ROW, WAKEUP, WORKER_WORDS, Batch, BatchSpec
from rookery.engine.loops import fence, watch
from rookery.engine.machine import set_affinity, yield_core
from rookery.engine.segments import Segment
from rookery.engine.step_report import REPORT, Failed, Failure, StepReport
from rookery.engine.worker_envs import WorkerEnvs
from rookery.engine.workers.channel import NO_REPLY, Channel, ChannelClosed, dumps
from rookery.gate import follow_parent

PARENT_CHECK_SECONDS = 1.0
SHORT_IMPORTS = 0.03  # CPU seconds


def run_worker(worker: Worker) -> None:
    """Serve until the engine requests an exit, or until the parent is gone. Never returns."""
    follow_parent()
    logging.getLogger("rookery").setLevel(logging.WARNING)  # else every worker would print what the parent prints once
    code = 0
    try:
        worker.serve()
    except ChannelClosed:
        pass  # the parent is gone
    except BaseException:  # noqa: BLE001 - a defect of rookery, or an env that interfered with this loop: report it and exit
        traceback.print_exc()
        code = 1
    worker.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)  # no atexit handlers or threads of the envs may keep the process alive


class Worker:
    """One end of the protocol; the other end is `WorkerHandle` in the parent. Subclasses say how a system shares memory
    and wakes a process."""

    _wakeup: Any
    _parent_wakeup: Any

    def __init__(self, channel: Channel, parent: int) -> None:
        self._channel, self._parent = channel, parent
        self._own_modules, self._began = set(sys.modules), time.process_time()
        self._envs: WorkerEnvs | None = None
        self._batch: Batch | None = None
        self._running = self._stepping = True
        self._last_pause = 0.0

    def serve(self) -> None:
        while self._running and self._batch is None:  # no arrays yet: messages only
            self._handle_request()
        seen = 0
        while self._running:
            seen = self._wait_for_wakeup(seen)
            while self._messages_read != self._words[self._base + MESSAGES]:
                self._messages_read += 1
                self._handle_request()
            if self._stepping:
                self._step_segments()

    def close(self) -> None:
        self._channel.close()

    def _accept(self, ticket: Any, fds: list[int], size: int) -> mmap.mmap:
        """The shared memory that the parent offers, by what came with its request."""
        raise NotImplementedError

    # --- stepping -----------------------------------------------------------------------------------------------

    def _wait_for_wakeup(self, seen: int) -> int:
        """Wait until the wakeup word changes: poll it for a moment, then sleep until the wakeup is set."""
        words, wakeup = self._words, self._base + WAKEUP
        start = time.perf_counter()
        # Not after a longer pause: the process that this one waits for then needs the core more.
        if self._last_pause > self._spin_seconds or not watch(words, wakeup, seen, self._spin_seconds):
            words[self._base + ASLEEP] = 1
            fence()
            while words[wakeup] == seen:
                self._wakeup.wait(PARENT_CHECK_SECONDS)
                if os.getppid() != self._parent:
                    os._exit(1)
            words[self._base + ASLEEP] = 0
        self._last_pause = time.perf_counter() - start
        seen = words[wakeup]
        fence()
        return seen

    def _step_segments(self) -> None:
        """Step every segment that was sent."""
        batch, envs = self._batch, self._envs
        assert batch is not None and envs is not None
        go, done = batch.go, batch.done
        for index, stepper in envs.steppers.items():
            wanted = go[index]
            if wanted == done[index]:
                continue
            status, report = stepper.step()
            batch.status[index] = status
            fence()
            done[index] = wanted
            fence()
            if batch.parent_words[ASLEEP]:
                self._parent_wakeup.set()
            yield_core()  # at once: on a shared core the parent may be waiting for it
            if status == REPORT:  # after `done`, so that the parent is already reading when it is long
                self._reply(("report", index, report))

    # --- requests -----------------------------------------------------------------------------------------------

    def _handle_request(self) -> None:
        (number, method, packed), fds = self._channel.receive()
        try:
            args = pickle.loads(packed)  # noqa: S301 - from the live parent; apart, so that a failure has the request's number
            own = getattr(self, f"_do_{method}", None)
            value = own(fds, *args) if own else getattr(self._envs, method)(*args)
            message = ("value", number, value)
        except Failed as failed:
            message = ("failed", number, failed.failure)
        except BaseException as error:  # noqa: BLE001
            message = ("failed", number, Failure(-1, method, error))
        self._reply(message)

    def _reply(self, message: tuple) -> None:
        """Pickle the value apart, so that a failure to pickle or to unpickle it is reported with its number."""
        kind, number, value = message
        if number == NO_REPLY and kind != "report":
            return
        try:
            packed = dumps(value)
        except Exception as error:  # noqa: BLE001 - pickling runs the objects' own code
            row, what = _unpicklable(value) if kind == "report" else (-1, "the result")
            problem = TypeError(f"{what} cannot be sent to another process: {error}")
            kind = "report" if kind == "report" else "failed"
            packed = dumps(Failure(row, "step" if kind == "report" else "call", problem))
        self._channel.send((kind, number, packed))

    def _do_start(
        self, _: list[int], source: Any, strict: bool, isolate: bool | None, cores: Sequence[int], spin_seconds: float,
        observation_mode: Any = "same",
    ) -> int:  # fmt: skip
        _one_torch_thread()
        self._do_set_affinity([], cores, spin_seconds)
        self._envs = WorkerEnvs(source, strict, isolate, observation_mode)
        return os.getpid()

    def _do_packages(self, _: list[int]) -> tuple[list[str], float]:
        """The modules of installed packages that were imported for the first env, in order, and how long that took: if
        it is long, other workers should have them from the start. The user's own modules are omitted."""
        seconds = time.process_time() - self._began
        if seconds < SHORT_IMPORTS:
            return [], seconds
        import site
        import sysconfig

        installed = tuple({*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()})
        new = {name: module for name, module in list(sys.modules.items()) if name not in self._own_modules}
        files = {name: getattr(module, "__file__", None) or "" for name, module in new.items()}
        return [
            name for name, file in files.items() if file.startswith(installed) and not name.startswith("rookery.")
        ], seconds

    def _do_set_affinity(self, _: list[int], cores: Sequence[int], spin_seconds: float) -> None:
        """Which cores to run on, and how long to poll for the next step before sleeping."""
        if cores:
            set_affinity(cores)
        self._spin_seconds = spin_seconds

    def _do_attach(
        self, fds: list[int], ticket: Any, spec: BatchSpec, number: int, segments: Sequence[Segment]
    ) -> None:
        assert self._envs is not None
        batch, base = Batch(spec, self._accept(ticket, fds, spec.fields()[1])), number * WORKER_WORDS
        self._envs.attach(batch, base + ROW, segments)
        self._batch, self._words, self._base = batch, batch.worker_words, base
        self._messages_read = self._words[self._base + MESSAGES]

    def _do_set_stepping(self, _: list[int], stepping: bool) -> None:
        """A worker that takes the place of a lost one does not step before its envs have been reset."""
        self._stepping = stepping

    def _do_ping(self, _: list[int]) -> None:
        """Nothing; the response says that all earlier requests are done."""

    def _do_exit(self, _: list[int]) -> list[Failure]:
        self._running = False
        return self._envs.close() if self._envs else []


def _unpicklable(report: StepReport) -> tuple[int, str]:
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
