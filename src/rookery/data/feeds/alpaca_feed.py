"""Bars from Alpaca: crypto pairs, and stocks of the exchanges of the United States.

The transport is alpaca-py's. Its own clients read all pages in one call, which cannot be continued, wait a fixed time
after HTTP 429 whatever the server asks for, and have no time limit for an answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rookery.console import printable, say
from rookery.data.calendars import timeframe_name
from rookery.data.feeds.feed import (
    Clock,
    Keys,
    Page,
    Series,
    TemporaryFailure,
    error_of_answer,
    keys_from_environment,
    rows_from,
)
from rookery.errors import DataError, MissingExtra

ADDRESS = "https://data.alpaca.markets"
KEY_NAMES = ("APCA_API_KEY_ID", "ALPACA_API_KEY"), ("APCA_API_SECRET_KEY", "ALPACA_SECRET_KEY")
CRYPTO_FEEDS = ("us",)
STOCK_FEEDS = ("sip", "iex", "delayed_sip", "otc", "boats", "overnight")
ADJUSTMENTS = ("raw", "split", "dividend", "all")
PAGE_BARS = 10_000  # the most that Alpaca sends at once
TIMEOUT_SECONDS = 10, 60  # to connect, and between two parts of an answer
SIP_DELAY_SECONDS = 16 * 60  # a free account may ask for prices of all exchanges that are older than 15 minutes
DAY = 86_400
# Bars of a day or a week run from midnight to midnight: of Chicago for crypto, of New York for stocks. Their ends are
# given in standard time all year, which is never too early and keeps them a day apart when clocks change.
DAY_ENDS = {True: 6 * 3600, False: 5 * 3600}  # seconds after midnight UTC


class _TooRecent(DataError):
    """The account may not see prices that are so new."""


def is_pair(symbol: str) -> bool:
    """Whether it is a pair of a crypto currency, such as BTC/USD, and no stock."""
    return "/" in symbol


class AlpacaFeed:
    """Alpaca's historical bars. `$APCA_API_DATA_URL` names another address, such as a proxy's."""

    who = "alpaca"

    def __init__(self) -> None:
        self.keys = keys_from_environment(*KEY_NAMES)
        self.clock = Clock(self.who)
        self._address = _checked_address(os.environ.get("APCA_API_DATA_URL") or ADDRESS)
        self._client = _client(self._address, self.keys, self.clock)
        self._delay = 0

    def check(self, series: Sequence[Series]) -> None:
        for one in series:
            alpaca_timeframe(one.timeframe)
            feeds = CRYPTO_FEEDS if is_pair(one.symbol) else STOCK_FEEDS
            if one.feed not in feeds:
                raise DataError(f"alpaca has no feed {one.feed!r} for {one.symbol}: there is {' or '.join(feeds)}")
            if one.adjustment not in ADJUSTMENTS or (is_pair(one.symbol) and one.adjustment != "raw"):
                known = "raw" if is_pair(one.symbol) else " or ".join(ADJUSTMENTS)
                raise DataError(f"the adjustment of {one.symbol} cannot be {one.adjustment!r}: there is {known}")
        if any(not is_pair(one.symbol) for one in series) and not self.keys.key:
            raise DataError(
                f"alpaca gives bars of stocks to accounts only: set {' and '.join(self.keys.names)} in the environment"
            )

    def page(self, series: Series, start: int, end: int, more: tuple[int, int, str] | None) -> Page:
        """A token is valid for the request that it belongs to: so `more` holds the period of that request as well."""
        last = min(end, int(self.clock.now()) - self._delay) if self._delay else end
        first, last, token = more or (start, last, "")
        if first >= last:
            return Page(rows_from([]), end)
        try:
            answer = self._answer(series, _parameters(series, first, last, token))
        except _TooRecent:
            if self._delay or last <= self.clock.now() - SIP_DELAY_SECONDS:
                raise
            say("alpaca gives this account prices of all exchanges after 15 minutes: newer bars are omitted")
            self._delay = SIP_DELAY_SECONDS
            return self.page(series, start, end, None)
        rows, following = _parsed(answer, series.symbol)
        rows = rows[(rows[:, 0] >= first) & (rows[:, 0] < last)]  # a bar of another time would end the download early
        if following is None:
            return Page(rows, end)
        return Page(rows, int(rows[:, 0].max()) + 1 if len(rows) else start, (first, last, following))

    def complete_at(self, series: Series, starts: np.ndarray) -> np.ndarray:
        ends = starts + series.timeframe
        if series.timeframe % DAY:
            return ends
        after_midnight = DAY_ENDS[is_pair(series.symbol)]
        return -(-(ends - after_midnight) // DAY) * DAY + after_midnight

    def close(self) -> None:
        self._client._session.close()

    def _answer(self, series: Series, wanted: dict[str, Any]) -> Any:
        """The JSON that Alpaca sends."""
        import requests
        from alpaca.common.exceptions import APIError

        path, version = (f"/crypto/{series.feed}/bars", "v1beta3") if is_pair(series.symbol) else ("/stocks/bars", "v2")
        try:
            return self._client.get(path, wanted, api_version=version)
        except APIError as error:
            status, text = error.status_code or 0, str(error)
            headers = {} if error.response is None else dict(error.response.headers)
        except requests.RequestException as error:
            raise _broken(error, self._address) from None
        failure = error_of_answer(self.who, status, headers, text, self.keys)
        raise _TooRecent(str(failure)) if status == 403 and re.search("recent|15 minutes", text) else failure


def alpaca_timeframe(seconds: int) -> str:
    """Alpaca's name of a timeframe.

    >>> alpaca_timeframe(300), alpaca_timeframe(3600), alpaca_timeframe(86_400)
    ('5Min', '1Hour', '1Day')
    """
    for unit, name, most in ((7 * DAY, "Week", 1), (DAY, "Day", 1), (3600, "Hour", 23), (60, "Min", 59)):
        if seconds % unit == 0 and seconds // unit <= most:
            return f"{seconds // unit}{name}"
    raise DataError(
        f"alpaca has no bars of {timeframe_name(seconds)}: it has 1m to 59m, 1h to 23h, 1d and 1w; longer ones can be "
        "made from these with `rookery data import --timeframe`"
    )


def _client(address: str, keys: Keys, clock: Clock) -> Any:
    try:
        from alpaca.common.rest import RESTClient
    except ImportError as error:
        raise MissingExtra(
            f"bars of Alpaca are downloaded with alpaca-py, which cannot be imported ({error}): "
            "pip install 'rookery[market]'"
        ) from None

    class Client(RESTClient):
        """Without its own attempts, with a time limit; keys are optional, as for its crypto client."""

        def _one_request(self, method: str, url: str, opts: dict, retry: int) -> dict:
            return super()._one_request(method, url, opts | {"timeout": TIMEOUT_SECONDS}, retry)

        @staticmethod
        def _validate_credentials(**given: str | None) -> tuple[str | None, ...]:
            return given["api_key"], given["secret_key"], given["oauth_token"]

    client = Client(address, keys.key, keys.secret, raw_data=True, retry_exception_codes=[-1])
    client._session.hooks["response"].append(lambda answer, **_: clock.learn(answer.headers.get("Date")))
    return client


def _parameters(series: Series, start: int, end: int, token: str) -> dict[str, Any]:
    """The parameters of a request. Alpaca's end belongs to the period."""
    wanted = {"symbols": series.symbol, "timeframe": alpaca_timeframe(series.timeframe), "limit": PAGE_BARS,
              "start": _rfc3339(start), "end": _rfc3339(end - 1), "sort": "asc"}  # fmt: skip
    if not is_pair(series.symbol):
        wanted |= {"feed": series.feed, "adjustment": series.adjustment}
    return wanted | ({"page_token": token} if token else {})


