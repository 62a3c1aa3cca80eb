"""What `problems` finds, and what `refuse_bad` refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rookery.data.checks import problems, refuse_bad
from rookery.data.dataset import Bars, Dataset
from rookery.data.synth import synthesise
from rookery.errors import DataError


def data(**changed: object) -> Dataset:
    """Two symbols; in the second, some values of some columns are changed: `close={7: -1.0}`."""
    made = synthesise(2, 200)
    bars = made.bars[1]
    columns = {name: bars[name].copy() for name in bars.columns}
    times = bars.times.copy()
    for name, values in changed.items():
        column = times if name == "times" else columns.setdefault(name, np.zeros(200))
        for row, value in values.items():  # type: ignore[attr-defined]
            column[row] = value
    return replace(made, bars=(made.bars[0], Bars("ETH/USD", times, columns)), place="coins.parquet")


@pytest.mark.parametrize(
    ("changed", "row", "what"),
    [({"close": {7: -1.0}}, 7, "close should be > 0, got -1"), ({"low": {3: 0.0}}, 3, "low should be > 0, got 0"),
     ({"open": {9: np.nan}}, 9, "open is not a finite number, got nan"), ({"volume": {9: np.inf}}, 9, "volume is not"),
     ({"volume": {2: -5.0}}, 2, "volume should be >= 0, got -5"), ({"high": {4: 1.0}}, 4, "high is below low"),
     ({"close": {5: 2500.0}}, 5, "close is not between low and high"),
     ({"open": {5: 2.0}}, 5, "open is not between low and high"),
     ({"rsi_14": {100: np.nan}}, 100, "rsi_14 is missing after its first bars"),
     ({"rsi_14": {100: np.inf}}, 100, "rsi_14 is infinite"),
     ({name: {50: 2e6} for name in ("open", "high", "low", "close")}, 50, "times or a fraction of the last close")],
)  # fmt: skip
def test_an_absurd_value_is_named_by_symbol_row_and_time(changed: dict, row: int, what: str) -> None:
    bad = data(**changed)
    found = problems(bad)[0]
    assert (found.symbol, found.row, found.severity) == ("ETH/USD", row, "error") and what in found.what
    assert found.time == bad.bars[1].times[row]
    with pytest.raises(DataError, match=rf"coins.parquet: ETH/USD row {row} \(2024-12-31 .* UTC\): "):
        refuse_bad(bad)


@pytest.mark.parametrize(
    ("row", "seconds", "what"),
    [(9, 0, "this time occurs twice"), (9, -300, "older than the one before"), (9, 60, "1m after the one before it"),
     (199, 400 * 365 * 86_400, "in the future")],
)  # fmt: skip
def test_wrong_times_are_named(row: int, seconds: int, what: str) -> None:
    times = data().bars[1].times
    value = times[row] + seconds if row == 199 else times[row - 1] + seconds
    assert any(what in problem.what and problem.severity == "error" for problem in problems(data(times={row: value})))


def test_times_of_1970_are_refused() -> None:
    made = data()
    bars = [Bars(b.symbol, np.arange(1, 201) * 300, b.columns) for b in made.bars]
    assert "check its time's unit" in problems(replace(made, bars=tuple(bars)))[0].what


@pytest.mark.parametrize("calendar", ["24/7", "forex", "XNYS"])
def test_nanoseconds_as_seconds_are_refused_in_every_calendar(calendar: str) -> None:
    made = data()
    bars = tuple(Bars(b.symbol, b.times * 10**9, b.columns) for b in made.bars)
    assert "in the future" in problems(replace(made, bars=bars, calendar=calendar))[0].what


def test_good_bars_have_no_problem_and_features_may_begin_late() -> None:
    made = data(rsi_14=dict.fromkeys(range(14), np.nan))
    assert problems(made) == []
    refuse_bad(made)


def without(made: Dataset, rows: slice) -> Dataset:
    keep = np.ones(200, bool)
    keep[rows] = False
    return replace(made, bars=(made.bars[0], made.bars[1].rows(keep)))


def test_a_gap_is_a_note_and_features_may_begin_again_after_it() -> None:
    made = without(data(rsi_14=dict.fromkeys([0, 1, 110, 111], np.nan)), slice(100, 110))
    [note] = problems(made)
    assert (note.severity, note.row) == ("note", 99) and "10 bars are missing after this one; 1 gaps" in note.what
    refuse_bad(made)


def test_a_symbol_twice_and_no_symbol_are_refused() -> None:
    made = data()
    assert "occurs twice" in problems(replace(made, bars=(made.bars[0], made.bars[0])))[0].what
    assert "no symbol" in problems(replace(made, bars=()))[0].what


def test_a_broken_layout_is_named() -> None:
    bars = data().bars[0]
    short = Bars("A", bars.times, {**bars.columns, "close": bars["close"][:-1]})
    lacking = Bars("B", bars.times, {"close": bars["close"]})
    empty = bars.rows(slice(0, 0))
    found = [problem.what for problem in problems(Dataset((short, lacking, empty), 300))]
    assert any("the column close has the shape (199,)" in what for what in found)
    assert any("no column open, high, low, volume" in what for what in found)
    assert any("there are no bars" in what for what in found)


def test_two_timeframes_in_one_symbol_are_refused() -> None:
    bars = data().bars[0]
    coarse = bars.rows(np.r_[0:100, 100:200:3])
    [found] = problems(Dataset((coarse,), 300))[:1]
    assert found.severity == "error" and "from here bars are 15m apart, but the timeframe is 5m" in found.what


def test_daily_bars_may_lie_an_hour_apart_from_a_day() -> None:
    """Where days begin at midnight of a place whose clocks are put forward."""
    bars = synthesise(1, 20, "1d").bars[0]
    times = bars.times.copy()
    times[10:] -= 3600
    assert problems(Dataset((Bars("A", times, bars.columns),), 86_400)) == []


def session(start: str, count: int, length: int) -> Dataset:
    bars = synthesise(1, count, length).bars[0]
    first = np.datetime64(start, "s").astype(np.int64)
    return Dataset((Bars("SPY", first + length * np.arange(1, count + 1), bars.columns),), length, "XNYS")


@pytest.mark.parametrize(
    ("start", "count", "length", "severities"),
    [("2024-07-02T14", 6, 3600, []), ("2024-07-06T14", 6, 3600, ["error"]), ("2024-07-04T14", 6, 3600, ["error"]),
     ("2024-07-02T10", 10, 3600, ["note"]), ("2024-07-01", 3, 86_400, []), ("2024-07-05T04", 2, 86_400, ["error"])],
)  # fmt: skip
def test_bars_without_a_session_are_errors_and_bars_outside_its_hours_notes(
    start: str, count: int, length: int, severities: list[str]
) -> None:
    assert [problem.severity for problem in problems(session(start, count, length))] == severities


def test_a_forex_bar_on_saturday_is_a_note() -> None:
    [note] = problems(replace(session("2024-07-06T10", 5, 3600), calendar="forex"))
    assert note.severity == "note" and "weekend" in note.what
