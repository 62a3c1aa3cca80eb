"""Bars as the tables of a world: prices for fills, and scaled columns for observations, in memory that all processes
share; the windows in which episodes run; and what a quote currency is worth in the account's.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rookery.data.calendars import segments, timeframe_name
from rookery.data.dataset import Bars, Dataset
from rookery.data.features import add_features, feature_columns
from rookery.data.importing.spreads import WIDEST, refuse_absurd, too_wide
from rookery.data.opened_data import NAME as ANYTRADING
from rookery.data.opened_data import anytrading_bars, anytrading_file, open_data
from rookery.data.shared_tables import shared
from rookery.data.splits import holdout
from rookery.data.storage import fingerprint
from rookery.data.synth import shipped
from rookery.errors import DataError, OptionError

HIGHEST_FUNDING = 0.005  # half of all payments of a market are lower; rates in percent are not
FORMAT = 4  # of the tables; part of their name in the cache


@dataclass(frozen=True)
class Market:
    """The tables of a market. A row is a bar; all rows of a symbol follow each other.

    Attributes:
        symbols: The symbols; of a portfolio, one block of rows holds all of them.
        columns: The observed columns, by name.
        timeframe: Seconds per bar.
        synthetic: Whether the bars are made up.
        times: (rows,) when each bar is complete.
        blocks: (blocks, 2) first and last row of each symbol, or of the portfolio.
        stretches: (n, 2) first and last row of stretches without a gap or a missing number.
        bars: Prices and rates for fills, float64.
        features: Scaled columns, float32, (rows, width).
    """

    symbols: tuple[str, ...]
    columns: tuple[str, ...]
    timeframe: int
    calendar: str
    synthetic: bool
    place: str
    times: np.ndarray
    blocks: np.ndarray
    stretches: np.ndarray
    bars: np.ndarray
    features: np.ndarray


# A dataset and its observed columns as times, blocks, stretches, bars and features.
Layout = Callable[[Dataset, Sequence[str]], dict[str, np.ndarray]]


class ObservedColumns(NamedTuple):
    """Which columns an agent observes: those that are named; else `always`, and the features that were added to the
    data, or `usual` ones if there are none."""

    named: tuple[str, ...] | None
    always: tuple[str, ...]
    usual: tuple[str, ...]

    def choose(self, dataset: Dataset) -> tuple[str, ...]:
        if self.named is not None:
            return self.named
        return (*self.always, *(dataset.observed or self.usual))


def load_market(
    kind: str, data: Any, symbols: Sequence[str] | None, timeframe: str | int | None, columns: ObservedColumns,
    layout: Layout, layout_name: str,
) -> Market:  # fmt: skip
    """The tables for what a user passes as `data`. They are computed once, and mapped into every process that needs
    them."""

    def build() -> dict[str, np.ndarray]:
        dataset = _dataset(kind, data, symbols, timeframe)
        chosen = _each_column(columns.choose(dataset), dataset)
        arrays = layout(_with_columns(dataset, chosen), chosen)
        facts = {
            "columns": chosen,
            "symbols": dataset.symbols, "timeframe": dataset.timeframe, "calendar": dataset.calendar,
            "synthetic": any(step.get("command", "").startswith("synth") for step in dataset.history),
            "place": dataset.place or kind,
        }  # fmt: skip
        return {**arrays, "facts": np.frombuffer(json.dumps(facts).encode(), np.uint8)}

    given = ["market", FORMAT, kind, symbols, timeframe, columns, layout_name, _identity(kind, data)]
    key = hashlib.sha256(json.dumps(given, default=str).encode()).hexdigest()[:32]
    arrays = shared(key, build)
    facts = json.loads(bytes(arrays["facts"]))
    return Market(
        tuple(facts["symbols"]), tuple(facts["columns"]), facts["timeframe"], facts["calendar"], facts["synthetic"],
        facts["place"], *(arrays[name] for name in ("times", "blocks", "stretches", "bars", "features")),
    )  # fmt: skip


def _identity(kind: str, data: Any) -> str:
    if data is None:
        return f"shipped {kind}"
    if isinstance(data, str) and data == ANYTRADING:
        return fingerprint(anytrading_file())
    if isinstance(data, (str, Path)):
        return fingerprint(Path(data).expanduser())
    return data.hash if isinstance(data, Dataset) else open_data(data).hash


def _dataset(kind: str, data: Any, symbols: Sequence[str] | None, timeframe: str | int | None) -> Dataset:
    if data is None:
        return shipped(kind).select(symbols)
    if isinstance(data, str) and data == ANYTRADING:
        return open_data(anytrading_bars(), symbols=symbols, timeframe=timeframe)
    usual = "forex" if kind == "forex" else "24/7"
    return open_data(data, symbols=symbols, timeframe=timeframe, usual_calendar=usual)


def all_bars(data: Any, timeframe: str | int | None) -> Dataset:
    """The bars of all pairs, those that are not traded too."""
    return _dataset("forex", data, None, timeframe)


def _each_column(names: Sequence[str], dataset: Dataset) -> tuple[str, ...]:
    """`bbands_20` stands for its three columns; `macd` is itself one of them."""
    chosen: dict[str, None] = {}
    for name in names:
        made = (name,) if name in dataset.column_names else feature_columns(name)
        chosen.update(dict.fromkeys((name,) if name in made else made))
    return tuple(chosen)


def _with_columns(dataset: Dataset, columns: Sequence[str]) -> Dataset:
    """With the columns that are not there yet, computed."""
    missing = [name for name in columns if name not in dataset.column_names]
    return add_features(dataset, missing) if missing else dataset


def need_column(bars: Bars, column: str) -> np.ndarray:
    """A column that the costs name. Its absence is an error: what is not known is not zero."""
    if column not in bars.columns:
        more = ": import the bars with --spread, which names its unit" if column == "spread" else ""
        raise DataError(f"{bars.symbol}: the costs take {column!r} from the data, which have no such column{more}")
    if column == "spread":
        _refuse_spreads(bars)
    if column == "funding":
        _refuse_percent(bars)
    return bars[column]


def _refuse_spreads(bars: Bars) -> None:
    refuse_absurd(bars["spread"], bars.symbol)
    wide = np.flatnonzero(2 * bars["spread"] > WIDEST)
    if len(wide):
        raise DataError(f"{bars.symbol} row {wide[0]}: {too_wide(bars['spread'][wide[0]])}")


def _refuse_percent(bars: Bars) -> None:
    """Refuse a column `funding` whose unit must be another one."""
    rates = bars["funding"]
    paid = np.abs(rates[np.isfinite(rates) & (rates != 0.0)])
    if len(paid) and np.median(paid) > HIGHEST_FUNDING:
        raise DataError(
            f"{bars.symbol}: the median of the column funding is {np.median(paid):g}, which is "
            f"{100 * np.median(paid):g} % of a position at once: it should be a fraction, such as 0.0001 for 0.01 %"
        )


def find_stretches(times: np.ndarray, usable: np.ndarray, dataset: Dataset, first_row: int) -> np.ndarray:
    """(n, 2) first and last row of stretches that an episode may run in: no unscheduled gap, every number finite."""
    found = []
    for first, last in segments(times, dataset.timeframe, dataset.calendar):
        good = np.concatenate([[False], usable[first : last + 1], [False]])
        edges = np.flatnonzero(good[1:] != good[:-1]).reshape(-1, 2)
        found.append(edges + first + np.array([0, -1]))
    return (np.concatenate(found) if found else np.zeros((0, 2), np.int64)) + first_row


# --- where episodes run: the fixed windows of a split, and the rows at which random episodes start --------------------

SPLITS = ("all", "train", "validation", "test")


class Windows(NamedTuple):
    """Rows at which episodes start and end. At the first row of an episode the agent decides for the first time; at the
    last one it is truncated."""

    windows: np.ndarray  # (n, 2) first and last row of each fixed window
    starts: np.ndarray  # (m, 2) first and last row of episodes that start at random
    groups: np.ndarray  # (blocks, 2) the range in `starts` of each symbol


def find_windows(market: Market, lookback: int, length: int, split: Any, embargo: int | None = None) -> Windows:
    """The windows of a split, and all starts in them of episodes of `length` steps (0: to the end of the window).

    No window crosses a gap, or begins before `lookback` rows are known.
    """
    windows: list[tuple[int, int]] = []
    starts: list[Any] = []
    groups: list[tuple[int, int]] = []
    ranges = time_ranges(market, split, lookback if embargo is None else embargo)
    for block_first, block_last in market.blocks:
        begin = len(starts)
        inside = (market.stretches[:, 0] >= block_first) & (market.stretches[:, 1] <= block_last)
        for first, last in market.stretches[inside]:
            times = market.times[first : last + 1]
            for start, end in ranges:
                a = max(first + lookback - 1, first + int(np.searchsorted(times, start)))
                b = first + int(np.searchsorted(times, end)) - 1
                if b > a:
                    windows.append((a, b))
                    latest = max(b - length, a) if length else a
                    rows = np.arange(a, latest + 1)
                    starts.extend(np.stack([rows, np.full_like(rows, b)], axis=1))
        groups.append((begin, len(starts)))
    _refuse_nothing(market, split, lookback, groups)
    return Windows(*(np.array(rows, np.int64).reshape(-1, 2) for rows in (windows, starts, groups)))


def time_ranges(market: Market, split: Any, embargo: int) -> list[tuple[int, int]]:
    """A split as ranges of time, from its first bar up to before its end.

    `split` is a name, or a list of [start, end) as times or as positions among all times of the data.
    """
    axis = np.unique(market.times)
    if isinstance(split, str):
        if split not in SPLITS:
            raise OptionError(f"split should be one of {', '.join(SPLITS)}, or a list of [start, end], got {split!r}")
        if split == "all":
            return [(int(axis[0]), int(axis[-1]) + 1)]
        parts = holdout(len(axis), embargo=embargo)
        split = getattr(parts, split)
    edges = np.append(axis, axis[-1] + 1)
    try:
        return [(_second(start, edges), _second(end, edges)) for start, end in split]
    except (TypeError, ValueError) as error:
        raise OptionError(f"split should be a list of [start, end], got {split!r}: {error}") from None


def _second(value: Any, edges: np.ndarray) -> int:
    if isinstance(value, (int, np.integer)) and abs(int(value)) < len(edges):
        return int(edges[int(value)])
    if isinstance(value, (int, float, np.integer, np.floating)):
        return int(value)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _refuse_nothing(market: Market, split: Any, lookback: int, groups: Sequence[tuple[int, int]]) -> None:
    for number, (begin, end) in enumerate(groups):
        if begin == end:
            symbol = market.symbols[number] if len(groups) > 1 else ", ".join(market.symbols)
            longest = max((int(b - a + 1) for a, b in market.stretches), default=0)
            raise DataError(
                f"{market.place}: {symbol} has no window for the split {split!r}: an episode needs over "
                f"{lookback} bars of {timeframe_name(market.timeframe)} without a gap; the longest has {longest}"
            )


# --- columns as numbers near 1 for a network; each row uses itself and earlier rows only ------------------------------

SCALINGS = ("relative", "power", "none")
# By the beginning of a column's name. Prices, and averages of them:
PRICE_LIKE = re.compile(
    r"(open|high|low|close|price|[dt]?ema|sma|wma|kama|trima|t3|vwap|bbands|midpoint|midprice|sar|ht_trendline|"
    r"avgprice|medprice|typprice|wclprice|linearreg(?!_slope|_angle)|tsf|min|max)(_|$)"
)
# Differences of prices:
DIFFERENCE = re.compile(r"(macd|mom|atr|trange|stddev|apo|plus_dm|minus_dm|linearreg_slope)")
FIXED = {"rsi": 1 / 64, "dx": 1 / 64, "adx": 1 / 64, "adxr": 1 / 64, "mfi": 1 / 64, "willr": 1 / 64, "stoch": 1 / 64,
         "plus_di": 1 / 64, "minus_di": 1 / 64, "aroon": 1 / 64, "cmo": 1 / 64, "ultosc": 1 / 64,
         "cci": 1 / 128}  # fmt: skip
VOLUME_ROWS = 20  # volume is compared with its mean over this many rows
RELATIVE = 64.0  # a change of 1.6 % becomes 1
LIMIT = 64.0  # of every scaled number


def scaled(name: str, column: np.ndarray, close: np.ndarray, scaling: str) -> np.ndarray:
    """One column of one symbol, float32.

    "relative": prices as their change against the close of the row before, which has no trend; "power": every column
    times a power of two that the first row decides, which keeps its shape; "none": as it is.

    >>> close = np.array([1.0, 2.0, 3.0])
    >>> scaled("close", close, close, "relative")
    array([nan, 64., 32.], dtype=float32)
    >>> scaled("close", 100 * close, close, "power")
    array([0.78125, 1.5625 , 2.34375], dtype=float32)
    """
    if scaling == "none":
        return column.astype(np.float32)
    if scaling == "power":
        return (column * _power(column)).astype(np.float32)
    if scaling != "relative":
        raise OptionError(f"scaling should be one of {', '.join(SCALINGS)}, got {scaling!r}")
    before = np.concatenate([[np.nan], close[:-1]])
    if name == "volume":
        values = column / np.maximum(_trailing_mean(column), 1e-12) - 1.0
    elif PRICE_LIKE.match(name):
        values = (column / before - 1.0) * RELATIVE
    elif DIFFERENCE.match(name):
        values = column / before * RELATIVE
    else:
        values = column * next((factor for start, factor in FIXED.items() if re.match(rf"{start}(_|\d|$)", name)), 1.0)
    return np.clip(values, -LIMIT, LIMIT).astype(np.float32)


def _power(column: np.ndarray) -> float:
    """The power of two that brings the first finite number that is not zero near 1."""
    found = column[np.isfinite(column) & (column != 0)][:1]
    return 1.0 if not len(found) else float(2.0 ** -np.round(np.log2(abs(found[0]))))


def _trailing_mean(column: np.ndarray) -> np.ndarray:
    """Of each row and the rows before it. The sums are exact over windows, so that no row depends on distant ones."""
    padded = np.concatenate([np.full(VOLUME_ROWS - 1, np.nan), column])
    windows = np.lib.stride_tricks.sliding_window_view(padded, VOLUME_ROWS)
    return np.nanmean(windows, axis=1)


# --- from the quote currency of a pair to that of the account ---------------------------------------------------------


PAIR = re.compile(r"([A-Z]{3})([A-Z]{3})|(\w{1,40}?)[/_-](\w{1,40})")
OLDEST_RATE = 5 * 86_400  # seconds: a weekend and holidays beside it
Leg = tuple[Bars, bool]  # a pair, and whether it is divided by


def rates_to_account(
    bars: Bars, dataset: Dataset, account: str, everything: Callable[[], Dataset] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """What one unit of the quote currency is worth in the account's, at the open and at the close of each bar.

    USDJPY earns yen: in an account in dollars they are worth 1 / USDJPY. EURGBP earns pounds: the data must have GBPUSD
    or USDGBP, or two pairs that lead there, such as EURGBP and EURUSD. Their last known close is used if it is not
    older than `OLDEST_RATE`. `everything` opens pairs that are not traded too.
    """
    base, quote = currencies(bars.symbol)
    if quote == account:
        return np.ones(len(bars)), np.ones(len(bars))
    if base == account:
        return 1.0 / bars["open"], 1.0 / bars["close"]
    legs = _direct(quote, account, dataset)
    if not legs and everything is not None:
        dataset = everything()
        legs = _direct(quote, account, dataset)
    legs = legs or _through_another(quote, account, dataset)
    if not legs:
        raise DataError(
            f"{bars.symbol} earns {quote}, and the account is in {account}: add {quote}{account} or {account}{quote} "
            f"to the data (of an account on paper: to the symbols), or choose another currency for the account, as in "
            f"account={quote!r}"
        )
    return _converted(legs, bars.times - dataset.timeframe), _converted(legs, bars.times)


def _direct(start: str, end: str, dataset: Dataset) -> list[Leg]:
    """The first pair of the data that changes one currency to another, if there is one."""
    for bars in dataset.bars:
        pair = currencies(bars.symbol) if is_pair(bars.symbol) else None
        if pair in ((start, end), (end, start)):
            return [(bars, pair == (end, start))]
    return []


def _through_another(start: str, end: str, dataset: Dataset) -> list[Leg]:
    """The first two pairs that do."""
    for bars in dataset.bars:
        base, quote = currencies(bars.symbol) if is_pair(bars.symbol) else ("", "")
        if start in (base, quote):
            last = _direct(quote if base == start else base, end, dataset)
            if last:
                return [(bars, quote == start), *last]
    return []


def _converted(legs: Sequence[Leg], times: np.ndarray) -> np.ndarray:
    rates = np.ones(len(times))
    for bars, is_divided_by in legs:
        known = _known(bars, times)
        rates = rates / known if is_divided_by else rates * known
    return rates


def is_pair(symbol: str) -> bool:
    """Whether a symbol names two currencies."""
    return PAIR.fullmatch(symbol.upper()) is not None


def currencies(symbol: str) -> tuple[str, str]:
    """Base and quote currency of a pair.

    >>> currencies("EURUSD"), currencies("BTC/USD"), currencies("usd_jpy")
    (('EUR', 'USD'), ('BTC', 'USD'), ('USD', 'JPY'))
    """
    found = PAIR.fullmatch(symbol.upper())
    if found is None:
        raise DataError(f"{symbol!r} is not a currency pair: a symbol should be like EURUSD or EUR/USD")
    return found[1] or found[3], found[2] or found[4]


def _known(bars: Bars, times: np.ndarray) -> np.ndarray:
    """The close that was known at these times; NaN before the first bar, and long after the last one before them."""
    rows = np.searchsorted(bars.times, times, side="right") - 1
    last = np.maximum(rows, 0)
    known = (rows >= 0) & (times - bars.times[last] <= OLDEST_RATE)
    return np.where(known, bars["close"][last], np.nan)
