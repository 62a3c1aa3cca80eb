"""Where the agents of an account come from: an alias of a registry, or one run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rookery.config import RunConfig
from rookery.console import printable
from rookery.deploy.registry import Registry
from rookery.errors import OptionError, RegistryError
from rookery.learners.agent import Agent
from rookery.training.evaluation.evaluate_run import open_run
from rookery.training.storage.load_agent import holds_agent
from rookery.training.storage.registry_folder import MARKER, registry_name
from rookery.training.storage.run_dir import RunDir


@dataclass(frozen=True)
class TradedAgent:
    """An agent and the configuration of its run. `number` is that of its version in the registry; of a run it is 0."""

    number: int
    config: RunConfig
    agent: Agent


class TradedAgents(Protocol):
    """Says which agent trades, and loads it."""

    name: str  # a part of the ids of orders
    folder: Path  # accounts are kept in here, unless another folder is named

    def current(self) -> int | None:
        """The number of the agent that should trade now: read at every bar."""

    def load(self, number: int) -> TradedAgent:
        """An agent by its number."""


class RunAgents:
    """The agent of one run, at its best checkpoint."""

    def __init__(self, run: RunDir, trust: bool = False) -> None:
        self.folder, self.name, self._trust = run.path, str(run.path.resolve()), trust

    def current(self) -> int | None:
        return 0

    def load(self, number: int) -> TradedAgent:
        return _loaded(0, self.folder, True, self._trust)


class RegistryAgents:
    """The agent that an alias of a registry names, now and after each promotion."""

    def __init__(self, folder: Path, alias: str = "champion", trust: bool = False) -> None:
        self._registry, self._alias, self._trust = Registry(folder), alias, trust
        self.folder, self.name = folder, f"{folder.resolve()}@{alias}"

    def current(self) -> int | None:
        if self._alias.isdigit():
            return int(self._alias)
        return self._registry.aliases().get(self._alias)

    def load(self, number: int) -> TradedAgent:
        return _loaded(number, self._registry.version(number).folder, False, self._trust)


def open_agents(what: str | Path, runs_dir: str | Path = "runs", trust: bool = False) -> TradedAgents:
    """The agents of a registry's folder, of `registry:DIR@ALIAS`, or of a run by its name or folder."""
    named = registry_name(what)
    if named is not None:
        return RegistryAgents(named.folder, named.which, trust)
    folder = Path(what).expanduser()
    if (folder / MARKER).is_file():
        return RegistryAgents(folder, "champion", trust)
    if holds_agent(folder) and not (folder / "config.json").is_file():
        raise OptionError(
            f"{printable(what)} holds an agent without the options of its world: name its run, or a registry that "
            "`rookery deploy` made"
        )
    return RunAgents(RunDir.find(what, Path(runs_dir)), trust)


def challenger_of(agents: TradedAgents, trust: bool = False) -> TradedAgents:
    """The challenger of the same registry."""
    if not isinstance(agents, RegistryAgents):
        raise OptionError("--shadow runs the challenger of a registry, and a run has none: name the registry's folder")
    return RegistryAgents(agents.folder, "challenger", trust)


def first_number(agents: TradedAgents) -> int:
    """The number of the agent to begin with."""
    number = agents.current()
    if number is None:
        raise RegistryError(
            f"{printable(agents.folder)} has no champion yet: `rookery deploy X --to {printable(agents.folder)}` "
            "promotes one"
        )
    return number


def _loaded(number: int, folder: Path, best: bool, trust: bool) -> TradedAgent:
    trained = open_run(folder, folder.parent, best, trust=trust)
    trained.check_code()
    return TradedAgent(number, trained.config, trained.agent)
