"""What a feed of bars is: pages of bars, keys, and a bounded number of attempts where waiting may help.

A page has one row per bar, with the time at which the bar STARTS. Keys are read from the environment, and removed from
every text that is shown or stored.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import sleep
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import numpy as np

from rookery.console import printable, say
from rookery.errors import DataError

HIDDEN = "***"
SHORTEST = 4  # a shorter value is not a key, and removing it would damage other words
COLUMNS = 6  # start, open, high, low, close, volume
SETTLE_SECONDS = 2  # after the end of a bar, before it counts as complete: trades arrive late
CLOCK_SECONDS = 60  # difference between two clocks that is worth a line
ATTEMPTS = 5  # of one request, before it is given up
FIRST_WAIT_SECONDS = 1.0  # doubled after each failed attempt
LONGEST_WAIT_SECONDS = 120.0  # a server that asks for more is not waited for
SHOWN_LETTERS = 200  # of what a server says
BUSY = (418, 429)
FAILING = (408, 500, 502, 503, 504, 520, 521, 522, 523, 524)
CONTINUES = "the same command continues where it stopped"


@dataclass(frozen=True)
class Keys:
    """What authorises requests. Its repr shows no key.

    Attributes:
        names: The environment variables that hold a key, its secret and, on some exchanges, a password.
    """

    names: tuple[str, ...] = ()
    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def scrub(self, text: object) -> str:
        """The text without the keys, as they are or as a part of an address."""
        shown = str(text)
        for value in filter(None, (self.key, self.secret, self.password)):
            for form in (value, quote(value, safe=""), quote(value), repr(value)[1:-1]):
                shown = shown.replace(form, HIDDEN) if len(form) >= SHORTEST else shown
        return shown


def keys_from_environment(key: Sequence[str], secret: Sequence[str], password: Sequence[str] = ()) -> Keys:
    """The keys, each from the first of its variables that is set. A key without its secret is rejected."""
    found = [_first(names) for names in (key, secret, password)]
    if (found[0] is None) != (found[1] is None):
        present, missing = (key, secret) if found[1] is None else (secret, key)
        raise DataError(f"{' or '.join(present)} is set, but not {' or '.join(missing)}: set both, or none")
    return Keys((key[0], secret[0]), *found)


def _first(names: Sequence[str]) -> str | None:
    """Spaces and line ends around it are dropped: `$(cat FILE)` and editors leave them there."""
    values = (os.environ.get(name, "").strip() for name in names)
    return next((value for value in values if value), None)


@dataclass(frozen=True)
class Series:
    """What is downloaded: one symbol of one source.

    Attributes:
        source: "alpaca", or "ccxt:" and the name of an exchange.
        timeframe: Length of a bar in seconds.
        feed: Which of the source's feeds; "" if there is one.
        adjustment: How prices are changed for splits and dividends; "raw": not at all.
    """

    source: str
    symbol: str
    timeframe: int
    feed: str = ""
    adjustment: str = "raw"


@dataclass(frozen=True)
class Page:
    """A part of the bars from a start time on.

    Attributes:
        rows: (n, 6) float64: start in seconds, open, high, low, close, volume.
        upto: No later page has a bar that starts before this time.
        more: What `Feed.page` gets for the next page, if it begins at `upto`; None: nothing.
    """

    rows: np.ndarray
    upto: int
    more: Any = None


class Feed(Protocol):
    """A source of bars."""

    who: str  # its name in messages
    keys: Keys
    clock: Clock

    def check(self, series: Sequence[Series]) -> None:
        """Refuse symbols and timeframes that it does not have, as far as it can tell."""

    def page(self, series: Series, start: int, end: int, more: Any) -> Page:
        """Bars that start at `start` or later, and before `end`. A TemporaryFailure if a later request may succeed."""

    def complete_at(self, series: Series, starts: np.ndarray) -> np.ndarray:
        """When bars with these starts are complete."""

    def close(self) -> None:
        """Close its connections."""


class Clock:
    """The time now, by this machine or by the feed's server, whichever is earlier: a clock that is fast would take a
    bar for complete that still changes."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._ahead: float | None = None  # of this machine's clock; a slow answer makes it seem larger, never smaller

    def now(self) -> float:
        return time.time() - max(self._ahead or 0.0, 0.0)

    @property
    def ahead(self) -> float | None:
        """Seconds by which this machine's clock is before the server's; None until the server has told its time."""
        return self._ahead

    def learn(self, date: str | None) -> None:
        """From the header `Date` of an answer that has just arrived."""
        try:
            ahead = time.time() - parsedate_to_datetime(date or "").timestamp()
        except (ValueError, TypeError, OverflowError):
            return
        if self._ahead is None and ahead > CLOCK_SECONDS:
            say(f"the clock of {self._who} is {ahead:.0f} s behind this machine's: bars are complete by that clock")
        self._ahead = ahead if self._ahead is None else min(ahead, self._ahead)


