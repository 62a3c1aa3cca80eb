"""The commands `audit`, `backtest` and `paper`: worlds that know the future; agents on unseen bars, and on bars as they
come."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import meanwhile, printable, printable_lines, say
from rookery.errors import KillSwitch, OptionError
from rookery.training import check_installed

if TYPE_CHECKING:
    from rookery.deploy.paper.account_files import PaperStatus
    from rookery.deploy.paper.paper import PaperOptions

SPLITS = ("test", "validation", "train", "all")
OF_RUNS = ("split", "checkpoint", "trust")  # flags that a walk-forward test decides itself
OF_FOLDS = ("steps", "learner", "embargo", "rolling", "name_of_runs")  # flags that only a walk-forward test has


def add_audit(commands: Commands) -> None:
    parser = add_command(
        commands, "audit", _audit, "find look-ahead in a market world of your own",
        "Plays the world many times on bars that differ only after some moment, and names the first observation, fill, "
        "reward, end or info that knew of them. The world is an env class or a function that takes its bars by an "
        "option such as data or df. The exit status is 1 if something knew the future.",
        "rookery audit my_env.py:MyMarket --data bars.csv",
    )  # fmt: skip
    arguments.env_arguments(parser)
    takes(parser, "--data FILE", "bars that the world can read; their prices are replaced")
    takes(parser, "--option NAME", "the option that takes the bars (found by its name)")
    takes(parser, "--steps N", "number of steps", 24)
    takes(parser, "--seed N", "seed of env, actions and bars", 0)


def _audit(options: argparse.Namespace) -> int:
    from rookery.tools.audit import audit

    arguments.check_seed(options.seed)
    with meanwhile(f"auditing {options.env}"):
        report = audit(
            options.env, options.data, option=options.option, steps=options.steps, seed=options.seed,
            **arguments.env_options(options),
        )  # fmt: skip
    arguments.show(options, report.as_json, lambda: print(printable_lines(report)))
    return 0 if report.passed else 1


def add_backtest(commands: Commands) -> None:
    parser = add_command(
        commands, "backtest", _backtest, "test an agent, or a rule of yours, on market bars that it has not seen",
        "Plays the agent once through the bars, with costs, and compares its account with buy and hold and with equal "
        "weights: return, Sharpe ratio, drawdown, costs, by period and by asset, with confidence intervals. Prints "
        "tables, and writes report.json, report.html, report.png and account.npy. With --walk-forward it first trains: "
        "on the past, tested on the bars that follow, several times, with one report on all tests.",
        "rookery backtest forex --walk-forward 4 --steps 200_000",
    )  # fmt: skip
    takes(
        parser, "name RUN|RULE|WORLD", "the name of a run, its folder, or latest; a rule such as my_rule.py:Rule or "
        "rule:momentum, or a CSV file of signals, with --data; with --walk-forward, a world or a config file",
    )  # fmt: skip
    arguments.runs_dir_argument(parser)
    takes(parser, "--split", "which bars (test: those that no run trains or evaluates on)", choices=SPLITS)
    takes(parser, "--data PATH", "other bars: a file or a folder (those of the run)")
    takes(parser, "--costs NAME", "other costs, by the name of a preset (those of the run)")
    takes(parser, "--checkpoint", "which checkpoint of the run (best)", choices=("best", "latest"))
    takes(parser, "--last", argparse.SUPPRESS, dest="checkpoint", action="store_const", const="latest")
    takes(parser, "--out DIR", "the folder for the report (report/ in the run's folder)")
    takes(parser, "--stochastic", "sample actions instead of the deterministic ones")
    takes(parser, "--seed N", "seed of sampled actions and intervals", 0)
    arguments.set_argument(
        parser, "an option of the world such as world_options.leverage=2; with --walk-forward, any key"
    )
    arguments.trust_argument(parser)
    rules = parser.add_argument_group("rules and signals")
    takes(
        rules, "--rules LIST", "rules to compare an agent with: momentum, mean_reversion",
        type=lambda text: text.split(","), default=(),
    )  # fmt: skip
    takes(
        rules, "--world", "crypto: held or not; the others: also short (by the calendar)",
        choices=("crypto", "perpetuals", "forex", "forex-account"),
    )  # fmt: skip
    takes(rules, "--attempts N", "how many rules you tested on these bars", 1)
    takes(
        rules, "--time-is", "whether the time of a signal is the start of its bar, or the end, at which it was known "
        "(end if some are between the starts of bars)", choices=("start", "end"),
    )  # fmt: skip
    takes(rules, "--timezone ZONE", "time zone of times in CSV files that name none, such as UTC")
    folds = parser.add_argument_group("walk-forward")
    takes(folds, "--walk-forward FOLDS", "train and test this many times", type=int)
    takes(folds, "--steps N", "steps of each training (as in rookery train)", type=arguments.config_value)
    takes(folds, "--learner NAME", "the learner (as in rookery train)")
    takes(folds, "--embargo N", "bars between training and test (50, or what the features need)", type=int)
    takes(folds, "--rolling", "train on a past of equal length each time, instead of all of it")
    takes(folds, "--name NAME", "the beginning of the names of the runs", dest="name_of_runs")


def _backtest(options: argparse.Namespace) -> int:
    arguments.check_seed(options.seed)
    arguments.check_positive(options, "walk_forward")
    if options.walk_forward is None:
        _refuse(options, OF_FOLDS, "is for --walk-forward: add it, or omit")
    else:
        _refuse(options, OF_RUNS, "has no effect with --walk-forward: omit")
    check_installed()
    with arguments.stdout_to_stderr(options.json):
        report, folder = _tested(options)(options)
        written = report.write(folder)
    if options.json:
        from rookery import printing

        printing.emit_json({**report.summary, "report": str(written)})
    else:
        report.print()
        print(f"\nreport: {written}")
    return 0


def _tested(options: argparse.Namespace) -> Callable[[argparse.Namespace], tuple[Any, Path]]:
    from rookery.training.backtest.rules import is_rule

    if options.walk_forward is not None:
        return _test_folds
    return _test_rule if is_rule(options.name) else _test_run


def _test_rule(options: argparse.Namespace) -> tuple[Any, Path]:
    with arguments.loading():
        from rookery.training.backtest.backtest import backtest
    if options.data is None:
        raise OptionError(f"{printable(options.name)} needs bars: give --data")
    with meanwhile("testing the rule"):
        report = backtest(
            options.name, split=options.split, data=options.data, costs=options.costs, world=options.world,
            world_options=arguments.env_options(options), seed=options.seed, attempts=options.attempts,
            time_is=options.time_is, timezone=options.timezone,
        )  # fmt: skip
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", Path(options.name).name)
    return report, Path(options.out) if options.out else Path(options.runs_dir) / f"{stem}-report"


def _refuse(options: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(options, name) not in (None, False):
            flag = "--name" if name == "name_of_runs" else f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} {why} {flag}")


def _test_run(options: argparse.Namespace) -> tuple[Any, Path]:
    found = arguments.find_run(options)
    keywords: Any = arguments.check_run_world(found, options)
    changes = arguments.changes_from(options)
    others = [key for key in changes if key != "world_options"]
    if others:
        raise OptionError(f"`{others[0]}` has no effect on a backtest; options of the world have: world_options.*")
    with arguments.loading():
        from rookery.training.backtest.backtest import backtest
    with meanwhile("testing the agent"):
        report = backtest(
            found.path, options.runs_dir, split=options.split or "test", data=options.data, costs=options.costs,
            world_options=changes.get("world_options"), checkpoint=options.checkpoint or "best",
            deterministic=not options.stochastic, seed=options.seed, rules=options.rules, **keywords,
        )  # fmt: skip
    return report, Path(options.out) if options.out else found.report


def _test_folds(options: argparse.Namespace) -> tuple[Any, Path]:
    from rookery.config import user_config

    flags = {
        "steps": options.steps, "learner": options.learner, "name": options.name_of_runs, "runs_dir": options.runs_dir,
        "world_options.data": options.data, "world_options.costs": options.costs,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}
    config = user_config(options.name, options.set, **given)
    with arguments.loading():
        from rookery.training.walk_forward import walk_forward
    keywords = {} if options.embargo is None else {"embargo": options.embargo}
    report = walk_forward(
        config, options.walk_forward, expanding=not options.rolling, deterministic=not options.stochastic,
        seed=options.seed, **keywords,
    )  # fmt: skip
    name = options.name_of_runs or config.world.rpartition("/")[2]
    return report, Path(options.out) if options.out else Path(options.runs_dir) / f"{name}-walk-forward"


KILLED = 3  # the exit status when the kill-switch has stopped an account
BETWEEN_LINES = 0.5  # seconds, at least


def add_paper(commands: Commands) -> None:
    parser = add_command(
        commands, "paper", _paper, "paper trade with the champion of a registry, on live bars",
        "The kernel that trained the agent fills its orders, with the same costs. Every bar, order and fill is a line "
        "of a log that survives a kill; the same command continues at the next bar. Exit status: 0 when the bars "
        "end, 1 "
        "if --check finds a difference, 3 if the kill-switch has stopped the account.",
        "rookery paper agents/crypto --data data/5m.parquet --speed 60x",
    )  # fmt: skip
    takes(parser, "name DIR", "the folder of a registry; or a run, by its name or folder")
    arguments.runs_dir_argument(parser)
    takes(parser, "--data PATH|FEED", "bars: a file or folder, alpaca, or ccxt:NAME")
    takes(parser, "--speed 60x", "of a file: faster than the market", "max")
    takes(parser, "--start TIME", "of a file: the first bar to decide on (after training)")
    takes(parser, "--history N", "of a feed: bars before the first", 600)
    takes(parser, "--bars N", "stop when the account has this many bars", type=int)
    takes(parser, "--account DIR", "the folder of the account (paper/ in DIR)")
    takes(
        parser, "--handover", "what happens to positions when another agent is promoted: it keeps them if its rules "
        "are the same, or they are closed first", "keep", choices=("keep", "close"),
    )  # fmt: skip
    takes(parser, "--shadow", "also let the challenger trade, in its own account")
    _limit_arguments(parser)
    modes = parser.add_mutually_exclusive_group()
    takes(modes, "--status", "print what the account is worth, and do not trade")
    takes(modes, "--check", "compare the log with a backtest, and do not trade")
    arguments.trust_argument(parser)


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("kill-switch")
    takes(limits, "--max-drawdown X", "the part that may be lost", 0.2)
    takes(limits, "--stale N", "bars that may be missing; 0: any", 3)
    takes(limits, "--max-clock-skew S", "seconds between this clock and the feed's; 0: any", 30.0)
    takes(limits, "--resume-after-kill", "continue after the kill-switch")


def _paper(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "bars", "history")
    if not options.status and not options.check and options.data is None:
        raise OptionError("--data is missing: name a file of bars, alpaca, or ccxt:NAME; or give --status or --check")
    with arguments.loading():
        from rookery.deploy.paper import paper  # noqa: F401 - loads torch
    if options.status:
        return _status(options)
    return _check(options) if options.check else _trade(options)


def _options_of(options: argparse.Namespace) -> PaperOptions:
    from rookery.data.feeds.fetch import parse_time
    from rookery.deploy.paper.bar_sources import KillLimits
    from rookery.deploy.paper.paper import PaperOptions

    return PaperOptions(
        data=options.data, speed=options.speed,
        start=None if options.start is None else parse_time(options.start, "--start"),
        account=Path(options.account) if options.account else None, handover=options.handover, shadow=options.shadow,
        resume_after_kill=options.resume_after_kill, history=options.history, bars=options.bars,
        limits=KillLimits(options.max_drawdown, options.stale, options.max_clock_skew),
    )  # fmt: skip


def _trade(options: argparse.Namespace) -> int:
    from rookery.deploy.paper.paper import paper

    status = 0
    try:
        shown = _Lines(quiet=options.json)
        paper(options.name, _options_of(options), options.runs_dir, trust=options.trust, on_line=shown)
    except KillSwitch as error:
        say(f"kill-switch ({error.kind}): {error}")
        status = KILLED
    _status(options)
    return status


def _account(options: argparse.Namespace) -> dict[str, Any]:
    account = Path(options.account) if options.account else None
    return {"what": options.name, "runs_dir": options.runs_dir, "account": account, "trust": options.trust}


class _Lines:
    """Prints a line per bar; of bars that come faster than one can read, some."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._last = quiet, 0.0

    def __call__(self, account: Any, line: dict[str, Any]) -> None:
        now = time.monotonic()
        if self._quiet or (now - self._last < BETWEEN_LINES and line["closing"] is None and "begin" not in line):
            return
        from rookery.data.feeds.fetch import time_name

        self._last = now
        state = account.state
        said = [
            time_name(line["time"]), account.agents.name.rpartition("@")[2].rpartition("/")[2],
            f"version {line['version']}", f"equity {line['equity']:,.2f}", f"drawdown {state.drawdown:.2%}",
            f"{len(line['fills'])} fills", *(["closing"] if line["closing"] else []),
        ]  # fmt: skip
        sys.stdout.write(printable("  ".join(said)) + "\n")
        sys.stdout.flush()


