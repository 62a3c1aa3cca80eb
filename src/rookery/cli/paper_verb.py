"""The command `paper`: the champion of a registry on bars as they come, without real money."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import check_positive, runs_dir_argument, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING
from rookery.console import meanwhile, printable, say
from rookery.errors import KillSwitch, OptionError

if TYPE_CHECKING:
    from rookery.deploy.paper.paper import PaperOptions
    from rookery.deploy.paper.paper_status import PaperStatus

KILLED = 3  # the exit status when the kill-switch has stopped an account
BETWEEN_LINES = 0.5  # seconds, at least


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "paper", _paper, "trade on paper with the champion of a registry, on bars as they come",
        "The kernel that trained the agent fills its orders, with the same costs. Every bar, order and fill is a line "
        "of a log that survives a kill; the same command goes on at the next bar. Exit status: 0 when the bars end, 1 "
        "if --check finds a difference, 3 if the kill-switch has stopped the account.",
        "rookery paper agents/crypto --data data/5m.parquet --speed 60x",
    )  # fmt: skip
    parser.add_argument("name", metavar="DIR", help="the folder of a registry; or a run, by its name or folder")
    runs_dir_argument(parser)
    parser.add_argument("--data", metavar="PATH|FEED", help="bars: a file or folder, alpaca, or ccxt:NAME")
    parser.add_argument("--speed", default="max", metavar="60x", help="of a file: faster than the market (max)")
    parser.add_argument("--start", metavar="TIME", help="of a file: the first bar to decide on (after training)")
    parser.add_argument("--history", type=int, default=600, metavar="N", help="of a feed: bars before the first (600)")
    parser.add_argument("--bars", type=int, metavar="N", help="stop when the account has so many bars")
    parser.add_argument("--account", metavar="DIR", help="the folder of the account (paper/ in DIR)")
    parser.add_argument(
        "--handover", choices=("keep", "close"), default="keep",
        help="what happens to positions when another agent is promoted: it keeps them if its rules are the same, or "
        "they are closed first (keep)",
    )  # fmt: skip
    parser.add_argument("--shadow", action="store_true", help="let the challenger trade beside it, in its own account")
    _limit_arguments(parser)
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--status", action="store_true", help="print what the account is worth, and do not trade")
    modes.add_argument("--check", action="store_true", help="compare the log with a backtest, and do not trade")
    trust_argument(parser)


def _limit_arguments(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("kill-switch")
    limits.add_argument("--max-drawdown", type=float, default=0.2, metavar="X", help="the part that may be lost (0.2)")
    limits.add_argument("--stale", type=int, default=3, metavar="N", help="bars that may be missing; 0: any (3)")
    limits.add_argument(
        "--max-clock-skew", type=float, default=30.0, metavar="S",
        help="seconds between this clock and the feed's; 0: any (30)",
    )  # fmt: skip
    limits.add_argument("--resume-after-kill", action="store_true", help="go on after the kill-switch")


def _paper(options: argparse.Namespace) -> int:
    check_positive(options, "bars", "history")
    if not options.status and not options.check and options.data is None:
        raise OptionError("--data is missing: name a file of bars, alpaca, or ccxt:NAME; or give --status or --check")
    with meanwhile(LOADING):
        from rookery.deploy.paper.account_folder import AccountFolder
        from rookery.deploy.paper.paper import account_path
        from rookery.deploy.paper.traded_agents import open_agents
    if options.status or options.check:
        agents = open_agents(options.name, options.runs_dir, options.trust)
        folder = AccountFolder(account_path(agents, Path(options.account) if options.account else None))
        return _status(folder, options) if options.status else _check(folder, agents, options)
    return _trade(options)


def _options_of(options: argparse.Namespace) -> PaperOptions:
    from rookery.data.feeds.fetch import parse_time
    from rookery.deploy.paper.kill_limits import KillLimits
    from rookery.deploy.paper.paper import PaperOptions

    return PaperOptions(
        data=options.data, speed=options.speed,
        start=None if options.start is None else parse_time(options.start, "--start"),
        account=Path(options.account) if options.account else None, handover=options.handover, shadow=options.shadow,
        resume_after_kill=options.resume_after_kill, history=options.history, bars=options.bars,
        limits=KillLimits(options.max_drawdown, options.stale, options.max_clock_skew),
    )  # fmt: skip


def _trade(options: argparse.Namespace) -> int:
    from rookery.deploy.paper.account_folder import AccountFolder
    from rookery.deploy.paper.paper import account_path, paper
    from rookery.deploy.paper.traded_agents import open_agents

    wanted, shown = _options_of(options), _Lines(quiet=options.json)
    status = 0
    try:
        paper(options.name, wanted, options.runs_dir, trust=options.trust, on_line=shown)
    except KillSwitch as error:
        say(f"kill-switch ({error.kind}): {error}")
        status = KILLED
    agents = open_agents(options.name, options.runs_dir, options.trust)
    _status(AccountFolder(account_path(agents, wanted.account)), options)
    return status


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


def _check(folder: Any, agents: Any, options: argparse.Namespace) -> int:
    from rookery.deploy.paper.account_folder import SHADOW, AccountFolder
    from rookery.deploy.paper.parity import check_parity
    from rookery.deploy.paper.traded_agents import challenger_of
    from rookery.monitor.alerts import Alerts

    with meanwhile("playing the log again"):
        found = {"champion": check_parity(folder, agents)}
        shadow = AccountFolder(folder.path / SHADOW)
        if shadow.has_begun:
            found[SHADOW] = check_parity(shadow, challenger_of(agents, options.trust))
    for name, parity in found.items():
        if parity.first_difference is not None:
            text = f"the log of {folder.path} ({name}) is not what a backtest gives: {parity.first_difference}"
            Alerts.from_environment().send("parity", text, parity.as_json())
            say(text)
    equal = all(parity.first_difference is None for parity in found.values())
    if options.json:
        from rookery import printing

        shown = found["champion"].as_json()
        printing.emit_json({**shown, "equal": equal, SHADOW: found[SHADOW].as_json() if SHADOW in found else None})
    else:
        for name, parity in found.items():
            verdict = "equal to the bit" if parity.first_difference is None else "different"
            print(f"{name}: {parity.bars:,} bars, {parity.fills:,} fills, {parity.orders:,} orders: {verdict}")
    return 0 if equal else 1


def _status(folder: Any, options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.deploy.paper.paper_status import read_status

    found = read_status(folder)
    if options.json:
        printing.emit_json(found.as_json())
    else:
        _print_status(found, "account")
        if found.shadow is not None:
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
