"""Bars from the exchanges that ccxt knows, by its `fetch_ohlcv`."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rookery.data.calendars import timeframe_name, timeframe_seconds
from rookery.data.feeds.feed import (
    BUSY,
    FAILING,
    Clock,
    Page,
    Series,
    TemporaryFailure,
    error_of_answer,
    keys_from_environment,
    rows_from,
    with_retries,
)
from rookery.errors import DataError, MissingExtra

USUAL_PAGE_BARS = 500  # of an exchange that does not say how many it sends
TIMEOUT_MILLISECONDS = 30_000
UNITS = "smhdw"  # of timeframes with a fixed length; ccxt's "M" is a month


class CcxtFeed:
    """One exchange. Most need no keys for bars; `NAME_API_KEY` and `NAME_SECRET` are used if one asks for them.

    Args:
        name: ccxt's name of the exchange, such as "kraken".
    """

    def __init__(self, name: str) -> None:
        before = name.upper()
        self.who = name
        self.keys = keys_from_environment(
            (f"{before}_API_KEY",), (f"{before}_SECRET", f"{before}_API_SECRET"), (f"{before}_PASSWORD",)
        )
        self.clock = Clock(name)
        self._exchange = open_exchange(name)
        self._authorised = False
        self._empty: tuple[Series, int] | None = None  # the end of the last page, if it had no bars
        if not self._exchange.has.get("fetchOHLCV"):
            raise DataError(f"{name} gives no bars (ccxt has no fetchOHLCV for it): choose another exchange")
        self._timeframes = {
            timeframe_seconds(key): key for key in self._exchange.timeframes or {} if key[-1:] in UNITS
        }  # fmt: skip

    def check(self, series: Sequence[Series]) -> None:
        markets = with_retries(lambda: self._asked(self._exchange.load_markets), self.who, self.keys)
        for one in series:
            self._timeframe(one)
            if one.symbol not in markets:
                near = difflib.get_close_matches(one.symbol.upper(), markets, 3, 0.5)
                also = f": did you mean {' or '.join(near)}?" if near else "; ccxt writes symbols as BTC/USDT"
                raise DataError(f"{self.who} has no symbol {one.symbol!r}{also}")
            if one.feed or one.adjustment != "raw":
                raise DataError(f"{self.who} has one feed without adjustments: omit --feed and --adjustment")

    def page(self, series: Series, start: int, end: int, more: Any) -> Page:
        most = self._page_bars(series.symbol)
        rows = self._rows(series, start, most, {})
        if not len(rows) and self._empty != (series, start):
            # ccxt makes no bars of an answer that it does not understand: the first empty page is requested twice.
            rows = self._rows(series, start, most, {})
        if len(rows) and rows[0, 0] > start:
            # Some exchanges send the newest bars if the period is not bounded; others the first ones there are.
            earlier = self._rows_until(series, start, most)
            rows = earlier if len(earlier) else rows
        rows = rows[rows[:, 0] < end]
        if not len(rows):
            self._empty = series, min(start + most * series.timeframe, end)
            return Page(rows, self._empty[1])
        return Page(rows, min(int(rows[-1, 0]) + series.timeframe, end))

    def complete_at(self, series: Series, starts: np.ndarray) -> np.ndarray:
        return starts + series.timeframe

    def close(self) -> None:
        self._exchange.session.close()

    def _rows_until(self, series: Series, start: int, most: int) -> np.ndarray:
        """The same with an end, which not every exchange understands."""
        try:
            return self._rows(series, start, most, {"until": (start + most * series.timeframe) * 1000 - 1})
        except DataError:
            return rows_from([])

    def _rows(self, series: Series, start: int, most: int, more: dict[str, Any]) -> np.ndarray:
        timeframe, since = self._timeframe(series), start * 1000
        bars = self._asked(lambda: self._exchange.fetch_ohlcv(series.symbol, timeframe, since, most, more))
        if not isinstance(bars, list):
            raise TemporaryFailure("the answer holds no bars")
        rows = rows_from([bar[:6] for bar in bars])
        rows[:, 0] //= 1000
        rows = rows[rows[:, 0] >= start]
        return rows[np.argsort(rows[:, 0], kind="stable")]

    def _timeframe(self, series: Series) -> str:
        if series.timeframe not in self._timeframes:
            known = ", ".join(self._timeframes[seconds] for seconds in sorted(self._timeframes))
            raise DataError(f"{self.who} has no bars of {timeframe_name(series.timeframe)}: it has {known}")
        return self._timeframes[series.timeframe]

    def _page_bars(self, symbol: str) -> int:
        said = self._exchange.feature_value(symbol, "fetchOHLCV", "limit", USUAL_PAGE_BARS)
        return said if isinstance(said, int) and said > 0 else USUAL_PAGE_BARS

    def _asked(self, request: Callable[[], Any]) -> Any:
        """What ccxt returns; its errors become a TemporaryFailure or a DataError."""
        from ccxt.base.errors import AuthenticationError, BaseError

        try:
            answer = request()
        except AuthenticationError as error:
            failure = self._failure(error)
            if self._authorise():
                return self._asked(request)
        except BaseError as error:
            failure = self._failure(error)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            # ccxt parses what is not valid JSON, or other JSON than it expects, as far as it gets.
            failure = TemporaryFailure(f"the answer cannot be understood ({type(error).__name__})")
        else:
            self.clock.learn((self._exchange.last_response_headers or {}).get("Date"))
            if self._exchange.last_json_response is not None or not self._exchange.last_http_response:
                return answer
            failure = TemporaryFailure("the answer is not valid JSON")
        raise failure

    def _authorise(self) -> bool:
        """Use the keys, if there are any: not before the exchange asks for them. With keys, ccxt also signs requests
        about the account, which a key for prices may not make."""
        wanted, self._authorised = not self._authorised and self.keys.key is not None, True
        if wanted:
            exchange = self._exchange
            exchange.apiKey, exchange.secret, exchange.password = self.keys.key, self.keys.secret, self.keys.password
        return wanted

    def _failure(self, error: Exception) -> Exception:
        """ccxt's classes do not tell a refusal from an outage: HTTP 403, 404 and 500 are one. The status does."""
        from ccxt.base import errors

        status, headers, body = _answer_behind(error)
        if isinstance(error, errors.BadSymbol):
            return DataError(f"{self.who} does not know the symbol ({self.keys.scrub(error)})")
        if isinstance(error, errors.AuthenticationError) and not status:  # ccxt itself misses them
            return DataError(
                f"{self.who} wants keys in {' and '.join(self.keys.names)} ({self.keys.scrub(error)[:300]})"
            )
        if isinstance(error, errors.AuthenticationError):
            return error_of_answer(self.who, status if status in (401, 403) else 401, headers, body, self.keys)
        if isinstance(error, errors.RateLimitExceeded | errors.DDoSProtection):
            return error_of_answer(self.who, status if status in BUSY else 429, headers, body, self.keys)
        if isinstance(error, errors.RequestTimeout) and not status:
            return TemporaryFailure("no answer in time")
        if status >= 400 and status not in FAILING:
            return error_of_answer(self.who, status, headers, body or str(error), self.keys)
        if isinstance(error, errors.OperationFailed):
            said = f"the server failed (HTTP {status})" if status >= 400 else "the connection failed or broke"
            return TemporaryFailure(said)
        return DataError(f"{self.who} refuses the request ({type(error).__name__}: {self.keys.scrub(error)[:300]})")


