"""An agent that acts for batches of requests, with the memory of recurrent agents by session; and the thread that makes
batches of the requests that wait."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rookery.deploy.serving.act_request import ActRequest, Answer, RequestReader
from rookery.errors import BadValue
from rookery.learners.agent import Agent
from rookery.learners.frozen_policy import freeze

MOST_SESSIONS = 10_000  # whose memory is kept; the one that was used longest ago is forgotten first
MOST_WAITING = 1024  # requests
MOST_BATCH_ROWS = 8192  # rows of one forward pass, unless a single request has more


class ServedAgent:
    """A frozen agent and its version. Requests that arrive together are one forward pass; the actions of a request do
    not depend on the others."""

    def __init__(self, agent: Agent, version: int | str) -> None:
        self.agent, self.version = agent, version
        self.reader = RequestReader(agent)
        self._forward, self._device = freeze(agent.policy), agent.device
        self._generator = torch.Generator(self._device)
        self._generator.seed()
        self._memories: OrderedDict[str, torch.Tensor] = OrderedDict()

    def why_not_after(self, other: ServedAgent) -> str:
        """Why this agent cannot replace another one while clients are connected; "" if it can."""
        for name in ("observation_space", "action_space"):
            before, now = getattr(other.agent, name), getattr(self.agent, name)
            if before != now:
                what = name.replace("_", " ")
                return f"its {what} is {now}, and that of version {other.version} is {before}: start the server again"
        if bool(self.agent.policy.memory_size) != bool(other.agent.policy.memory_size):
            return f"only one of it and version {other.version} is recurrent: start the server again"
        return ""

    def warm_up(self) -> None:
        """Act once, so that what is compiled or allocated on the first call is ready; an agent that fails or returns
        NaN fails here."""
        leaves = [leaf.blank(1).numpy() for leaf in self.agent.policy.leaves]
        session = "warm up" if self.agent.policy.memory_size else None
        for deterministic in (True, False):
            self.act([ActRequest(leaves, deterministic, session=session)])
        self._memories.clear()

    def act(self, requests: Sequence[ActRequest]) -> list[Any]:
        """The actions for each request. No two of them are of one session. After an error, no memory has changed."""
        answers: dict[int, Any] = {}
        memories: list[tuple[ActRequest, torch.Tensor]] = []
        for deterministic in (True, False):
            chosen = [(k, request) for k, request in enumerate(requests) if request.deterministic == deterministic]
            if chosen:
                parts, kept = self._act([request for _, request in chosen], deterministic)
                answers.update(zip((k for k, _ in chosen), parts, strict=True))
                memories += kept
        for request, memory in memories:
            self._remember(request, memory)
        return [answers[k] for k in range(len(requests))]

    def _act(
        self, requests: list[ActRequest], deterministic: bool
    ) -> tuple[list[Any], list[tuple[ActRequest, torch.Tensor]]]:
        """The actions for each request, and the next memory of each if the agent is recurrent."""
        ends = np.cumsum([request.rows for request in requests])
        rows = int(ends[-1])
        leaves = [self._tensor(parts) for parts in zip(*(request.leaves for request in requests), strict=True)]
        noise = None if deterministic else self.agent.policy.sample_noise(rows, self._generator)
        memory = torch.cat([self._recall(request) for request in requests]) if requests[0].session else None
        flat, memory = self._forward.on_tensors(leaves, noise, memory, self._mask(requests))
        actions = flat.cpu().numpy()
        if actions.dtype.kind == "f" and not np.isfinite(actions).all():
            raise BadValue("the agent's actions are NaN or infinite")
        memories = [] if memory is None else torch.tensor_split(memory, ends[:-1].tolist())
        nested = [self.agent.nested(part) for part in np.split(actions, ends[:-1])]
        return nested, list(zip(requests, memories, strict=False))

    def _tensor(self, parts: Sequence[np.ndarray]) -> torch.Tensor:
        joined = np.concatenate(parts)  # a copy: bytes of a request cannot be written to, which torch warns of
        return torch.from_numpy(joined).to(self._device)

    def _mask(self, requests: list[ActRequest]) -> torch.Tensor | None:
        """The masks of all rows; a request without one allows everything."""
        width = next((request.mask.shape[1] for request in requests if request.mask is not None), None)
        if width is None:
            return None
        masks = [np.ones((r.rows, width), bool) if r.mask is None else r.mask for r in requests]
        return torch.from_numpy(np.concatenate(masks)).to(self._device)

    def _recall(self, request: ActRequest) -> torch.Tensor:
        """The memory of a session: zero if it is new or has another number of rows, and where an episode begins."""
        known = self._memories.get(request.session or "")
        if known is None or len(known) != request.rows:
            return torch.zeros(request.rows, self.agent.policy.memory_size, device=self._device)
        if request.starts is None:
            return known
        return known.masked_fill(torch.from_numpy(request.starts).to(self._device).reshape(-1, 1), 0.0)

    def _remember(self, request: ActRequest, memory: torch.Tensor) -> None:
        session = request.session or ""
        self._memories[session] = memory.clone()  # a view would keep the whole batch
        self._memories.move_to_end(session)
        if len(self._memories) > MOST_SESSIONS:
            self._memories.popitem(last=False)


class QueueFull(Exception):
    """As many requests wait as may wait."""


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
        """Answer by another agent from the next batch on. The memory of recurrent agents' sessions starts over."""
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
