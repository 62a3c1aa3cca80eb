"""An agent that acts for batches of requests, with the memory of recurrent agents by session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rookery.deploy.serving.act_request import ActRequest, RequestReader
from rookery.errors import BadValue
from rookery.learners.agent import Agent
from rookery.learners.frozen_policy import freeze

MOST_SESSIONS = 10_000  # whose memory is kept; the one that was used longest ago is forgotten first


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
                return f"its {what} is {now}, and that of version {other.version} is {before}: start the server anew"
        if bool(self.agent.policy.memory_size) != bool(other.agent.policy.memory_size):
            return f"only one of it and version {other.version} is recurrent: start the server anew"
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
