"""`rookery.backtest`: an agent on bars that it has not seen, with costs, compared with holding."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rookery.config import RunConfig
from rookery.console import say
from rookery.data.opened_data import open_data
from rookery.engine.env_factory import kernel_of
from rookery.errors import MissingExtra, OptionError, UsageError
from rookery.files import own_folder, replace_file
from rookery.learners.agent import Agent
from rookery.monitor.plots import INK, PALE, figure_class, save_figure, style_frame
from rookery.training.backtest import joined_account
from rookery.training.backtest.joined_account import JoinedAccount, join, join_folds
from rookery.training.backtest.recording import MarketView, record_windows
from rookery.training.backtest.records import MarketFacts, WindowRecord
from rookery.training.backtest.report_lines import NAMES, print_report
from rookery.training.backtest.report_pages import fallen, page, weight_curves
from rookery.training.backtest.report_summary import summarise
from rookery.training.backtest.rules import (
    AS_ORDERED,
    Rule,
    given_rule,
    is_rule,
    kind_of,
    luck,
    luck_note,
    play_rule,
    rule_figures,
    rule_note,
    rule_of,
    world_of_rule,
)
from rookery.training.backtest.svg_chart import heat_map, thinned
from rookery.training.backtest.trades import Trade, trades_csv
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import World, find
from rookery.worlds import registry

# A report as one PNG.

COLOURS = {"agent": "#1b6ca8", "hold": "#d1603d", "equal_weight": "#8b949e"}
WEIGHTS = ("#1b6ca8", "#d1603d", "#4c956c", "#9067a7", "#b8862b", "#2a9d9d", "#b35c8f", "#6e7781")
DPI = 130
MOST_ROWS = 14  # of the heat map, from which on its cells have no numbers


def draw_report(report: Mapping[str, Any], account: JoinedAccount, out: Path) -> Path:
    """Draw it; the suffix of `out` is the image format."""
    heat = 0.25 + 0.17 * min(len(heat_map(report).rows), MOST_ROWS)
    height = 8.5 + 1.7 * heat
    figure = figure_class()(figsize=(11, height), facecolor="white")
    margins = {"left": 0.075, "right": 0.975, "top": 1 - 1.45 / height, "bottom": 0.04, "hspace": 0.42, "wspace": 0.16}
    grid = figure.add_gridspec(4, 2, width_ratios=(1.6, 1), height_ratios=(2.2, 1, 1.3, heat), **margins)
    equity = figure.add_subplot(grid[0, :])
    times = account.times.astype("datetime64[s]")
    for name in ("equal_weight", "hold", "agent"):
        _line(equity, times, account.equity[name], COLOURS[name], NAMES[name], 2 if name == "agent" else 1.2)
    drawdown = figure.add_subplot(grid[1, :], sharex=equity)
    drawdown.fill_between(times, -100 * fallen(account.equity["agent"]), color=COLOURS["agent"], alpha=0.3, linewidth=0)
    _line(drawdown, times, -100 * fallen(account.equity["hold"]), COLOURS["hold"], "hold", 1)
    _draw_positions(figure.add_subplot(grid[2, 0]), account)
    _draw_costs(figure.add_subplot(grid[2, 1]), times[1:], account)
    titles = ("equity", "drawdown (%)", "positions (%)", "costs so far")
    for axes, title in zip(figure.axes, titles, strict=True):
        _finish(axes, title)
    _draw_heat_map(figure.add_subplot(grid[3, :]), report)
    _write_titles(figure, report)
    save_figure(figure, out, DPI)
    return out


def _line(axes: Any, times: np.ndarray, values: np.ndarray, colour: str, label: str, width: float) -> None:
    kept = thinned(len(times), values, 2000)
    marker = "o" if len(times) == 1 else ""
    axes.plot(times[kept], values[kept], color=colour, label=label, linewidth=width, marker=marker, markersize=4)


def _draw_positions(axes: Any, account: JoinedAccount) -> None:
    ends, curves = weight_curves(account)
    for curve, colour in zip(curves, (*WEIGHTS, INK), strict=False):
        shade = INK if curve.style == "sum" else colour
        _line(axes, ends.astype("datetime64[s]"), 100 * curve.values, shade, curve.name, 1)


def _draw_costs(axes: Any, times: np.ndarray, account: JoinedAccount) -> None:
    for (kind, amounts), colour in zip(account.costs.items(), WEIGHTS, strict=False):
        if amounts.any():
            _line(axes, times, np.cumsum(amounts), colour, kind, 1.5)
    if not axes.lines:
        axes.text(0.5, 0.5, "nothing was paid", ha="center", va="center", color=PALE, transform=axes.transAxes)


def _finish(axes: Any, title: str) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import StrMethodFormatter

    axes.set_title(title, loc="left", fontsize=9.5, color=INK)
    if axes.lines:
        locator = AutoDateLocator(minticks=3, maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        axes.margins(x=0.01)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    if len(axes.lines) > 1:
        above = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.96), "ncols": len(axes.lines)}
        size = 7.5 if len(axes.lines) < 6 else 5.8
        axes.legend(frameon=False, fontsize=size, labelcolor=INK, handlelength=0.9, columnspacing=0.9, **above)
    style_frame(axes)


def _draw_heat_map(axes: Any, report: Mapping[str, Any]) -> None:
    found = heat_map(report)
    axes.imshow(found.cells, cmap="RdYlGn", vmin=-found.scale, vmax=found.scale, aspect="auto", alpha=0.6)
    axes.set_xticks(range(len(found.columns)), found.columns)
    few = len(found.rows) <= MOST_ROWS
    step = 1 if few else -(-len(found.rows) // MOST_ROWS)
    axes.set_yticks(range(0, len(found.rows), step), list(found.rows)[::step])
    if few:
        for (row, column), value in np.ndenumerate(found.cells):
            if np.isfinite(value):
                axes.text(column, row, f"{100 * value:+.1f}", ha="center", va="center", fontsize=7, color=INK)
    axes.set_title(f"return by {found.unit} (%)", loc="left", fontsize=9.5, color=INK)
    axes.tick_params(colors=PALE, labelsize=7.5, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _write_titles(figure: Any, report: Mapping[str, Any]) -> None:
    title = " · ".join(filter(None, (report.get("run"), report.get("world"), report["split"])))
    inch = 1 / figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.2 * inch, title, ha="left", va="top", fontsize=13, fontweight="bold", color=INK)
    costs = f"Costs: {report['costs']['name']} ({'; '.join(report['costs']['rates'])})"
    texts = (" ".join([report["verdict"], *report["notes"]]), costs)
    lines = [line for text in texts for line in textwrap.wrap(text, 165, max_lines=2)]
    figure.text(0.012, 1 - 0.5 * inch, "\n".join(lines), ha="left", va="top", fontsize=8, color=INK, linespacing=1.5)


CHECKPOINTS = ("best", "latest")
Split = str | list[Any]  # "test", "validation", "train", "all", or a list of [start, end]


def backtest(
    agent: str | Path | Agent | Rule = "latest",
    runs_dir: str | Path = "runs",
    *,
    split: Split | None = None,
    data: Any = None,
    costs: Any = None,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    checkpoint: Literal["best", "latest"] = "best",
    deterministic: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    trust: bool = False,
    rules: Sequence[str] = (),
    attempts: int = 1,
    time_is: Literal["start", "end"] | None = None,
    timezone: str | None = None,
) -> BacktestReport:
    """Play an agent or a rule once through the bars of a market world, and report what its account did against holding.

    Args:
        agent: A run by its name, its path or as "latest"; an agent, which needs `world`; or a rule, which needs `data`:
            a function from `Bars` to one target per bar, its name such as "my_rule.py:Rule", a .csv file of signals,
            "rule:momentum" or "rule:mean_reversion".
        split: The bars: "test", which no run trains or evaluates on, "validation", "train", "all", or a list of
            [start, end) as rows or times. If omitted, "test" for agents and "all" for rules.
        data: Other bars than the agent was trained on, in any form that the world takes.
        costs: Other costs: the name of a preset, or a table of rates.
        world: Another world, such as "forex".
        world_options: Further options of the world.
        checkpoint: Which of the run's checkpoints: "best" in its evaluations, or "latest".
        deterministic: Take deterministic actions instead of sampled ones.
        seed: Of sampled actions, and of the bootstrap.
        out: A folder to write `report.json`, `report.html`, `report.png`, `trades.csv` and `account.npy` to.
        trust: Run the world's code without a question, even if this user has not trained with it here.
        rules: Rules to compare an agent with, at the same costs: "momentum", "mean_reversion".
        attempts: How many rules or settings were tested on these bars: the best of many is lucky.
        time_is: Whether the time of a signal in a file is the "start" of its bar, or the "end", at which it was known.
            If omitted: "end" if some are between the beginnings of bars.
        timezone: Of times in CSV files of bars and signals that name none.
    """
    if checkpoint not in CHECKPOINTS:
        raise OptionError(f"checkpoint should be one of {', '.join(CHECKPOINTS)}, got {checkpoint!r}")
    if is_rule(agent):
        changes = {"costs": costs, **(world_options or {}), "split": split or "all"}
        report = _test_rule(agent, data, world, changes, attempts, seed, {"time_is": time_is, "timezone": timezone})
        if out is not None:
            report.write(out)
        return report
    split = split or "test"
    about: dict[str, Any] = {"run": None, "checkpoint": None}
    notes: list[str] = []
    changes = {"data": data, "costs": costs, **(world_options or {}), "split": split}
    changes = {name: value for name, value in changes.items() if value is not None}
    if isinstance(agent, Agent):
        if world is None:
            raise UsageError("backtest(agent) needs the agent's world: backtest(agent, world='crypto')")
        player, world_with = agent, lambda more: find(world, options={**changes, **more})
    else:
        trained = open_run(agent, runs_dir, checkpoint == "best", trust=trust)  # type: ignore[arg-type]  # no rule
        trained.check_code()
        player, world_with = trained.agent, lambda more: world_to_test(trained.config, {**changes, **more}, world)
        about = {"run": trained.run.name, "checkpoint": f"{checkpoint} checkpoint (step {trained.step:,})"}
        notes = seen_notes(trained.config.world_options, split) if data is None and world is None else []
    played = world_with({})
    records, market = record_windows(played, player, deterministic=deterministic, seed=seed)
    if rules:
        about["rules"] = _against_rules(rules, records, world_with, seed)
        notes += [rule_note(name, figures) for name, figures in about["rules"].items()]
    named = split if isinstance(split, str) else "given windows"
    about |= {"world": played.name, "split": named, "deterministic": deterministic, "notes": notes}
    report = make_report(records, market, about, seed)
    if out is not None:
        report.write(out)
    return report


def _test_rule(
    what: Any, data: Any, world: str | None, changes: Mapping[str, Any], attempts: int, seed: int, times: dict[str, Any]
) -> BacktestReport:
    """The report about a rule or a file of signals."""
    if data is None:
        raise UsageError("a rule needs bars: backtest(rule, data='bars.parquet') (--data)")
    bars = open_data(data, timezone=times["timezone"])
    chosen = world_of_rule(world, bars)
    rule, name = rule_of(what, bars, **times)
    given = {key: value for key, value in changes.items() if value is not None}
    played = find(chosen, options={**AS_ORDERED[chosen], "data": bars, **given})
    records, view, notes = play_rule(rule, name, played, bars, seed)
    market, found = view.facts(), luck(join(records), view.facts().periods_per_year, attempts)
    split = changes["split"] if isinstance(changes["split"], str) else "given windows"
    about = {"run": name, "checkpoint": None, "world": played.name, "split": split, "deterministic": True}
    return make_report(records, market, {**about, "luck": found, "notes": [luck_note(found), *notes]}, seed)


def _against_rules(
    names: Sequence[str], records: Sequence[WindowRecord], world_with: Callable[[dict[str, Any]], World], seed: int
) -> dict[str, Any]:
    """What rules reached in the same windows, at the same costs."""
    windows = sorted({(int(record.times[0]), int(record.times[-1]) + 1) for record in records})
    kernel = kernel_of(world_with({}).factory, build=True)
    assert kernel is not None  # it was played
    kind = AS_ORDERED[kind_of(MarketView(kernel.world))]
    world, account, found = world_with({**kind, "layout": "rookery", "split": windows}), join(records), {}
    for name in names:
        played, view, _ = play_rule(given_rule(name), name, world, seed=seed)
        found[name] = rule_figures(account, join(played), view.facts().periods_per_year)
    return found


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
        trades: Each position from its first fill until it was closed.
    """

    summary: Mapping[str, Any]
    account: JoinedAccount
    records: tuple[WindowRecord, ...]
    trades: tuple[Trade, ...]

    def __getitem__(self, key: str) -> Any:
        return self.summary[key]

    def __str__(self) -> str:
        return str(self.summary["verdict"])

    def print(self) -> None:
        """Print it as tables."""
        print_report(self.summary, self.trades)

    def write(self, folder: str | Path) -> Path:
        """Write `report.json`, `report.html`, `trades.csv`, the account and those of the folds bar by bar
        (`account_file`) and, if Matplotlib is installed, `report.png`. Returns the HTML file."""
        folder = own_folder(Path(folder))
        html = folder / f"{NAME}.html"
        joined_account.write_account(folder / joined_account.NAME, self.account)
        for fold, account in join_folds(self.records).items():
            joined_account.write_account(folder / joined_account.fold_name(fold), account)
        replace_file(folder / f"{NAME}.json", [json.dumps(self.summary, indent=2, allow_nan=False).encode() + b"\n"])
        replace_file(folder / "trades.csv", [trades_csv(self.trades).encode()])
        replace_file(html, [page(self.summary, self.account, self.trades).encode()])
        try:
            draw_report(self.summary, self.account, folder / f"{NAME}.png")
        except MissingExtra as error:
            say(f"{NAME}.png was not drawn: {error}")
        return html


def make_report(
    records: Sequence[WindowRecord], market: MarketFacts, about: Mapping[str, Any], seed: int = 0
) -> BacktestReport:
    """The report about these windows. `about` says which agent and which split this is; `seed` is of the bootstrap."""
    summary, account, trades = summarise(records, market, about, seed)
    return BacktestReport(summary, account, tuple(records), tuple(trades))


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
