"""The parent's handle on one worker process: asking, posting, and letting go."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from typing import Any

import cloudpickle

from rookery.engine.batch import ASLEEP, BELL, MAIL, ROW, WORKER_WORDS, Batch
from rookery.engine.failure import Failed, Failure
from rookery.engine.loops import fence
from rookery.engine.step_report import StepReport
from rookery.engine.workers.channel import UNANSWERED, ChannelClosed, ChannelTimeout
from rookery.engine.workers.held_interrupts import Undisturbed
from rookery.engine.workers.launcher import WorkerLauncher
from rookery.engine.workers.shared_block import new_block
from rookery.engine.workers.wakeup import Wakeup

OVERSLEPT_SECONDS = 1.0  # who wakes up so late was stopped, as by Ctrl-Z, and the workers with it


class WorkerHandle:
    """Worker `number`: its process, its channel and, once attached, its words in the batch."""

    def __init__(self, number: int, launcher: WorkerLauncher) -> None:
        self.number = number
        self.bell = Wakeup()
        try:
            self.process, self.channel = launcher.start()
        except BaseException:
            self.bell.close()
            raise
        self.batch: Batch | None = None
        self._asked = 0
        self._due: set[int] = set()  # questions on their way whose answers were not taken
        self._values: dict[int, tuple[str, bytes]] = {}
        self._reports: dict[int, bytes] = {}

    def attached(self, batch: Batch) -> None:
        """From now on the worker looks at these words rather than at its channel."""
        self.batch, self.words, self._base = batch, batch.worker_words, self.number * WORKER_WORDS
        self.bell_word, self.asleep_word = self._base + BELL, self._base + ASLEEP

    def ring(self) -> None:
        """Have the worker look at its words."""
        ring([self])

    def request(self, method: str, args: tuple, fds: tuple[int, ...] = (), timeout: float | None = None) -> int:
        """Send a question; `response` with the number returned here gives the answer."""
        self._asked += 1
        self._mail(self._asked, method, args, fds, timeout)
        return self._asked

    def tell(self, method: str, args: tuple, timeout: float | None = None) -> None:
        """A message that needs no answer, and whose loss with the worker does not matter. A worker that does not take
        it in time is lost."""
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            self._mail(UNANSWERED, method, args, (), timeout)

    def _mail(self, number: int, method: str, args: tuple, fds: tuple = (), timeout: float | None = None) -> None:
        packed = cloudpickle.dumps(args)  # by value for what lives in a script or notebook: workers do not import it
        with Undisturbed():
            if number != UNANSWERED:
                self._due.add(number)
            try:
                if self.batch is not None:
                    self.words[self._base + MAIL] += 1
                    self.ring()  # first, so that the worker is reading when the message is long
                self.channel.send((number, method, packed), fds, timeout)
            except BaseException:  # from a signal's handler: the worker would wait for this message for ever
                self.channel.break_off()
                raise

    def response(self, number: int, patience: float | None = None, deadline: float | None = None) -> Any:
        """The answer to a question. ChannelTimeout is raised when the worker has spent `patience` seconds on one env,
        or at the `deadline`."""
        while number not in self._values:
            self._receive(patience, deadline)
        self._due.discard(number)  # first: of an answer that is gone and due, `catch_up` would wait for ever
        kind, packed = self._values.pop(number)
        value = _load(packed, -1)
        if kind == "failed" or isinstance(value, Failure):
            raise Failed(value)
        return value

    def catch_up(self, patience: float | None) -> None:
        """Read the answers that Ctrl-C kept us from reading: a worker whose answer is long waits for that."""
        while not self._due <= self._values.keys():
            self._receive(patience, None)
        for number in self._due:
            del self._values[number]
        self._due.clear()

    def report(self, index: int, row: int, patience: float | None = None) -> StepReport:
        """The report of a segment that has one; `row` is blamed if it cannot be read."""
        while index not in self._reports:
            self._receive(patience, None)
        report = _load(self._reports.pop(index), row)
        return StepReport(failures=[report]) if isinstance(report, Failure) else report

    def _receive(self, patience: float | None, deadline: float | None) -> None:
        """Take one message in. A worker that has moved on to another env is given new patience, and so is one that
        could not while all of us were stopped."""
        row = self.current_row()
        while True:
            start = time.monotonic()
            left = patience if deadline is None else max(0.0, deadline - start)
            try:
                self.channel.gather(left)
                break
            except ChannelTimeout:
                overslept = left is not None and time.monotonic() - start > left + OVERSLEPT_SECONDS
                if deadline is not None or (row == self.current_row() and not overslept):
                    raise
                row = self.current_row()
        with Undisturbed():  # between what was taken out of the channel and its place
            (kind, number, packed), _ = self.channel.receive()
            if kind == "report":
                self._reports[number] = packed
            else:
                self._values[number] = kind, packed

    def current_row(self) -> int:
        """The env the worker is at."""
        return -1 if self.batch is None else self.words[self._base + ROW]

    def discard(self) -> None:
        """Free what this process holds for a worker that has ended."""
        self.channel.close()
        self.bell.close()
        self.process.close()
        self.batch = None

    @property
    def discarded(self) -> bool:
        """Whether that is done."""
        return not self.bell.fds


def ring(hands: Sequence[WorkerHandle]) -> None:
    """Have workers look at their words: 0.4 us for those that are watching, a system call for each that sleeps."""
    for hand in hands:
        hand.words[hand.bell_word] += 1
    fence()
    for hand in hands:
        if hand.words[hand.asleep_word]:
            hand.bell.ring()


def dismiss(hands: Sequence[WorkerHandle], timeout: float) -> list[Failure]:
    """Close the envs of these workers and end them, within `timeout` seconds whatever they are doing."""
    deadline = time.monotonic() + timeout
    hands = [hand for hand in hands if not hand.discarded]  # such as one that could not be replaced
    try:
        return _ask_to_leave(hands, deadline)
    except BaseException:  # Ctrl-C: at once, then
        deadline = 0.0
        raise
    finally:
        for hand in hands:
            if not hand.process.ends_within(max(0.0, deadline - time.monotonic())):
                hand.process.kill()
        for hand in hands:
            hand.process.wait()
            hand.discard()


def kill_silent(hands: Sequence[WorkerHandle], timeout: float) -> None:
    """Kill those that do not come to an end of what they are doing within `timeout` seconds."""
    silent = {hand.number: hand for hand in hands}
    for number, _ in _answers(hands, "rest", time.monotonic() + timeout):
        del silent[number]
    for hand in silent.values():
        hand.process.kill()


def _ask_to_leave(hands: Sequence[WorkerHandle], deadline: float) -> list[Failure]:
    return [failure for _, failures in _answers(hands, "leave", deadline) for failure in failures]


def _answers(hands: Sequence[WorkerHandle], method: str, deadline: float) -> Iterator[tuple[int, Any]]:
    """Who answers a question until then, and what."""
    asked = []
    for hand in hands:
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            asked.append((hand, hand.request(method, (), timeout=0.5)))
    for hand, number in asked:
        with contextlib.suppress(ChannelClosed, ChannelTimeout, Failed):
            yield hand.number, hand.response(number, deadline=deadline)


def _load(packed: bytes, row: int) -> Any:
    """What a worker sent, or a Failure if it cannot be read here."""
    try:
        return pickle.loads(packed)  # noqa: S301 - from our own live worker
    except Exception as error:  # noqa: BLE001 - an object's own __setstate__ or constructor may raise anything
        problem = TypeError(f"what the env returned cannot be read in this process: {type(error).__name__}: {error}")
        return Failure(row, "step", problem)


class Resources:
    """All that a process engine holds of the system, in one place, so that one call lets it go."""

    def __init__(self, launcher: WorkerLauncher) -> None:
        self.launcher, self.bell, self.block = launcher, Wakeup(), -1
        self.hands: list[WorkerHandle] = []
        self._owner = os.getpid()

    def new_block(self, size: int) -> int:
        """A shared block in the place of the one there was."""
        self._release_block()
        self.block = new_block(size)
        return self.block

    def close(self, timeout: float) -> list[Failure]:
        """End all workers. Quiet when repeated or at interpreter exit; does nothing in a forked child, to whom none of
        this belongs."""
        if os.getpid() != self._owner or not self.bell.fds:
            return []
        leaving, self.hands[:] = list(self.hands), []
        try:
            return dismiss(leaving, timeout)
        finally:
            self.launcher.close()
            self.bell.close()
            self._release_block()

    def _release_block(self) -> None:
        if self.block >= 0:
            os.close(self.block)
            self.block = -1