def open_exchange(name: str) -> Any:
    """The exchange of ccxt. Importing ccxt takes seconds."""
    try:
        import ccxt
    except ImportError as error:
        raise MissingExtra(
            f"bars of exchanges are downloaded with ccxt, which cannot be imported ({error}): "
            "pip install 'rookery[market]'"
        ) from None
    if name not in ccxt.exchanges:
        near = difflib.get_close_matches(name.lower(), ccxt.exchanges, 3, 0.6)
        also = f"did you mean {' or '.join(near)}?" if near else f"it knows {len(ccxt.exchanges)}, such as kraken"
        raise DataError(f"ccxt knows no exchange {name!r}: {also}")
    exchange = getattr(ccxt, name)({"enableRateLimit": True, "timeout": TIMEOUT_MILLISECONDS})
    exchange.enableLastHttpResponse = exchange.enableLastJsonResponse = exchange.enableLastResponseHeaders = True
    exchange.session.trust_env = True  # proxies that the environment names are used, as by Alpaca's client
    exchange.logger = logging.Logger("rookery.no_log", logging.CRITICAL)  # its own one logs headers, so keys too
    return exchange


def _answer_behind(error: BaseException) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of the answer that made ccxt raise; 0 without one."""
    found: BaseException | None = error
    while found is not None:
        answer = getattr(found, "response", None)
        if answer is not None and hasattr(answer, "status_code"):
            return answer.status_code, dict(answer.headers), answer.text
        found = found.__cause__ or found.__context__
    return 0, {}, ""
