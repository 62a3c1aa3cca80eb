"""`rookery.backtest`: an agent on bars that it has not seen, with costs, compared with holding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import MissingExtra, OptionError, UsageError
from rookery.files import own_folder, replace_file
from rookery.learners.agent import Agent
from rookery.training.backtest import joined_account
from rookery.training.backtest.joined_account import JoinedAccount, join_folds
from rookery.training.backtest.recording import record_windows
from rookery.training.backtest.records import MarketFacts, WindowRecord
from rookery.training.backtest.report_lines import print_report
from rookery.training.backtest.report_pages import draw_report, page
from rookery.training.backtest.report_summary import summarise
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import World, find
from rookery.worlds import registry

CHECKPOINTS = ("best", "latest")
Split = str | list[Any]  # "test", "validation", "train", "all", or a list of [start, end]


def backtest(
    agent: str | Path | Agent = "latest",
    runs_dir: str | Path = "runs",
    *,
    split: Split = "test",
    data: Any = None,
    costs: Any = None,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    checkpoint: Literal["best", "latest"] = "best",
    deterministic: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    trust: bool = False,
) -> BacktestReport:
    """Play an agent once through the bars of a market world, and report what its account did against holding.

    Args:
        agent: A run by its name, its path or as "latest"; or an agent, which needs `world`.
        split: The bars: "test", which no run trains or evaluates on, "validation", "train", "all", or a list of
            [start, end) as rows or times.
        data: Other bars than the agent was trained on, in any form that the world takes.
        costs: Other costs: the name of a preset, or a table of rates.
        world: Another world, such as "forex".
        world_options: Further options of the world.
        checkpoint: Which of the run's checkpoints: "best" in its evaluations, or "latest".
        deterministic: Take deterministic actions instead of sampled ones.
        seed: Of sampled actions, and of the bootstrap.
        out: A folder to write `report.json`, `report.html`, `report.png` and `account.npy` to.
        trust: Run the world's code without a question, even if this user has not trained with it here.
    """
    if checkpoint not in CHECKPOINTS:
        raise OptionError(f"checkpoint should be one of {', '.join(CHECKPOINTS)}, got {checkpoint!r}")
    about: dict[str, Any] = {"run": None, "checkpoint": None}
    notes: list[str] = []
    changes = {"data": data, "costs": costs, **(world_options or {}), "split": split}
    changes = {name: value for name, value in changes.items() if value is not None}
    if isinstance(agent, Agent):
        if world is None:
            raise UsageError("backtest(agent) needs the agent's world: backtest(agent, world='crypto')")
        played, player = find(world, options=changes), agent
    else:
        trained = open_run(agent, runs_dir, checkpoint == "best", trust=trust)
        trained.check_code()
        played, player = world_to_test(trained.config, changes, world), trained.agent
        about = {"run": trained.run.name, "checkpoint": f"{checkpoint} checkpoint (step {trained.step:,})"}
        notes = seen_notes(trained.config.world_options, split) if data is None and world is None else []
    records, market = record_windows(played, player, deterministic=deterministic, seed=seed)
    named = split if isinstance(split, str) else "given windows"
    about |= {"world": played.name, "split": named, "deterministic": deterministic, "notes": notes}
    report = make_report(records, market, about, seed)
    if out is not None:
        report.write(out)
    return report


def seen_notes(options: Mapping[str, Any], split: Split) -> list[str]:
    """What a reader must know about bars that the agent has met before."""
    trained_on = options.get("split", "train")
    if split == "train" or trained_on == split or trained_on == "all" or split == "all":
        return ["The agent was trained on bars of this split: the result says nothing about others."]
    if not isinstance(trained_on, str) or not isinstance(split, str):
        return ["Windows were given as a list: whether the agent was trained on some of these bars is not known."]
    if split == options.get("evaluation_split", "validation"):
        return ["The best checkpoint was chosen on bars of this split, so that the result is too good."]
    return []


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
        joined_account.write_account(folder / joined_account.NAME, self.account)
        for fold, account in join_folds(self.records).items():
            joined_account.write_account(folder / joined_account.fold_name(fold), account)
        replace_file(folder / f"{NAME}.json", [json.dumps(self.summary, indent=2, allow_nan=False).encode() + b"\n"])
        replace_file(html, [page(self.summary, self.account).encode()])
        try:
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


OF_RUNS = ("split", "evaluation_split", "window")  # options that say on which bars a run trains and evaluates


def world_to_test(config: RunConfig, changes: Mapping[str, Any], world: str | None = None) -> World:
    """The world of a run's configuration, or another one, with these options changed, `split` among them. Options for
    training and for evaluations do not count here."""
    if config.wrappers:
        raise OptionError(f"wrappers: the run has {', '.join(config.wrappers)}, and a backtest needs the world itself")
    name = world or config.world
    spec = registry.get(name) or registry.by_source(name)
    meant = {} if spec is None else spec.option_names  # `data_dir` is another name of `data`
    omitted = {*OF_RUNS, *(meant.get(option, option) for option in changes)}
    options = config.world_options if world is None else {}
    given = {option: value for option, value in options.items() if meant.get(option, option) not in omitted}
    return find(name, config.takes_compiled, config.learner, {**given, **changes})
