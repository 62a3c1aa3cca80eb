"""Requests that wait together are answered together: one thread acts, so that the event loop stays free to read."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, NamedTuple

from rookery.deploy.serving.act_request import ActRequest
from rookery.deploy.serving.served_agent import ServedAgent

MOST_WAITING = 1024  # requests
MOST_BATCH_ROWS = 8192  # rows of one forward pass, unless a single request has more


class QueueFull(Exception):
    """As many requests wait as may wait."""


class Answer(NamedTuple):
    """The actions of a request, and the version of the agent that chose them."""

    actions: Any
    version: int | str


class _Waiting(NamedTuple):
    request: ActRequest
    future: asyncio.Future[Answer]


class Batcher:
    """Answers requests by the present agent. `swap` changes the agent between two batches; a request is answered by the
    one or the other, and none is lost."""

    def __init__(self, agent: ServedAgent, most_waiting: int = MOST_WAITING) -> None:
        self._agent, self._most_waiting = agent, most_waiting
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self.batches = self.answered = 0
        self._thread = threading.Thread(target=self._work, name="rookery serve", daemon=True)
        self._thread.start()

    @property
    def agent(self) -> ServedAgent:
        """The agent that answers the next batch."""
        return self._agent

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def swap(self, agent: ServedAgent) -> None:
        """Answer by another agent from the next batch on. The memory of recurrent agents' sessions begins anew."""
        self._agent = agent

    async def answer(self, request: ActRequest) -> Answer:
        """The answer to a request; QueueFull if too many wait."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with self._changed:
            if len(self._waiting) >= self._most_waiting:
                raise QueueFull
            self._waiting.append(_Waiting(request, future))
            self._changed.notify()
        return await future

    def close(self) -> None:
        """Answer what waits, then end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    # --- in the thread ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while batch := self._take():
            self._answer(batch)

    def _take(self) -> list[_Waiting]:
        """The next batch, in the order of arrival; [] at the end. A session's second request waits for the next batch,
        as its memory is known after the first."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            batch: list[_Waiting] = []
            rows, sessions = 0, set[str]()
            while self._waiting:
                request = self._waiting[0].request
                if batch and (rows + request.rows > MOST_BATCH_ROWS or request.session in sessions):
                    break
                batch.append(self._waiting.popleft())
                rows += request.rows
                if request.session is not None:
                    sessions.add(request.session)
            return batch

    def _answer(self, batch: list[_Waiting]) -> None:
        answers = _answers(self._agent, [waiting.request for waiting in batch])
        self.batches += 1
        self.answered += len(batch)
        loop = batch[0].future.get_loop()
        try:
            loop.call_soon_threadsafe(_deliver, batch, answers)
        except RuntimeError:  # the loop was closed while the last batch was computed: nobody waits
            pass


def _answers(agent: ServedAgent, requests: list[ActRequest]) -> list[Answer | Exception]:
    """Answers or errors. If a batch fails, each of its requests is tried alone: an observation for which the agent
    computes NaN must not spoil the answers of others."""
    try:
        return [Answer(actions, agent.version) for actions in agent.act(requests)]
    except Exception as error:  # noqa: BLE001 - the thread must live; the error goes to those who asked
        if len(requests) == 1:
            return [error]
        return [answer for request in requests for answer in _answers(agent, [request])]


def _deliver(batch: list[_Waiting], answers: list[Answer | Exception]) -> None:
    for waiting, answer in zip(batch, answers, strict=True):
        if waiting.future.done():  # its client has gone
            continue
        if isinstance(answer, Exception):
            waiting.future.set_exception(answer)
        else:
            waiting.future.set_result(answer)
