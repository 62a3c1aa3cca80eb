"""The command `data`: makes, downloads, imports, describes and checks bars of markets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli import data_feed_verbs
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import say, waiting
from rookery.errors import DataError, OptionError
from rookery.files import check_file

if TYPE_CHECKING:
    from rookery.data.dataset import Dataset

PRESETS = {"crypto": "CRYPTO_FEATURES", "forex": "FOREX_FEATURES"}
SOURCE_HELP = "a file or folder: rookery's own, CSV or Parquet with a file per symbol, .npz, or a folder of .npy arrays"


def add_data(commands: Commands) -> None:
    parser = commands.add_parser(
        "data", help="make, download, import, describe and check bars of markets",
        description="Bars of markets, for the worlds crypto and forex. A data file is Parquet with a hash and a "
        "history. Times are those at which a bar is complete, in UTC.",
        epilog="`rookery data COMMAND --help` describes a command.",
    )  # fmt: skip
    parts = parser.add_subparsers(dest="part", title="commands", metavar="COMMAND", required=True)
    _add_synth(parts)
    _add_import(parts)
    _add_features(parts)
    _add_info(parts)
    _add_check(parts)
    data_feed_verbs.add_fetch(parts)
    data_feed_verbs.add_update(parts)


def _add_synth(parts: Commands) -> None:
    parser = add_command(
        parts, "synth", _synth, "make synthetic bars",
        "Seeded prices of several correlated assets with regimes, fat tails and clustered volatility. No return can be "
        "foretold, except by a planted signal: the column `signal` is known a bar before the return that it predicts.",
        "rookery data synth --out data/synthetic.parquet --assets 7 --bars 20000 --timeframe 5m --seed 1",
    )  # fmt: skip
    out_argument(parser)
    takes(parser, "--assets N", "number of symbols", 7)
    takes(parser, "--bars N", "number of bars per symbol", 20_000)
    takes(parser, "--timeframe T", "length of a bar", "5m")
    takes(parser, "--seed N", "seed of the random numbers", 1)
    takes(
        parser, "--signal X", "correlation of the planted signal with the next return: from 0, no signal, to 1", 0.0,
    )  # fmt: skip
    takes(parser, "--signal-half-life N", "bars until half of the signal is left", 100.0)
    takes(parser, "--kind", "which market; walk: a random walk", "crypto", choices=("crypto", "forex", "walk"))
    takes(parser, "--symbols LIST", "names, separated by commas (the kind's usual ones)")
    takes(parser, "--correlation X", "between the assets' returns (the kind's)", type=float)
    takes(parser, "--volatility X", "per year, such as 0.7 (the kind's)", type=float)


def _synth(options: argparse.Namespace) -> int:
    from rookery.data.synth import synthesise

    check_out(options.out, [])
    with waiting(f"making {options.bars:,} bars of {options.assets} symbols"):
        data = synthesise(
            options.assets, options.bars, options.timeframe, options.seed, options.signal, options.signal_half_life,
            options.kind, names_of(options.symbols), options.correlation, options.volatility,
        )  # fmt: skip
    return _finish(data, options)


def _add_import(parts: Commands) -> None:
    parser = add_command(
        parts, "import", _import, "read bars of other programs and write a data file",
        "Columns are found by their names. Nothing is guessed silently: times without a zone need --timezone, and "
        "dates such as 01/02/2024 need --day-first or --month-first. Gaps are not filled. Pickles are rejected, with "
        "the command that converts them. Bars that `rookery data check` would reject are not written.",
        "rookery data import EURUSD.csv --timezone UTC --calendar forex --out data/eurusd.parquet",
    )  # fmt: skip
    takes(parser, "sources SOURCE", SOURCE_HELP, nargs="+")
    out_argument(parser)
    source_arguments(parser)


def _import(options: argparse.Namespace) -> int:
    check_out(options.out, options.sources)
    data, notes = _opened(options.sources, options)
    return _finish(_with_sources(data, options), options, notes)


def _with_sources(data: Dataset, options: argparse.Namespace) -> Dataset:
    """The files in the history, for `rookery data update`."""
    from dataclasses import replace

    from rookery.data.opened_data import import_entry

    entry = import_entry(options.sources, options.out, source_options(options))
    return data if entry is None else replace(data, history=(*data.history, entry))


def _add_features(parts: Commands) -> None:
    parser = add_command(
        parts, "features", _features, "add columns of features to bars",
        "Names are rsi_14, ema_10, macd, vwap_20, hour_sin, volatility_regime, any function of TA-Lib with its period, "
        "such as natr_14, or the features of a world: crypto or forex. Each is computed from the past only.",
        "rookery data features data/crypto.parquet rsi_14 macd ema_50 --out data/crypto-features.parquet",
    )  # fmt: skip
    takes(parser, "source SOURCE", SOURCE_HELP)
    takes(parser, "names FEATURE", "names, separated by spaces or commas", nargs="+")
    out_argument(parser)
    source_arguments(parser)


def _features(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from rookery.data import features

    check_out(options.out, [options.source])
    data, notes = _opened([options.source], options)
    given = [name.strip() for text in options.names for name in text.split(",") if name.strip()]
    wanted = [column for name in given for column in (getattr(features, PRESETS[name]) if name in PRESETS else [name])]
    with waiting(f"computing {len(wanted)} features"):
        made = features.add_features(data, wanted)
    if made.history == data.history:
        made = replace(
            made, history=(*data.history, {"command": f"features {' '.join(given)}", "source": "these bars"})
        )
    return _finish(made, options, notes)


def _add_info(parts: Commands) -> None:
    parser = add_command(
        parts, "info", _info, "show what bars hold: symbols, spans, gaps, columns, hash, history",
        "Times are those at which the first and the last bar are complete.",
        "rookery data info data/crypto.parquet",
    )  # fmt: skip
    takes(parser, "source SOURCE", SOURCE_HELP)
    source_arguments(parser)


def _info(options: argparse.Namespace) -> int:
    data, notes = _opened([options.source], options, checked=False)
    print_dataset(data, options.json, notes)
    return 0


def _add_check(parts: Commands) -> None:
    parser = add_command(
        parts, "check", _check, "look for gaps, duplicates, absurd bars and wrong sessions",
        "Each problem is named by symbol, row and time. Worlds reject bars with errors; notes, such as gaps, are worth "
        "knowing. The exit status is 1 if there are errors.",
        "rookery data check data/crypto.parquet",
    )  # fmt: skip
    takes(parser, "source SOURCE", SOURCE_HELP)
    source_arguments(parser)


def _check(options: argparse.Namespace) -> int:
    from pathlib import Path

    from rookery.data.checks import ERROR, Problem, problems

    try:
        data, _ = _opened([options.source], options, checked=False)
        found, place = problems(data), data.place
    except DataError as error:
        if not Path(options.source).exists():
            raise
        found, place = [Problem("", None, None, str(error).removeprefix(f"{options.source}: "))], options.source
    errors = sum(problem.severity == ERROR for problem in found)
    print_problems(found, place, errors, options.json)
    return 1 if errors else 0


def _opened(sources: list[str], options: argparse.Namespace, checked: bool = True) -> tuple[Dataset, list[str]]:
    from rookery.data.opened_data import open_data

    notes: list[str] = []
    with waiting(f"reading {', '.join(sources)}"):
        data = open_data(
            sources[0] if len(sources) == 1 else sources, **source_options(options), notes=notes, checked=checked
        )
    return data, notes


def _finish(data: Dataset, options: argparse.Namespace, notes: list[str] | None = None) -> int:
    from dataclasses import replace

    from rookery.data.storage import write

    with waiting(f"writing {options.out}"):
        write(data, options.out)
    print_dataset(replace(data, place=options.out), options.json, notes or [])
    return 0


def source_arguments(parser: argparse.ArgumentParser) -> None:
    """How a source is read."""
    takes(parser, "--symbols LIST", "only these symbols, separated by commas; names for arrays")
    takes(
        parser, "--timezone ZONE", "time zone of times that name none, such as UTC or Europe/Berlin; without it such "
        "times are rejected",
    )  # fmt: skip
    takes(
        parser, "--time-is", "whether a time is the start of its bar, as in nearly all sources, or its end",
        "start", choices=("start", "end"),
    )  # fmt: skip
    takes(
        parser, "--calendar NAME", "when the market is open: 24/7, forex, or a name of exchange_calendars, such as "
        "XNYS; closed hours do not count as gaps (24/7)",
    )  # fmt: skip
    takes(parser, "--timeframe T", "resample finer bars to this timeframe, such as 15m or 1h")
    order = parser.add_mutually_exclusive_group()
    takes(order, "--day-first", "01/02/2024 is in February", action="store_const", const=True, dest="day_first")
    takes(order, "--month-first", "01/02/2024 is in January", action="store_const", const=False, dest="day_first")
    takes(parser, "--date-format F", "format of times in text, such as '%%d.%%m.%%Y %%H:%%M'")
    takes(parser, "--decimal-comma", "1,5 is one and a half")
    takes(parser, "--adjusted", "scale prices so that the close is the column of adjusted closes")
    takes(
        parser, "--format NAME", "the layout of a text file: binance, metatrader4, metatrader5, histdata, dukascopy, "
        "yahoo, kraken, alpaca, stooq, tradingview, cryptodatadownload, or generic (recognised by its content)",
    )  # fmt: skip
    takes(parser, "--drop-duplicates", "omit rows that are exactly equal to an earlier one")
    takes(
        parser, "--spread UNIT", "unit of the column spread: points, price or fraction, from bid to ask; half-points, "
        "half-price or half-fraction, from the middle (points in files of MetaTrader; otherwise the column is omitted)",
    )  # fmt: skip
    takes(parser, "--digits N", "a point is the Nth digit of a price (as many as the prices have)", type=int)
    takes(parser, "--tech-names LIST", "names of the columns per symbol of tech_array, separated by commas")


def out_argument(parser: argparse.ArgumentParser) -> None:
    """Where the result is written."""
    takes(parser, "--out FILE", "the file to write, such as data/crypto.parquet", required=True)


def names_of(text: str | None) -> list[str] | None:
    """The names in a list that is separated by commas."""
    names = None if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if names == []:
        raise OptionError(f"{text!r} names nothing: give names separated by commas")
    return names


def source_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `ImportOptions` that were given."""
    names = (
        "timezone", "time_is", "calendar", "timeframe", "day_first", "date_format", "decimal_comma", "adjusted",
        "format", "drop_duplicates", "spread", "digits",
    )  # fmt: skip
    lists = {"symbols": names_of(options.symbols), "tech_names": names_of(options.tech_names)}
    return {name: getattr(options, name) for name in names} | lists