def _check(options: argparse.Namespace) -> int:
    from rookery.deploy.paper.account_files import SHADOW
    from rookery.deploy.paper.paper_status import check_paper
    from rookery.monitor.alerts import Alerts

    with meanwhile("playing the log again"):
        found = check_paper(**_account(options))
    for name, parity in found.items():
        if parity.first_difference is not None:
            log = f"{options.account or options.name} ({name})"
            text = f"the log of {log} is not what a backtest gives: {parity.first_difference}"
            Alerts.from_environment().send("parity", text, parity.as_json())
            say(text)
    equal = all(parity.first_difference is None for parity in found.values())
    if options.json:
        from rookery import printing

        shown = found["champion"].as_json()
        printing.emit_json({**shown, "equal": equal, SHADOW: found[SHADOW].as_json() if SHADOW in found else None})
    else:
        for name, parity in found.items():
            verdict = "equal bit for bit" if parity.first_difference is None else "different"
            print(f"{name}: {parity.bars:,} bars, {parity.fills:,} fills, {parity.orders:,} orders: {verdict}")
    return 0 if equal else 1


def _status(options: argparse.Namespace) -> int:
    from rookery.deploy.paper.paper_status import paper_status

    found = paper_status(**_account(options))
    arguments.show(options, found.as_json, lambda: _print_status(found, "account"))
    if found.shadow is not None and not options.json:
        _print_status(found.shadow, "shadow")
    return 0


def _print_status(found: PaperStatus, title: str) -> None:
    from rookery import printing

    shown = found.as_json()
    rows = {
        title: shown["account"], "agents": shown["agents"], "version": shown["version"],
        "bars": f"{found.bars:,}, from {shown['since']} to {shown['last_bar']}",
        "equity": f"{found.equity:,.2f}, began with {found.start_equity:,.2f}", "drawdown": f"{found.drawdown:.2%}",
        "positions": ", ".join(f"{symbol} {units:g}" for symbol, units in found.positions.items() if units) or "none",
        "orders": f"{found.orders:,}, {found.fills:,} fills, costs {found.costs:,.2f}",
        "kill-switch": "not released" if found.killed is None else f"{found.killed['reason']}: {found.killed['why']}",
    }  # fmt: skip
    made = printing.table("", "", "")
    for name, value in rows.items():
        made.add_row(name, printable(str(value)))
    printing.print_table(printing.console(), made)
