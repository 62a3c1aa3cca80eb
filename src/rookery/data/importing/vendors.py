"""Layouts of the files that exchanges, brokers and websites export: recognised by their content."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rookery.console import printable
from rookery.data.importing.sources import ImportOptions, plain_name
from rookery.errors import DataError, OptionError
from rookery.extras import load_polars

GENERIC = "generic"  # by the names of columns alone
BARS = ("open", "high", "low", "close", "volume")
NUMBER = r"-?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
BROKER_CLOCK = (
    "its times are those of the broker's server: give --timezone, such as Europe/Athens for a server that is two hours "
    "ahead of UTC, and three in summer"
)


@dataclass(frozen=True)
class VendorLayout:
    """How one vendor writes bars.

    Attributes:
        name: As the option `format` takes it.
        title: For messages.
        header: Names that the header has, as `plain_name` makes them; empty if files have no header.
        names: The columns of a file without a header, in order.
        values: What the first line of such a file looks like, with "|" between its fields.
        options: Options that follow from the layout, unless they are given.
        clock: Whose clock the times show, as an error if no time zone is given; "" if that is known.
        prepare: Changes the table of texts where the names of columns alone mislead; raises ValueError.
    """

    name: str
    title: str
    header: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    values: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    clock: str = ""
    prepare: Callable[[Any], Any] = lambda frame: frame

    def has_header(self, fields: Sequence[str]) -> bool:
        return bool(self.header) and set(self.header) <= {plain_name(name) for name in fields}

    def has_values(self, fields: Sequence[str]) -> bool:
        line = "|".join(name.strip() for name in fields)
        return len(fields) == len(self.names) > 0 and re.fullmatch(self.values, line) is not None


def _numbers(count: int) -> str:
    return rf"(?:\|{NUMBER}){{{count}}}"


def _without_empty_volume(frame: Any) -> Any:
    """MetaTrader's <VOL> is 0 where only ticks are counted: then <TICKVOL> is the volume."""
    volume = next((name for name in frame.columns if plain_name(name) == "vol"), None)
    if volume is None or not (frame[volume].str.strip_chars() == "0").all():
        return frame
    return frame.drop(volume)


def _open_before_close(frame: Any) -> Any:
    """A file with swapped columns would be read an interval late."""
    times = {plain_name(name): frame[name].cast(load_polars().Int64, strict=False) for name in frame.columns}
    if (times["close_time"] <= times["open_time"]).any():
        raise ValueError("its close_time is not after its open_time: are columns swapped?")
    return frame


def _stooq_clock(frame: Any) -> Any:
    """Days have the time 000000; they are dates."""
    clock = next(name for name in frame.columns if plain_name(name) == "time")
    return frame.drop(clock) if (frame[clock].str.strip_chars() == "000000").all() else frame


def _day_first(frame: Any) -> Any:
    """A program that saved the file again may have written dates in the order of its own country."""
    times = next(frame[name] for name in frame.columns if plain_name(name) == "gmt_time")
    if times.str.contains("/", literal=True).any():
        raise ValueError(
            "its dates have slashes, as another program wrote them: give --format generic, and --day-first or "
            "--month-first"
        )
    return frame


BINANCE = ("open_time", *BARS, "close_time", "quote_volume", "count", "taker_buy_volume", "taker_buy_quote_volume",
           "ignore")  # fmt: skip
