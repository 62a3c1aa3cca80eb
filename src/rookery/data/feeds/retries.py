"""What an answer with an error means, and a bounded number of further attempts where waiting may help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import sleep, time
from typing import Any, TypeVar

from rookery.console import printable, say
from rookery.data.feeds.keys import Keys
from rookery.errors import DataError

ATTEMPTS = 5  # of one request, before it is given up
FIRST_WAIT_SECONDS = 1.0  # doubled after each failed attempt
LONGEST_WAIT_SECONDS = 120.0  # a server that asks for more is not waited for
SHOWN_LETTERS = 200  # of what a server says
BUSY = (418, 429)
FAILING = (408, 500, 502, 503, 504, 520, 521, 522, 523, 524)
CONTINUES = "the same command continues where it stopped"
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
    said = server_text(body)
    shown = f"HTTP {status}" + (f": {said}" if said else "")
    if status in BUSY:
        return TemporaryFailure(f"too many requests ({shown})", wait_asked_for(headers, time()))
    if status in FAILING:
        return TemporaryFailure(f"the server failed ({shown})", wait_asked_for(headers, time()))
    if status == 401:
        state = "does not accept the keys in" if keys.key else "wants keys in"
        return DataError(f"{who} {state} {' and '.join(keys.names)} ({shown})")
    if status == 403:
        return DataError(f"{who} does not permit this request to the account of {' and '.join(keys.names)} ({shown})")
    if status == 451:
        return DataError(f"{who} does not answer to the country of this machine ({shown})")
    return DataError(f"{who} refuses the request ({shown})")


def wait_asked_for(headers: Mapping[str, str], now: float) -> float | None:
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


def server_text(body: str) -> str:
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
