"""Arguments of the `data` commands that say how to read files of other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rookery.cli.arguments import check_file
from rookery.errors import OptionError


def source_arguments(parser: argparse.ArgumentParser) -> None:
    """How a source is read."""
    parser.add_argument("--symbols", metavar="LIST", help="only these symbols, separated by commas; names for arrays")
    parser.add_argument(
        "--timezone", metavar="ZONE",
        help="time zone of times that name none, such as UTC or Europe/Berlin; without it such times are refused",
    )  # fmt: skip
    parser.add_argument(
        "--time-is", choices=("start", "end"), default="start",
        help="whether a time is the start of its bar, as in nearly all sources, or its end (start)",
    )  # fmt: skip
    parser.add_argument(
        "--calendar", metavar="NAME",
        help="when the market is open: 24/7, forex, or a name of exchange_calendars, such as XNYS; closed hours are no "
        "gaps (24/7)",
    )  # fmt: skip
    parser.add_argument("--timeframe", metavar="T", help="resample finer bars to this timeframe, such as 15m or 1h")
    order = parser.add_mutually_exclusive_group()
    order.add_argument(
        "--day-first", action="store_const", const=True, dest="day_first", help="01/02/2024 is in February"
    )
    order.add_argument(
        "--month-first", action="store_const", const=False, dest="day_first", help="01/02/2024 is in January"
    )
    parser.add_argument("--date-format", metavar="F", help="format of times in text, such as '%%d.%%m.%%Y %%H:%%M'")
    parser.add_argument("--decimal-comma", action="store_true", help="1,5 is one and a half")
    parser.add_argument(
        "--adjusted", action="store_true", help="scale prices so that the close is the column of adjusted closes"
    )
    parser.add_argument(
        "--tech-names", metavar="LIST", help="names of the columns per symbol of tech_array, separated by commas"
    )


def out_argument(parser: argparse.ArgumentParser) -> None:
    """Where the result is written."""
    parser.add_argument("--out", required=True, metavar="FILE", help="the file to write, such as data/crypto.parquet")


def names_of(text: str | None) -> list[str] | None:
    """The names in a list that is separated by commas."""
    names = None if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if names == []:
        raise OptionError(f"{text!r} names nothing: give names separated by commas")
    return names


def source_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `ImportOptions` that were given."""
    names = ("timezone", "time_is", "calendar", "timeframe", "day_first", "date_format", "decimal_comma", "adjusted")
    lists = {"symbols": names_of(options.symbols), "tech_names": names_of(options.tech_names)}
    return {name: getattr(options, name) for name in names} | lists


def check_out(out: str, sources: list[str]) -> None:
    """Refuse to write where something else would be lost."""
    from rookery.data.stored_file import is_ours

    check_file(out)
    path = Path(out)
    if path.exists() and not is_ours(path):
        same = any(Path(source).exists() and path.samefile(source) for source in sources)
        what = "is the source itself" if same else "exists and is no data file of rookery"
        raise OptionError(f"--out {out}: this {what}; choose another name")