def _parsed(answer: Any, symbol: str) -> tuple[np.ndarray, str | None]:
    """The rows of an answer, and the token of the next page. An answer without bars has null instead."""
    if not isinstance(answer, dict) or not isinstance(answer.get("bars") or {}, dict):
        raise TemporaryFailure("the answer holds no bars")
    found = (answer.get("bars") or {}).get(symbol) or []
    try:
        rows = rows_from([[_seconds(bar["t"]), *(bar[name] for name in "ohlcv")] for bar in found])
    except (KeyError, TypeError, ValueError):
        raise TemporaryFailure("the answer holds bars without a time or a price") from None
    return rows, answer.get("next_page_token") or None


def _seconds(text: str) -> float:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.timestamp()


def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _broken(error: Exception, address: str) -> Exception:
    """What a failed connection or an unreadable answer means. requests' own text may quote a header with a key."""
    import requests

    host = urlsplit(address).hostname
    if isinstance(error, requests.exceptions.SSLError):
        return DataError(f"alpaca: the certificate of {host} cannot be verified")
    if isinstance(error, requests.exceptions.InvalidHeader):
        return DataError("alpaca: a key holds letters that cannot be sent: copy it again")
    if isinstance(error, requests.Timeout):
        return TemporaryFailure(f"{host} did not answer in time")
    if isinstance(error, requests.exceptions.InvalidJSONError):
        return TemporaryFailure("the answer is not valid JSON")
    if isinstance(error, requests.exceptions.ChunkedEncodingError | requests.ConnectionError):
        return TemporaryFailure(f"the connection to {host} failed or broke")
    return DataError(f"alpaca: {host} cannot be reached ({type(error).__name__})")


def _checked_address(address: str) -> str:
    """Keys go to an encrypted address only, or to this machine."""
    parts = urlsplit(address)
    local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or parts.scheme not in ("https", "http") or (parts.scheme == "http" and not local):
        raise DataError(f"APCA_API_DATA_URL should be an https:// address, got {printable(address)!r}")
    return address.rstrip("/")
