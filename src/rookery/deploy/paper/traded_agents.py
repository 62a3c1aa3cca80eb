"""Who trades in an account: the agents of a registry's alias, or of one run; who takes over, and the state of the
account in the meantime."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.console import printable
from rookery.data.dataset import Dataset
from rookery.deploy.paper.book import Book
from rookery.deploy.paper.paper_world import MarketForm, PaperWorld, first_decision, form_of, rules_of
from rookery.deploy.registry import Registry
from rookery.errors import DataError, OptionError, RegistryError, RookeryError
from rookery.learners.agent import Agent
from rookery.training.backtest.recording import check_spaces
from rookery.training.evaluation.trained_run import open_run
from rookery.training.players.agents import AgentPlayer
from rookery.training.storage.load_agent import holds_agent
from rookery.training.storage.registry_folder import MARKER, registry_name
from rookery.training.storage.run_dir import RunDir


@dataclass(frozen=True)
class TradedAgent:
    """An agent and the configuration of its run. `number` is that of its version in the registry; of a run it is 0."""

    number: int
    config: RunConfig
    agent: Agent


class TradedAgents:
    """Says which agent trades, and loads it: the one that an alias of a registry names, now and after each promotion,
    or that of one run, at its best checkpoint.

    Args:
        folder: Of the registry or run. Accounts are kept in here, unless another folder is named.
        alias: Of the registry, or the number of a version; None for a run.
    """

    def __init__(self, folder: Path, alias: str | None, trust: bool = False) -> None:
        self.folder, self._alias, self._trust = folder, alias, trust
        self._registry = None if alias is None else Registry(folder)
        self.name = str(folder.resolve()) + (f"@{alias}" if alias else "")  # a part of the ids of orders

    def current(self) -> int | None:
        """The number of the agent that should trade now: read at every bar. That of a run is 0."""
        if self._registry is None or self._alias is None:
            return 0
        return int(self._alias) if self._alias.isdigit() else self._registry.aliases().get(self._alias)

    def load(self, number: int) -> TradedAgent:
        folder = self.folder if self._registry is None else self._registry.version(number).folder
        trained = open_run(folder, folder.parent, self._registry is None, trust=self._trust)
        trained.check_code()
        return TradedAgent(number, trained.config, trained.agent)

    def challenger(self) -> TradedAgents:
        """The challenger of the same registry."""
        if self._registry is None:
            raise OptionError(
                "--shadow runs the challenger of a registry, and a run has none: name the registry's folder"
            )
        return TradedAgents(self.folder, "challenger", self._trust)

    def first_number(self) -> int:
        """The number of the agent to begin with."""
        number = self.current()
        if number is None:
            raise RegistryError(
                f"{printable(self.folder)} has no champion yet: `rookery deploy X --to {printable(self.folder)}` "
                "promotes one"
            )
        return number


def open_agents(what: str | Path, runs_dir: str | Path = "runs", trust: bool = False) -> TradedAgents:
    """The agents of a registry's folder, of `registry:DIR@ALIAS`, or of a run by its name or folder."""
    named = registry_name(what)
    if named is not None:
        return TradedAgents(named.folder, named.which, trust)
    folder = Path(what).expanduser()
    if (folder / MARKER).is_file():
        return TradedAgents(folder, "champion", trust)
    if holds_agent(folder) and not (folder / "config.json").is_file():
        raise OptionError(
            f"{printable(what)} holds an agent without the options of its world: name its run, or a registry that "
            "`rookery deploy` made"
        )
    return TradedAgents(RunDir.find(what, Path(runs_dir)).path, None, trust)


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


class Succession:
    """Looks for the agent that should take over. `refused` says which versions cannot, and why."""

    def __init__(self, agents: TradedAgents) -> None:
        self._agents = agents
        self.refused: dict[int, str] = {}
        self._loaded: TradedAgent | None = None

    def agent(self, number: int) -> TradedAgent:
        if self._loaded is None or self._loaded.number != number:
            self._loaded = self._agents.load(number)
        return self._loaded

    def wanted(self, segment: AccountSegment | None, dataset: Dataset, time: int) -> TradedAgent | None:
        """The agent that should take over at this time; None if there is none, or none that can."""
        number = self._agents.current()
        if number is None or number in self.refused or (segment is not None and number == segment.traded.number):
            return None
        if segment is None or (self._loaded is not None and self._loaded.number == number):
            return self.agent(number)
        try:
            loaded = self.agent(number)
            _check_form(form_of(loaded.config), segment.world.form)
            if first_decision(loaded.config, form_of(loaded.config), dataset) > time:
                raise DataError("the account has too few bars for its features")
            rules(loaded, dataset)
        except RookeryError as error:
            self.refused[number], self._loaded = str(error), None
        return self._loaded


def rules(traded: TradedAgent, dataset: Dataset) -> tuple[Any, ...]:
    """What an agent must have in common with another to take over its account as it is."""
    world = PaperWorld(traded.config, form_of(traded.config))
    made = world.build(dataset)
    check_spaces(traded.config.world, made, traded.agent)
    return rules_of(made, world.form)


def _check_form(form: MarketForm, mine: MarketForm) -> None:
    if (form.symbols, form.timeframe) != (mine.symbols, mine.timeframe):
        raise OptionError(
            f"it trades {', '.join(form.symbols)} on bars of {form.timeframe} s, and the account "
            f"{', '.join(mine.symbols)} on bars of {mine.timeframe} s: begin another account with --account"
        )
