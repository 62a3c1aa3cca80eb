"""The command `data`: makes, downloads, imports, describes and checks bars of markets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rookery.cli import data_feed_verbs
from rookery.cli.data_arguments import check_out, names_of, out_argument, source_arguments, source_options
from rookery.cli.data_output import print_dataset, print_problems
from rookery.cli.parser import Commands, add_command
from rookery.console import waiting
from rookery.errors import DataError

if TYPE_CHECKING:
    from rookery.data.dataset import Dataset

PRESETS = {"crypto": "CRYPTO_FEATURES", "forex": "FOREX_FEATURES"}
SOURCE_HELP = "a file or folder: rookery's own, CSV or Parquet with a file per symbol, .npz, or a folder of .npy arrays"


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
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
    data_feed_verbs.add_commands(parts)


def _add_synth(parts: Commands) -> None:
    parser = add_command(
        parts, "synth", _synth, "make synthetic bars",
        "Seeded prices of several correlated assets with regimes, fat tails and clustered volatility. No return can be "
        "foretold, except by a planted signal: the column `signal` is known a bar before the return that it foretells.",
        "rookery data synth --out data/synthetic.parquet --assets 7 --bars 20000 --timeframe 5m --seed 1",
    )  # fmt: skip
    out_argument(parser)
    parser.add_argument("--assets", type=int, default=7, metavar="N", help="number of symbols (7)")
    parser.add_argument("--bars", type=int, default=20_000, metavar="N", help="number of bars per symbol (20000)")
    parser.add_argument("--timeframe", default="5m", metavar="T", help="length of a bar (5m)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the random numbers (1)")
    parser.add_argument(
        "--signal", type=float, default=0.0, metavar="X",
        help="correlation of the planted signal with the next return: from 0, no signal, to 1 (0)",
    )  # fmt: skip
    parser.add_argument(
        "--signal-half-life", type=float, default=100.0, metavar="N", help="bars until half of the signal is left (100)"
    )
    parser.add_argument(
        "--kind",
        default="crypto",
        choices=("crypto", "forex", "walk"),
        help="which market; walk: a random walk (crypto)",
    )
    parser.add_argument("--symbols", metavar="LIST", help="names, separated by commas (the kind's usual ones)")
    parser.add_argument("--correlation", type=float, metavar="X", help="between the assets' returns (the kind's)")
    parser.add_argument("--volatility", type=float, metavar="X", help="per year, such as 0.7 (the kind's)")


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
        "Columns are found by their names. Nothing is guessed in silence: times without a zone need --timezone, and "
        "dates such as 01/02/2024 need --day-first or --month-first. Gaps are not filled. Pickles are refused, with "
        "the command that converts them. Bars that `rookery data check` would refuse are not written.",
        "rookery data import EURUSD.csv --timezone UTC --calendar forex --out data/eurusd.parquet",
    )  # fmt: skip
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help=SOURCE_HELP)
    out_argument(parser)
    source_arguments(parser)


def _import(options: argparse.Namespace) -> int:
    check_out(options.out, options.sources)
    data, notes = _opened(options.sources, options)
    return _finish(_with_sources(data, options), options, notes)


def _with_sources(data: Dataset, options: argparse.Namespace) -> Dataset:
    """The files in the history, for `rookery data update`."""
    from dataclasses import replace

    from rookery.data.feeds.reimport import import_entry

    entry = import_entry(options.sources, options.out, source_options(options))
    return data if entry is None else replace(data, history=(*data.history, entry))


def _add_features(parts: Commands) -> None:
    parser = add_command(
        parts, "features", _features, "add columns of features to bars",
        "Names are rsi_14, ema_10, macd, vwap_20, hour_sin, volatility_regime, any function of TA-Lib with its period, "
        "such as natr_14, or the features of a world: crypto or forex. Each is computed from the past only.",
        "rookery data features data/crypto.parquet rsi_14 macd ema_50 --out data/crypto-features.parquet",
    )  # fmt: skip
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    parser.add_argument("names", nargs="+", metavar="FEATURE", help="names, separated by spaces or commas")
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
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    source_arguments(parser)


def _info(options: argparse.Namespace) -> int:
    data, notes = _opened([options.source], options, checked=False)
    print_dataset(data, options.json, notes)
    return 0


def _add_check(parts: Commands) -> None:
    parser = add_command(
        parts, "check", _check, "look for gaps, duplicates, absurd bars and wrong sessions",
        "Each problem is named by symbol, row and time. Worlds refuse bars with errors; notes, such as gaps, are worth "
        "knowing. The exit status is 1 if there are errors.",
        "rookery data check data/crypto.parquet",
    )  # fmt: skip
    parser.add_argument("source", metavar="SOURCE", help=SOURCE_HELP)
    source_arguments(parser)


def _check(options: argparse.Namespace) -> int:
    from pathlib import Path

    from rookery.data.checks import problems
    from rookery.data.problem import ERROR, Problem

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
    from rookery.data.open_data import open_data

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
