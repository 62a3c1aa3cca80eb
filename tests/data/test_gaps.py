"""Gaps, and closures that are none."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.data.calendars import segments
from rookery.errors import DataError


def hours(*spans: tuple[str, str]) -> np.ndarray:
    """Times at which hourly bars of these spans of bar starts are complete."""
    return np.concatenate([np.arange(np.datetime64(a, "h"), np.datetime64(b, "h")) for a, b in spans]).astype(
        "datetime64[s]"
    ).astype(np.int64) + 3600  # fmt: skip


def parts(times: np.ndarray, calendar: str) -> int:
    return len(segments(times, 3600, calendar))


def test_no_bars_have_no_segments() -> None:
    assert segments(np.empty(0, np.int64), 60).shape == (0, 2)


def test_every_missing_bar_is_a_gap_in_a_market_that_never_closes() -> None:
    times = hours(("2024-03-01T00", "2024-03-02T00"), ("2024-03-02T01", "2024-03-03T00"))
    assert segments(times, 3600).tolist() == [[0, 23], [24, 46]]


@pytest.mark.parametrize(
    ("last", "first", "count"),
    [("2024-03-01T22", "2024-03-03T22", 1), ("2024-07-05T21", "2024-07-07T21", 1),
     ("2024-03-01T20", "2024-03-03T23", 1), ("2024-03-01T19", "2024-03-03T22", 2),
     ("2024-03-01T22", "2024-03-04T00", 2), ("2024-03-05T10", "2024-03-05T11", 2),
     ("2024-12-24T22", "2024-12-26T00", 1), ("2023-12-29T22", "2024-01-02T00", 1),
     ("2024-12-24T12", "2024-12-26T00", 2)],
)  # fmt: skip
def test_forex_is_closed_at_weekends_christmas_and_new_year(last: str, first: str, count: int) -> None:
    later = str(np.datetime64(first, "h") + 30)
    earlier = str(np.datetime64(last, "h") - 30)
    assert parts(hours((earlier, last), (first, later)), "forex") == count


def test_times_of_another_unit_take_neither_memory_nor_time() -> None:
    assert len(segments(np.array([0, 10**18]), 3600, "forex")) == 2


def test_a_day_of_25_hours_is_no_gap() -> None:
    days = 86_400 * np.arange(1, 9)
    assert len(segments(np.where(days > 86_400 * 4, days + 3600, days), 86_400)) == 1


def test_an_exchange_is_closed_at_night_at_weekends_and_on_holidays() -> None:
    """3 July 2024 closed early, 4 July was a holiday."""
    days = (("2024-07-02T13", "2024-07-02T20"), ("2024-07-03T13", "2024-07-03T17"), ("2024-07-05T13", "2024-07-05T20"),
            ("2024-07-08T13", "2024-07-08T20"))  # fmt: skip
    assert parts(hours(*days), "XNYS") == 1
    assert parts(hours(*days[:2], days[3]), "XNYS") == 2  # the session of 5 July is missing


@pytest.mark.parametrize("midnight", [0, 4, 5])
def test_daily_bars_may_begin_at_midnight_of_the_exchange_or_of_utc(midnight: int) -> None:
    """4 July 2024 was a holiday; if a bar of 5 July is missing, there is a gap."""
    days = np.array([f"2024-07-0{day}" for day in (1, 2, 3, 5, 8, 9)], "datetime64[s]").astype(np.int64)
    times = days + 86_400 + 3600 * midnight
    assert len(segments(times, 86_400, "XNYS")) == 1
    assert segments(np.delete(times, 3), 86_400, "XNYS").tolist() == [[0, 2], [3, 4]]


@pytest.mark.slow
def test_a_break_at_noon_is_no_gap() -> None:
    assert parts(hours(("2024-07-02T00", "2024-07-02T02"), ("2024-07-02T03", "2024-07-02T06")), "XTKS") == 2
    noon = hours(("2024-07-02T01", "2024-07-02T04"), ("2024-07-02T05", "2024-07-02T08"))
    assert parts(noon, "XHKG") == 1


def test_an_unknown_calendar_is_refused() -> None:
    with pytest.raises(DataError, match="there is no calendar 'NYSE2'"):
        parts(hours(("2024-07-02T13", "2024-07-02T14"), ("2024-07-02T15", "2024-07-02T16")), "NYSE2")
