"""The report about a backtest: as data, on the terminal and as files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.console import say
from rookery.errors import MissingExtra
from rookery.files import own_folder, replace_file
from rookery.training.backtest import account_file
from rookery.training.backtest.html_page import page
from rookery.training.backtest.joined_account import JoinedAccount, join_folds
from rookery.training.backtest.records import MarketFacts, WindowRecord
from rookery.training.backtest.summary import summarise
from rookery.training.backtest.terminal import print_report

NAME = "report"


@dataclass(frozen=True)
class BacktestReport:
    """What `rookery.backtest` returns; `report["agent"]["sharpe"]` is a figure of it.

    Attributes:
        summary: Everything that the files say, as plain data.
        account: The account of the agent, and those that it is compared with, bar by bar.
        records: What happened in each window, step by step.
    """

    summary: Mapping[str, Any]
    account: JoinedAccount
    records: tuple[WindowRecord, ...]

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __str__(self) -> str:
        return str(self.summary["verdict"])

    def print(self) -> None:
        """Print it as tables."""
        print_report(self.summary)

    def write(self, folder: str | Path) -> Path:
        """Write `report.json`, `report.html`, the account and those of the folds bar by bar (`account_file`) and, if
        Matplotlib is installed, `report.png`. Returns the HTML file."""
        folder = own_folder(Path(folder))
        html = folder / f"{NAME}.html"
        account_file.write_account(folder / account_file.NAME, self.account)
        for fold, account in join_folds(self.records).items():
            account_file.write_account(folder / account_file.fold_name(fold), account)
        replace_file(folder / f"{NAME}.json", [json.dumps(self.summary, indent=2, allow_nan=False).encode() + b"\n"])
        replace_file(html, [page(self.summary, self.account).encode()])
        try:
            from rookery.training.backtest.picture import draw_report

            draw_report(self.summary, self.account, folder / f"{NAME}.png")
        except MissingExtra as error:
            say(f"{NAME}.png was not drawn: {error}")
        return html


def make_report(
    records: Sequence[WindowRecord], market: MarketFacts, about: Mapping[str, Any], seed: int = 0
) -> BacktestReport:
    """The report about these windows. `about` says which agent and which split this is; `seed` is of the bootstrap."""
    summary, account = summarise(records, market, about, seed)
    return BacktestReport(summary, account, tuple(records))
