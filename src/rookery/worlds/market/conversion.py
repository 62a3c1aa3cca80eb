"""From the quote currency of a pair to the currency of the account."""

from __future__ import annotations

import re

import numpy as np

from rookery.data.dataset import Bars, Dataset
from rookery.errors import DataError


def rates_to_account(bars: Bars, dataset: Dataset, account: str) -> tuple[np.ndarray, np.ndarray]:
    """What one unit of the quote currency is worth in the account's, at the open and at the close of each bar.

    USDJPY earns yen: in an account in dollars they are worth 1 / USDJPY. EURGBP earns pounds: the data must have GBPUSD
    or USDGBP, whose last known close is used.
    """
    base, quote = currencies(bars.symbol)
    if quote == account:
        return np.ones(len(bars)), np.ones(len(bars))
    if base == account:
        return 1.0 / bars["open"], 1.0 / bars["close"]
    for other in dataset.bars:
        pair = currencies(other.symbol)
        if pair in ((quote, account), (account, quote)):
            at_open = _known(other, bars.times - dataset.timeframe)
            at_close = _known(other, bars.times)
            return (at_open, at_close) if pair == (quote, account) else (1.0 / at_open, 1.0 / at_close)
    raise DataError(
        f"{bars.symbol} earns {quote}, and the account is in {account}: add {quote}{account} or {account}{quote} to "
        f"the data, or choose another currency for the account, as in account={quote!r}"
    )


def currencies(symbol: str) -> tuple[str, str]:
    """Base and quote currency of a pair.

    >>> currencies("EURUSD"), currencies("BTC/USD"), currencies("usd_jpy")
    (('EUR', 'USD'), ('BTC', 'USD'), ('USD', 'JPY'))
    """
    found = re.fullmatch(r"([A-Z]{3})([A-Z]{3})|(\w{1,40}?)[/_-](\w{1,40})", symbol.upper())
    if found is None:
        raise DataError(f"{symbol!r} is no currency pair: a symbol should be like EURUSD or EUR/USD")
    return found[1] or found[3], found[2] or found[4]


def _known(bars: Bars, times: np.ndarray) -> np.ndarray:
    """The close that was known at these times; NaN before the first bar."""
    rows = np.searchsorted(bars.times, times, side="right") - 1
    return np.where(rows >= 0, bars["close"][np.maximum(rows, 0)], np.nan)