def check_out(out: str, sources: list[str]) -> None:
    """Refuse to write where something else would be lost."""
    from rookery.data.bar_files import is_ours

    check_file(out)
    path = Path(out)
    if path.exists() and not is_ours(path):
        same = any(Path(source).exists() and path.samefile(source) for source in sources)
        what = "is the source itself" if same else "exists and is not a data file of rookery"
        raise OptionError(f"--out {out}: this {what}; choose another name")


def print_dataset(data: Dataset, as_json: bool, notes: list[str]) -> None:
    """What the bars hold; notes go to standard error."""
    from rookery import printing
    from rookery.data.checks import summary

    facts = summary(data)
    if as_json:
        printing.emit_json(facts | {"notes": notes})
        return
    for note in notes:
        say(note)
    _print_summary(facts)


def _print_summary(facts: dict[str, Any]) -> None:
    from rookery import printing

    out = printing.console()
    one = ", one price per row" if facts["one_price"] else ""
    title = f"{facts['place']}: bars of {facts['timeframe']}, calendar {facts['calendar']}{one}"
    table = printing.table(title, "symbol", "bars>", "first complete", "last complete", "gaps>", "missing bars>")
    for row in facts["symbols"]:
        table.add_row(
            row["symbol"], f"{row['bars']:,}", row["first"], row["last"], f"{row['gaps']:,}", f"{row['missing']:,}"
        )
    printing.print_table(out, table)
    _print_columns(out, facts)
    out.print(f"hash: {facts['hash']}", soft_wrap=True)
    for entry in facts["history"]:
        more = ", ".join(f"{key} {value}" for key, value in entry.items() if key not in ("command", "source"))
        out.print(
            f"history: {entry.get('command')} (from {entry.get('source')}{', ' if more else ''}{more})", soft_wrap=True
        )


