"""What an account is at a moment: the stretch that it is in, and what its lines say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.deploy.paper.book import Book
from rookery.deploy.paper.paper_world import PaperWorld
from rookery.deploy.paper.traded_agents import TradedAgent
from rookery.training.players.agents import AgentPlayer


@dataclass
class AccountSegment:
    """A stretch of the account in one world. Another agent for the same rules continues it."""

    traded: TradedAgent
    world: PaperWorld
    books: list[Book]
    rules: tuple[Any, ...]
    player: AgentPlayer
    balances: list[float]


@dataclass
class AccountState:
    """What the lines say, beside the books."""

    time: int = 0
    peak: float = 0.0
    equities: list[float] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    orders: dict[str, str] = field(default_factory=dict)  # symbol -> id of the order that waits for the next bar
    closing: dict[str, Any] | None = None
    killed: dict[str, Any] | None = None
    bars: int = 0

    @property
    def equity(self) -> float:
        return float(sum(self.equities))

    @property
    def drawdown(self) -> float:
        return 1.0 - self.equity / self.peak if self.peak > 0 else 0.0


def new_player(traded: TradedAgent, books: int) -> AgentPlayer:
    """An agent that acts for so many books, without memory of earlier bars."""
    player = AgentPlayer(traded.agent, "agent", deterministic=True, copy=False)
    player.begin(np.arange(books), [0] * books)
    return player


def plain_action(action: Any) -> Any:
    """An action as JSON holds it; a float32 becomes the float64 of the same value."""
    return action.tolist() if isinstance(action, (np.ndarray, np.generic)) else action


def action_array(action: Any) -> Any:
    """The action of a line, as the kernel takes it."""
    return np.array(action, np.float32) if isinstance(action, list) else action
