"""The commands `data fetch` and `data update`: download bars, and bring them up to date."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.parser import Commands, add_command, takes
from rookery.console import printable
from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.data.dataset import Dataset
    from rookery.data.feeds.fetch import Download
    from rookery.data.feeds.update import Updated

SUFFIX = ".parquet"


def add_fetch(commands: Commands) -> None:
    parser = add_command(
        commands, "fetch", _fetch, "download bars from Alpaca or an exchange",
        "Keys are read from the environment only: APCA_API_KEY_ID and APCA_API_SECRET_KEY for Alpaca (stocks need "
        "them, crypto does not), NAME_API_KEY and NAME_SECRET for an exchange (few need them). An interrupted download "
        "continues where it stopped. A bar has the time at which it is complete, and the newest one that is not "
        "complete yet is omitted.",
        "rookery data fetch ccxt:kraken --symbols BTC/USD,ETH/USD --timeframe 5m --start 2024-01-01 --out data/5m",
    )  # fmt: skip
    takes(parser, "source SOURCE", "alpaca, or ccxt:NAME for an exchange, such as ccxt:kraken")
    takes(parser, "--symbols A,B", "such as BTC/USD,ETH/USD or AAPL,MSFT", required=True)
    takes(parser, "--timeframe T", "length of a bar, such as 5m, 1h or 1d", required=True)
    takes(parser, "--start TIME", "a date or time, in UTC if it names no zone", required=True)
    takes(parser, "--end TIME", "the same (now)")
    takes(parser, "--out PATH", "a .parquet file, or a folder: a file per symbol", required=True)
    takes(
        parser, "--feed NAME", "Alpaca's feed of stocks: sip (all exchanges, the default), iex (free of delay), otc "
        "and others", default="",
    )  # fmt: skip
    takes(
        parser, "--adjustment KIND", "change past prices of stocks for splits and dividends: raw (not at all, the "
        "default), split, dividend or all", default="raw",
    )  # fmt: skip
    takes(
        parser, "--hours WHICH", "of stocks: regular (the sessions of the exchange, the default) or all (before and "
        "after them as well)", default="regular",
    )  # fmt: skip
    takes(parser, "--refresh", "download again what an earlier download has kept")
    takes(parser, "--force", "overwrite existing files")


def add_update(commands: Commands) -> None:
    parser = add_command(
        commands, "update", _update, "fetch what is new and append it to files of bars",
        "Where bars came from is in the file's history. Features are computed for the new bars; stored rows stay as "
        "they are. It can be started by a timer: if there is nothing new, nothing is written.",
        "rookery data update data/5m",
    )  # fmt: skip
    takes(parser, "path PATH", "a file or folder of bars, from `data fetch` or `data import`")
    takes(parser, "--revise", "fetch all bars again, and take the source's values where stored bars differ")


def _fetch(options: argparse.Namespace) -> int:
    from rookery.data.calendars import timeframe_seconds
    from rookery.data.feeds.fetch import Download, fetch, parse_time

    symbols = tuple(symbol.strip() for symbol in options.symbols.split(",") if symbol.strip())
    wanted = Download(
        options.source, symbols, timeframe_seconds(options.timeframe), options.feed, options.adjustment, options.hours
    )
    start = parse_time(options.start, "--start")
    end = None if options.end is None else parse_time(options.end, "--end")
    files = _targets(Path(options.out), symbols)
    _check_targets(files, options.force)
    _check_neighbours(Path(options.out), files, wanted)
    with _continues(), _progress_bar(len(symbols)) as progress:
        data = fetch(wanted, start, end, options.refresh, progress)
    _write(data, files)
    _print_fetched(data, files, options.json)
    return 0


def _targets(out: Path, symbols: tuple[str, ...]) -> dict[Path, list[str]]:
    """The files to write, with their symbols."""
    if out.suffix == SUFFIX and not out.is_dir():
        return {out: list(symbols)}
    files: dict[Path, list[str]] = {}
    for symbol in symbols:
        name = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in symbol).lstrip(".")
        files.setdefault(out / f"{name or '-'}{SUFFIX}", []).append(symbol)
    return files


def _check_targets(files: dict[Path, list[str]], force: bool) -> None:
    """Before the download: can they be written?"""
    from rookery.files import check_file

    for file in files:
        if file.exists() and not force:
            raise OptionError(f"{file} exists already: `rookery data update` adds what is new, --force overwrites it")
        check_file(str(file))


def _check_neighbours(out: Path, files: dict[Path, list[str]], wanted: Download) -> None:
    """Bars of one folder are read as one: others than those that are there are rejected before they are downloaded."""
    import json

    from rookery.data.bar_files import METADATA, is_ours, read_metadata
    from rookery.data.calendars import timeframe_name

    mine = timeframe_name(wanted.timeframe), wanted.calendar
    others = [] if out in files else [file for file in sorted(out.glob(f"*{SUFFIX}")) if file not in files]
    for file in filter(is_ours, others):
        facts = json.loads(read_metadata(file)[METADATA])
        its = facts.get("timeframe"), facts.get("calendar")
        if its != mine:
            raise OptionError(
                f"{file} has bars of {its[0]}, calendar {its[1]}, and these are of {mine[0]}, calendar {mine[1]}: "
                "choose another folder"
            )


def _write(data: Dataset, files: dict[Path, list[str]]) -> None:
    from rookery.data.storage import folder_lock, write

    folder = next(iter(files)).parent
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        for file, symbols in files.items():
            write(data.select(symbols), file)


def _update(options: argparse.Namespace) -> int:
    from rookery.data.feeds.update import update

    with _continues(), _progress_bar(None) as progress:
        done = update(options.path, options.revise, progress)
    problems = [one.problem for one in done if one.problem]
    if options.json:
        from rookery import printing

        symbols = [_as_json(one) for one in done if not one.problem]
        printing.emit_json({"added": sum(one.added for one in done), "symbols": symbols, "problems": problems})
    else:
        _print_updated([one for one in done if not one.problem])
    for problem in problems:
        print(f"rookery: {printable(problem)}", file=sys.stderr)
    return 1 if problems else 0


def _print_updated(done: list[Updated]) -> None:
    from rookery.data.feeds.fetch import time_name

    changed = [one for one in done if one.added or (one.replaced and one.revised)]
    for one in changed:
        revised = f", {one.revised} revised" if one.replaced and one.revised else ""
        print(f"{one.path}: {one.symbol}: {one.added:,} bars added{revised}, up to {time_name(one.last)}")
    if done and not changed:
        print(f"nothing new since {time_name(max(one.last for one in done))}")


def _as_json(one: Updated) -> dict[str, Any]:
    from rookery.data.feeds.fetch import time_name

    return {"path": str(one.path), "symbol": one.symbol, "added": one.added, "revised": one.revised,
            "replaced": one.replaced, "last": time_name(one.last)}  # fmt: skip


def _print_fetched(data: Dataset, files: dict[Path, list[str]], as_json: bool) -> None:
    from rookery import printing
    from rookery.data.checks import problems
    from rookery.data.feeds.fetch import time_name

    rows = [
        {"path": str(file), "symbol": symbol, "bars": len(data[symbol]), "first": time_name(int(data[symbol].times[0])),
         "last": time_name(int(data[symbol].times[-1]))}
        for file, symbols in files.items() for symbol in symbols
    ]  # fmt: skip
    found = [str(problem) for problem in problems(data)]
    if as_json:
        return printing.emit_json({"symbols": rows, "problems": found})
    for row in rows:
        print(f"{row['path']}: {row['symbol']}: {row['bars']:,} bars, complete from {row['first']} to {row['last']}")
    for problem in found:
        print(f"  {problem}")
    return None


@contextlib.contextmanager
def _continues() -> Iterator[None]:
    """Say what an interrupted download means."""
    from rookery.console import say

    try:
        yield
    except KeyboardInterrupt:
        say("interrupted: no file is half written; the same command continues where it stopped")
        raise


@contextlib.contextmanager
def _progress_bar(symbols: int | None) -> Iterator[Callable[[str, float], None]]:
    """Progress on standard error, if that is a terminal. `symbols`: how many there are, if that is known."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    screen, parts = Console(stderr=True), dict[str, float]()
    with Progress(
        *columns, console=screen, transient=True, refresh_per_second=4, disable=not screen.is_terminal
    ) as bar:
        task = bar.add_task("", total=symbols)

        def advance(symbol: str, part: float) -> None:
            parts[symbol] = part
            bar.update(task, description=symbol, completed=sum(parts.values()), total=symbols or len(parts))

        yield advance