def rows_from(bars: Iterable[Sequence[Any]]) -> np.ndarray:
    """Rows from an answer; a missing price or volume is NaN. A bar without a time means that the answer is damaged."""
    try:
        rows = np.array([[np.nan if value is None else float(value) for value in bar] for bar in bars], np.float64)
    except (TypeError, ValueError):
        raise TemporaryFailure("the answer holds something else than bars") from None
    rows = rows.reshape(-1, COLUMNS) if rows.size == 0 else rows
    if rows.ndim != 2 or rows.shape[1] != COLUMNS or not np.all(np.isfinite(rows[:, 0])):
        raise TemporaryFailure("the answer holds bars without a time, or with other columns")
    return rows


def merged(pages: Sequence[np.ndarray]) -> np.ndarray:
    """All rows, oldest first. A bar that came twice counts once: as it came last."""
    rows = np.concatenate([np.empty((0, COLUMNS)), *pages])
    _, last = np.unique(rows[::-1, 0], return_index=True)
    return rows[len(rows) - 1 - last]


Answer = TypeVar("Answer")


class TemporaryFailure(Exception):
    """A request may succeed later. `wait`: the seconds that the server asks for."""

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


class FeedDown(DataError):
    """A feed did not answer, after all attempts: other requests would fail as well."""


def with_retries(request: Callable[[], Answer], who: str, keys: Keys) -> Answer:
    """What the request returns. A TemporaryFailure is followed by another attempt, after a while.

    Errors are raised outside of `except`: an exception that they were raised from might hold a key.
    """
    for attempt in range(1, ATTEMPTS + 1):
        failure: TemporaryFailure | DataError
        try:
            return request()
        except (TemporaryFailure, DataError) as error:
            failure = error
        what = printable(keys.scrub(failure))
        if isinstance(failure, DataError):
            raise DataError(what)
        wait = failure.wait if failure.wait is not None else FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
        if wait > LONGEST_WAIT_SECONDS:
            raise FeedDown(f"{who}: {what}; it asks to wait for {wait:.0f} s: {CONTINUES} then")
        if attempt < ATTEMPTS:
            say(f"{who}: {what}; attempt {attempt + 1} of {ATTEMPTS} in {wait:.0f} s")
            sleep(wait)
    raise FeedDown(f"{who}: {what}, {ATTEMPTS} times; {CONTINUES}")


def error_of_answer(who: str, status: int, headers: Mapping[str, str], body: str, keys: Keys) -> Exception:
    """The error that stands for an answer with an HTTP status of 400 or more."""
    said = _server_text(body)
    shown = f"HTTP {status}" + (f": {said}" if said else "")
    if status in BUSY:
        return TemporaryFailure(f"too many requests ({shown})", _wait_asked_for(headers, time.time()))
    if status in FAILING:
        return TemporaryFailure(f"the server failed ({shown})", _wait_asked_for(headers, time.time()))
    if status == 401:
        state = "does not accept the keys in" if keys.key else "wants keys in"
        return DataError(f"{who} {state} {' and '.join(keys.names)} ({shown})")
    if status == 403:
        return DataError(f"{who} does not permit this request to the account of {' and '.join(keys.names)} ({shown})")
    if status == 451:
        return DataError(f"{who} does not answer to the country of this machine ({shown})")
    return DataError(f"{who} refuses the request ({shown})")


def _wait_asked_for(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a server asks to wait, by Retry-After (seconds or a date) or X-RateLimit-Reset (a time)."""
    named = {name.lower(): str(value).strip() for name, value in headers.items()}
    after, reset = named.get("retry-after", ""), named.get("x-ratelimit-reset", "")
    if re.fullmatch(r"\d{1,9}(\.\d+)?", after):
        return float(after)
    if after:
        try:
            return max(parsedate_to_datetime(after).timestamp() - now, 0.0)
        except (ValueError, TypeError, OverflowError):
            return None
    if re.fullmatch(r"\d{1,12}(\.\d+)?", reset):
        seconds = float(reset)
        return max(seconds - now, 0.0) + 1.0 if seconds > 1e9 else seconds  # some give seconds from now
    return None


def _server_text(body: str) -> str:
    """What a server says about an error: the message in its JSON, or the beginning of its text."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        named = (parsed.get(name) for name in ("message", "msg", "error", "detail"))
        body = next((str(value) for value in named if value), "" if "message" in parsed else body)
    plain = " ".join(re.sub(r"<[^<>]*>", " ", body).split())
    return printable(plain if len(plain) <= SHOWN_LETTERS else plain[:SHOWN_LETTERS] + " ...")