LAYOUTS = (
    VendorLayout("binance", "Binance's klines", BINANCE[:1] + BINANCE[6:7] + BINANCE[11:], BINANCE,
           rf"\d{{13,16}}{_numbers(5)}\|\d{{13,16}}{_numbers(5)}", prepare=_open_before_close),
    VendorLayout("metatrader5", "MetaTrader 5's export", ("date", "open", "close", "tickvol"),
           ("<DATE>", "<TIME>", "<OPEN>", "<HIGH>", "<LOW>", "<CLOSE>", "<TICKVOL>", "<VOL>", "<SPREAD>"),
           rf"\d{{4}}\.\d\d\.\d\d\|\d\d:\d\d:\d\d{_numbers(7)}", clock=BROKER_CLOCK, prepare=_without_empty_volume),
    VendorLayout("metatrader4", "MetaTrader 4's export", (), ("date", "time", *BARS),
           rf"\d{{4}}\.\d\d\.\d\d\|\d\d:\d\d{_numbers(5)}", clock=BROKER_CLOCK),
    VendorLayout("histdata", "histdata.com's bars", (), ("time", *BARS),
           rf"\d{{8}} \d{{6}}{_numbers(4)}\|0",  # NinjaTrader writes the same with volumes, on another clock
           {"timezone": "Etc/GMT+5", "date_format": "%Y%m%d %H%M%S"}),
    VendorLayout("stooq", "Stooq's bulk files", ("ticker", "per", "date", "time", "close", "openint"), (), "",
           {"date_format": "%Y%m%d %H%M%S", "timezone": "Europe/Warsaw", "time_is": "end"}, prepare=_stooq_clock),
    VendorLayout("dukascopy", "Dukascopy's export", ("gmt_time", "open", "close"), (), "",
           {"day_first": True}, prepare=_day_first),
    VendorLayout("kraken", "Kraken's OHLCVT", (), ("time", *BARS, "trades"), rf"\d{{10}}{_numbers(5)}\|\d+"),
    VendorLayout("alpaca", "Alpaca's bars", ("timestamp", "close", "trade_count", "vwap")),
    VendorLayout("yahoo", "Yahoo's prices", ("date", "close", "adj_close", "volume")),
    VendorLayout("cryptodatadownload", "CryptoDataDownload's bars", ("unix", "date", "symbol", "close"), (), "",
           {"timezone": "UTC"}),
    VendorLayout("tradingview", "TradingView's export"),
)  # fmt: skip
FORMATS = (*(layout.name for layout in LAYOUTS), GENERIC)


def recognise(place: str, fields: Sequence[str], options: ImportOptions) -> VendorLayout | None:
    """The layout of a file whose first line has these fields; None if no vendor is known by it. `options.format`
    overrides what is recognised."""
    if options.format is not None:
        return _named(place, options.format, fields)
    if list(fields[:5]) == ["time", "open", "high", "low", "close"] and "Volume" in fields:
        return _by_name("tradingview")
    return next((layout for layout in LAYOUTS if layout.has_header(fields) or layout.has_values(fields)), None)


def _by_name(name: str) -> VendorLayout:
    return next(layout for layout in LAYOUTS if layout.name == name)


def _named(place: str, name: str, fields: Sequence[str]) -> VendorLayout | None:
    if name not in FORMATS:
        raise OptionError(f"format should be one of {', '.join(FORMATS)}, got {name!r}")
    if name == GENERIC:
        return None
    layout = _by_name(name)
    headed = layout.has_header(fields) or (not layout.header and not layout.names)
    if not headed and len(fields) != len(layout.names):
        wanted = ", ".join(layout.header or layout.names)
        raise DataError(
            f"{printable(place)}: --format {name}: the first line has {len(fields)} columns, not those of "
            f"{layout.title}: {wanted}"
        )
    return layout


def with_rules(place: str, layout: VendorLayout, frame: Any, options: ImportOptions) -> tuple[Any, ImportOptions]:
    """The table and the options as the layout says. What was given stays."""
    try:
        frame = layout.prepare(frame)
    except ValueError as error:
        raise DataError(f"{printable(place)}: {layout.title}: {error}") from None
    usual = ImportOptions()
    rules = {name: value for name, value in layout.options.items() if getattr(options, name) == getattr(usual, name)}
    if layout.name == "stooq" and not any(plain_name(name) == "time" for name in frame.columns):
        rules = {}  # days, of the exchange's own clock
    if layout.clock and options.timezone is None:
        raise DataError(f"{printable(place)}: {layout.title}: {layout.clock}")
    told = "".join(f", {name.replace('_', ' ')} {value}" for name, value in rules.items())
    options.note(f"read as {layout.title}{told}; --format overrides this")
    return frame, replace(options, format=layout.name, **rules)
