"""Synthetic bars: seeded prices of several correlated assets with regimes, fat tails and clustered volatility."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate

import numpy as np

from rookery.data.calendars import DAY, WEEK, timeframe_name, timeframe_seconds
from rookery.data.dataset import Bars, Dataset, frozen
from rookery.errors import DataError, OptionError

SYNTHETIC = "synthetic"  # the source in the history of made-up bars
YEAR = 365 * DAY
END = int(np.datetime64("2025-01-01", "s").astype(np.int64))  # the last bar; a fixed date: same seed, same bars
EARLIEST = int(np.datetime64("1900-01-01", "s").astype(np.int64))
FOREX_HOURS = (DAY + 22 * 3600, 3 * DAY + 22 * 3600)  # closed from Friday 22:00 to Sunday 22:00; 1970 began on Thursday
DIGITS = 8
TAIL_SHARE, TAIL_SCALE, MOST_SIGMA = 0.1, 2.5, 12.0
REGIMES = np.array([0.6, 1.0, 1.8])  # factors of the volatility
REGIME_BARS = 500.0  # mean length of a regime
VOLATILITY_HALF_LIFE = 100.0
MEAN_SWING = 1.138828  # exp(0.3**2 + 0.2**2), the root of the mean square of the swings
LARGEST_LOSS = -0.9  # in one bar


def synthesise(
    assets: int = 7,
    bars: int = 20_000,
    timeframe: str | int = "5m",
    seed: int = 1,
    signal: float = 0.0,
    signal_half_life: float = 100.0,
    kind: str = "crypto",
    symbols: Sequence[str] | None = None,
    correlation: float | None = None,
    volatility: float | None = None,
) -> Dataset:
    """Synthetic bars. Same arguments, same bars. No return can be foretold, except by the planted signal.

    >>> data = synthesise(assets=2, bars=100, signal=0.2)
    >>> data.symbols, len(data.bars[0]), data.features
    (('BTC/USD', 'ETH/USD'), 100, ('signal',))

    Args:
        assets: Number of symbols.
        bars: Number of bars per symbol.
        timeframe: Length of a bar, such as "5m".
        seed: Of the random numbers.
        signal: Correlation between the column `signal` at bar t and the return of bar t + 1, in units of its
            volatility: from 0 (no such column) to 1 (the next return is known).
        signal_half_life: Number of bars after which half of the signal is left.
        kind: "crypto" and "forex" have regimes, fat tails and clustered volatility; "walk" is a random walk with normal
            returns of constant volatility.
        symbols: Their names, instead of the kind's usual ones; then `assets` is their number.
        correlation: Between the returns of two assets, from 0 to below 1.
        volatility: Per year, such as 0.7.
    """
    facts, length = _market_kind(kind, correlation, volatility), timeframe_seconds(timeframe)
    names = _usual_symbols(facts, assets) if symbols is None else tuple(symbols)
    _check(names, bars, seed, signal, signal_half_life)
    times = _times(facts.calendar, bars, length)
    rng = np.random.default_rng([seed, 0x5EED])
    sigma = _volatility(rng, facts, bars, len(names), length)
    known = _autoregressive(rng, bars, len(names), signal_half_life)
    returns = _returns(rng, facts, sigma, known, signal)
    made = []
    for i, name in enumerate(names):
        columns = _columns(rng, facts.prices.get(name, 100.0), returns[:, i], sigma[:, i])
        if signal > 0:
            columns["signal"] = _rounded(known[:, i])
        made.append(Bars(name, times, {column: frozen(values) for column, values in columns.items()}))
    command = (
        f"synth --kind {kind} --assets {len(names)} --bars {bars} --timeframe {timeframe_name(length)} --seed {seed} "
        f"--signal {signal} --signal-half-life {signal_half_life} --correlation {facts.correlation} "
        f"--volatility {facts.volatility}"
    )
    history = ({"command": command, "source": SYNTHETIC},)
    return Dataset(tuple(made), length, facts.calendar, history=history, place="the synthetic data")


@cache
def shipped(kind: str) -> Dataset:
    """The bars that market worlds use without `data`: "crypto" or "forex", with the features of that world and a
    planted signal of moderate strength (the column `signal`), so that there is something to learn."""
    from rookery.data import features

    if kind == "crypto":
        data = synthesise(7, 20_000, "5m", seed=1, signal=0.3, signal_half_life=100.0, kind="crypto")
        return features.add_features(data, features.CRYPTO_FEATURES)
    if kind == "forex":
        data = synthesise(4, 12_000, "1h", seed=1, signal=0.2, signal_half_life=24.0, kind="forex")
        return features.add_features(data, features.FOREX_FEATURES)
    raise OptionError(f"there is no shipped data {kind!r}: give 'crypto' or 'forex'")


def _check(names: Sequence[str], bars: int, seed: int, signal: float, half_life: float) -> None:
    if not names:
        raise OptionError("assets should be an integer >= 1: there would be no symbol")
    if len(set(names)) < len(names):
        raise OptionError(f"symbols should have different names, got {', '.join(names)}")
    if bars < 2:
        raise OptionError(f"bars should be an integer >= 2, got {bars}")
    if seed < 0:
        raise OptionError(f"seed should be an integer >= 0, got {seed}")
    if not 0 <= signal <= 1:
        raise OptionError(f"signal should be >= 0 and <= 1, got {signal}")
    if not half_life > 0:
        raise OptionError(f"signal_half_life should be > 0 bars, got {half_life}")


def _times(calendar: str, bars: int, length: int) -> np.ndarray:
    """When the bars are complete: the last ones before END while the market is open."""
    last, wanted = END // length * length, bars
    while True:
        times = last - length * np.arange(wanted - 1, -1, -1, dtype=np.int64)
        if times[0] - length < EARLIEST:
            raise DataError(f"{bars} bars of {timeframe_name(length)} would begin before 1900: ask for fewer")
        if calendar == "forex" and length <= DAY:
            times = times[_forex_is_open(times - length, length)]
        if len(times) >= bars:
            return frozen(times[-bars:])
        wanted += (bars - len(times)) * 2 + 10


def _forex_is_open(starts: np.ndarray, length: int) -> np.ndarray:
    """Whether the market is open during all of a bar."""
    closes, opens = FOREX_HOURS
    weekend = ((starts % WEEK) < opens) & (starts % WEEK + length > closes)
    days = starts.astype("datetime64[s]").astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    day, month = (days - months.astype("datetime64[D]")).astype(np.int64) + 1, months.astype(np.int64) % 12 + 1
    return ~(weekend | ((month == 12) & (day == 25)) | ((month == 1) & (day == 1)))


def _volatility(rng: np.random.Generator, facts: Kind, bars: int, assets: int, length: int) -> np.ndarray:
    """Standard deviation of the return of each bar (bars, assets): regimes of the market, times slow swings."""
    open_share = 5 / 7 if facts.calendar == "forex" else 1.0
    usual = facts.volatility * np.sqrt(length / (YEAR * open_share))
    if not facts.clustered:
        return np.full((bars, assets), usual)
    lengths = rng.geometric(1 / REGIME_BARS, size=int(bars / REGIME_BARS) + 10)
    while lengths.sum() < bars:
        lengths = np.concatenate([lengths, rng.geometric(1 / REGIME_BARS, size=10)])
    regime = np.repeat(rng.integers(len(REGIMES), size=len(lengths)), lengths)[:bars]
    swings = _autoregressive(rng, bars, assets + 1, VOLATILITY_HALF_LIFE)
    usual /= np.sqrt(np.mean(REGIMES**2)) * MEAN_SWING
    return usual * REGIMES[regime][:, None] * _exponential(0.3 * swings[:, :1] + 0.2 * swings[:, 1:])


def _returns(rng: np.random.Generator, facts: Kind, sigma: np.ndarray, known: np.ndarray, signal: float) -> np.ndarray:
    """returns[t + 1] = sigma[t + 1] * (signal * known[t] + sqrt(1 - signal**2) * noise)."""
    bars, assets = sigma.shape
    noise = rng.standard_normal((bars, assets + 1))
    noise = np.sqrt(facts.correlation) * noise[:, :1] + np.sqrt(1 - facts.correlation) * noise[:, 1:]
    if facts.clustered:  # a mixture of a narrow and a wide normal distribution has fat tails
        wide = rng.random((bars, 1)) < TAIL_SHARE
        unit = np.sqrt(1 - TAIL_SHARE + TAIL_SHARE * TAIL_SCALE**2)
        noise = noise * np.where(wide, TAIL_SCALE, 1.0) / unit
    noise = np.clip(noise, -MOST_SIGMA, MOST_SIGMA)
    returns = np.sqrt(1 - signal**2) * noise
    returns[1:] += signal * known[:-1]
    returns[0] = 0.0
    return np.maximum(sigma * returns, LARGEST_LOSS)


def _columns(rng: np.random.Generator, price: float, returns: np.ndarray, sigma: np.ndarray) -> dict[str, np.ndarray]:
    """Open, high, low, close and volume. A bar opens at the last close, plus a tiny jump."""
    bars = len(returns)
    jump, up, down, activity = rng.standard_normal((4, bars))
    close = price * np.cumprod(1.0 + returns)
    opened = np.concatenate([[price], close[:-1]]) * (1.0 + 0.02 * np.minimum(sigma, 0.1) * jump)
    high = np.maximum(opened, close) * (1.0 + 0.5 * sigma * np.abs(up))
    low = np.minimum(opened, close) / (1.0 + 0.5 * sigma * np.abs(down))
    volume = 1e6 / price * (0.2 + np.abs(activity)) * sigma / np.median(sigma)
    columns = {"open": opened, "high": high, "low": low, "close": close, "volume": volume}
    return {name: _rounded(values) for name, values in columns.items()}


def _autoregressive(rng: np.random.Generator, bars: int, count: int, half_life: float) -> np.ndarray:
    """AR(1) series of unit variance (bars, count)."""
    keep = round(0.5 ** (1 / half_life), 12)
    shocks = rng.standard_normal((bars, count))
    shocks[1:] *= np.sqrt(1 - keep**2)
    series = [list(accumulate(column, lambda last, shock: keep * last + shock)) for column in shocks.T.tolist()]
    return np.array(series).T


def _exponential(x: np.ndarray) -> np.ndarray:
    """Close to exp(x), by multiplication only: that gives the same bits on every CPU, which `np.exp` does not."""
    value = 1.0 + np.maximum(x, -512.0) / 1024.0
    for _ in range(10):
        value = value * value
    return value


def _rounded(values: np.ndarray) -> np.ndarray:
    """Rounded to 8 significant digits."""
    size = np.abs(values)
    digits = DIGITS - 1 - np.floor(np.log10(np.where(size > 0, size, 1.0))).astype(np.int64)
    scale = 10.0 ** np.clip(digits, -300, 300)
    return np.round(values * scale) / scale


@dataclass(frozen=True)
class Kind:
    """What a synthetic market is like: its usual symbols and first prices, yearly volatility, correlation, calendar."""

    prices: dict[str, float]
    volatility: float
    correlation: float
    calendar: str
    clustered: bool = True
    other: str = "ASSET"


KINDS = {
    "crypto": Kind(
        {"BTC/USD": 30_000.0, "ETH/USD": 2_000.0, "SOL/USD": 40.0, "LTC/USD": 80.0, "LINK/USD": 9.0, "UNI/USD": 6.0,
         "AVAX/USD": 18.0},
        volatility=0.7, correlation=0.6, calendar="24/7", other="COIN",
    ),
    "forex": Kind(
        {"EURUSD": 1.1, "GBPUSD": 1.27, "USDJPY": 140.0, "USDCHF": 0.9, "AUDUSD": 0.67, "USDCAD": 1.35, "NZDUSD": 0.61},
        volatility=0.08, correlation=0.4, calendar="forex", other="PAIR",
    ),
    "walk": Kind({}, volatility=0.3, correlation=0.0, calendar="24/7", clustered=False, other="WALK"),
}  # fmt: skip


def _market_kind(kind: str, correlation: float | None, volatility: float | None) -> Kind:
    """A kind by its name, with another correlation or volatility if they are given."""
    if kind not in KINDS:
        raise OptionError(f"kind should be {', '.join(KINDS)}, got {kind!r}")
    facts = KINDS[kind]
    facts = replace(facts, correlation=facts.correlation if correlation is None else correlation)
    facts = replace(facts, volatility=facts.volatility if volatility is None else volatility)
    if not 0 <= facts.correlation < 1:
        raise OptionError(f"correlation should be >= 0 and < 1, got {facts.correlation}")
    if not 0 < facts.volatility <= 10:
        raise OptionError(f"volatility should be > 0 and <= 10 per year, got {facts.volatility}")
    return facts


def _usual_symbols(facts: Kind, assets: int) -> tuple[str, ...]:
    """The kind's usual symbols, then numbered ones."""
    usual = list(facts.prices)[: max(assets, 0)]
    return (*usual, *(f"{facts.other}{number}" for number in range(len(usual) + 1, assets + 1)))
