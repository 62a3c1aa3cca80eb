"""What a paper account is worth, and whether its log is what a backtest gives."""

from __future__ import annotations

from pathlib import Path

from rookery.deploy.paper.account_files import SHADOW, AccountFolder, PaperStatus, read_status
from rookery.deploy.paper.parity import Parity, check_parity
from rookery.deploy.paper.traded_agents import TradedAgents, open_agents


def paper_status(
    what: str | Path, runs_dir: str | Path = "runs", account: Path | None = None, *, trust: bool = False
) -> PaperStatus:
    """What the paper account of a registry or run is worth; `account` is its folder, if that was given for trading."""
    return read_status(AccountFolder(account_path(open_agents(what, runs_dir, trust), account)))


def check_paper(
    what: str | Path, runs_dir: str | Path = "runs", account: Path | None = None, *, trust: bool = False
) -> dict[str, Parity]:
    """Compare the log of a paper account with a backtest on the same bars, which should be equal bit for bit: that of
    the champion and, if there is one, that of the shadow."""
    agents = open_agents(what, runs_dir, trust)
    folder = AccountFolder(account_path(agents, account))
    found = {"champion": check_parity(folder, agents)}
    shadow = AccountFolder(folder.path / SHADOW)
    if shadow.has_begun:
        found[SHADOW] = check_parity(shadow, agents.challenger())
    return found


def account_path(agents: TradedAgents, given: Path | None) -> Path:
    return agents.folder / "paper" if given is None else given
