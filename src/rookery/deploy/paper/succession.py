"""Who trades next: the agent that the registry names, if it can take over the account."""

from __future__ import annotations

from typing import Any

from rookery.data.dataset import Dataset
from rookery.deploy.paper.account_state import AccountSegment
from rookery.deploy.paper.first_bar import first_decision
from rookery.deploy.paper.market_form import MarketForm, form_of
from rookery.deploy.paper.paper_world import PaperWorld, rules_of
from rookery.deploy.paper.traded_agents import TradedAgent, TradedAgents
from rookery.errors import DataError, OptionError, RookeryError
from rookery.training.backtest.recording import check_spaces


class Succession:
    """Looks for the agent that should take over. `refused` says which versions cannot, and why."""

    def __init__(self, agents: TradedAgents) -> None:
        self._agents = agents
        self.refused: dict[int, str] = {}
        self._loaded: TradedAgent | None = None

    def agent(self, number: int) -> TradedAgent:
        """An agent by its number."""
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