def _print_columns(out: Any, facts: dict[str, Any]) -> None:
    """How each column is distributed, and what becomes of it."""
    from rookery import printing
    from rookery.data.dataset import BAR_COLUMNS, COST_COLUMNS

    table = printing.table("columns", "column", "least>", "5 %>", "median>", "95 %>", "most>", "used as")
    uses = dict.fromkeys(facts["columns"], "observed only if `columns` names it")
    uses |= dict.fromkeys(BAR_COLUMNS, "bar") | dict.fromkeys(COST_COLUMNS, "cost, where costs take it from the data")
    uses |= dict.fromkeys(facts["observed"], "observed")
    for name in facts["columns"]:
        table.add_row(
            name, *(f"{value:.6g}" for value in facts["values"].get(name, [])[:5] or [float("nan")] * 5), uses[name]
        )
    printing.print_table(out, table)
    if not facts["observed"]:
        out.print("observed: the usual indicators of the world, as the data name no feature", soft_wrap=True)


def print_problems(found: list[Any], place: str, errors: int, as_json: bool) -> None:
    """Every problem in a line."""
    from rookery import printing
    from rookery.data.checks import problem_values

    if as_json:
        values = [problem_values(problem) for problem in found]
        printing.emit_json({"place": place, "ok": errors == 0, "errors": errors, "problems": values})
        return
    out = printing.console()
    for problem in found:
        out.print(f"{problem.severity}: {problem}", soft_wrap=True)
    out.print(f"{place}: {errors} errors, {len(found) - errors} notes", soft_wrap=True)
