"""Files of signals as people have them: read right, or rejected with one sentence that says what to change."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rookery.data.dataset import Bars, Dataset
from rookery.errors import DataError
from rookery.training.backtest.signals import read_signals

START, HOUR, BARS = 1_704_067_200, 3600, 240  # 2024-01-01 00:00 UTC; ten days
UTC = ({"command": "import", "timezone": "UTC"},)


def dataset(*symbols: str, timeframe: int = HOUR, history: tuple = UTC) -> Dataset:
    closes = np.ones(BARS)
    columns = dict.fromkeys(("open", "high", "low", "close", "volume"), closes)
    times = START + timeframe * np.arange(1, BARS + 1)
    return Dataset(tuple(Bars(name, times, columns) for name in symbols or ("BTC",)), timeframe, history=history)


def targets(tmp_path: Path, text: str | bytes, data: Dataset | None = None, name: str = "s.csv", **options: object):
    data = data or dataset()
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    rule = read_signals(tmp_path / name, data, **options)  # type: ignore[arg-type]
    return {bars.symbol: rule(bars) for bars in data.bars}


def expected(*changes: tuple[int, float]) -> np.ndarray:
    """The target after each bar: 0, and from each hour on another one."""
    made = np.zeros(BARS)
    for hours, target in changes:
        made[hours - 1 :] = target  # the bar that is complete after so many hours
    return made


LONG_THEN_SHORT = expected((34, 1), (49, 0.5), (81, -1))  # known at 9:10 on the 2nd, 0:30 on the 3rd, 8:05 on the 4th
ROWS = (("2024-01-02 09:10", "1"), ("2024-01-03 00:30", "0.5"), ("2024-01-04 08:05", "-1"))
FORMS = {
    "plain": "time,signal\n" + "\n".join(",".join(row) for row in ROWS),
    "other words": "Date/Time;Target Position\n" + "\n".join(";".join(row) for row in ROWS),
    "zones": "timestamp,weight\n" + "\n".join(f"{time.replace(' ', 'T')}:00Z,{value}" for time, value in ROWS),
    "another zone": "time\tpos\n2024-01-02T10:10+01:00\t1\n2024-01-03T01:30+01:00\t0.5\n2024-01-04T09:05+01:00\t-1",
    "seconds": f"ts,side\n{START + 33 * HOUR + 600},1\n{START + 48 * HOUR + 1800},.5\n{START + 80 * HOUR + 300},-1",
    "milliseconds": f"unix,side\n{START + 33 * HOUR + 600}000,buy\n{START + 48 * HOUR + 1800}000,50 %\n"
    f"{START + 80 * HOUR + 300}000,SELL",
    "days of Excel": "time;signal\n45293.3819444444;1,0\n45294.0208333333;0,5\n45295.3368055556;-1,0",
    "twelve hours": "time,action\n01/02/2024 9:10 AM,Buy\n01/03/2024 12:30 AM,50%\n01/04/2024 08:05 AM,enter short\n"
    "01/31/2024 1:00 PM,hold",
    "day and clock": "Date,Time,Action\n2024-01-02,09:10,long\n2024-01-03,00:30,0.5\n2024-01-04,08:05,short",
    "holes": "time,signal\n2024-01-02 09:10,1\n2024-01-02 19:10,\n2024-01-03 00:30,0.5\n2024-01-03 12:00,hold\n"
    "2024-01-04 08:05,-1",
    "newest first": "time,signal\n" + "\n".join(",".join(row) for row in reversed(ROWS)),
    "above the header": "Report of my account\n\ntime,signal\n" + "\n".join(",".join(row) for row in ROWS),
    "a column per symbol": "time,btc\n" + "\n".join(",".join(row) for row in ROWS),
    "the symbol in other letters": "time,ticker,signal\n" + "\n".join(f"{time},btc,{value}" for time, value in ROWS),
    "a text beside it": "time,signal,type\n2024-01-02 09:10,my best idea,long\n2024-01-03 00:30,and now,0.5\n"
    "2024-01-04 08:05,MA cross,short",
}


@pytest.mark.parametrize("form", FORMS)
def test_signals_are_read_however_they_are_written(form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(targets(tmp_path, FORMS[form])["BTC"], LONG_THEN_SHORT)


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("s.csv", lambda text: text.encode("utf-16")),
        ("s.csv", lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()),
        ("s.csv.gz", lambda text: gzip.compress(text.encode())),
        ("s.tsv", lambda text: text.replace(",", "\t").encode()),
    ],
)
def test_files_may_be_saved_by_windows_or_packed(name: str, packed, tmp_path: Path) -> None:
    np.testing.assert_array_equal(targets(tmp_path, packed(FORMS["plain"]), name=name)["BTC"], LONG_THEN_SHORT)


def test_times_of_bars_are_known_when_the_bar_is_complete(tmp_path: Path) -> None:
    text = "time,signal\n2024-01-02 09:00,1\n"
    np.testing.assert_array_equal(targets(tmp_path, text)["BTC"], expected((34, 1)))
    np.testing.assert_array_equal(targets(tmp_path, text, time_is="end")["BTC"], expected((33, 1)))
    between = "time,signal\n2024-01-02 09:10,1\n"
    np.testing.assert_array_equal(targets(tmp_path, between, time_is="start")["BTC"], expected((35, 1)))


def test_days_on_bars_of_hours_could_be_known_a_day_early(tmp_path: Path) -> None:
    text = "date,signal\n2024-01-02,1\n2024-01-05,0\n"
    with pytest.raises(DataError, match=r"name days, and the bars are of 1h: .*--timeframe 1d"):
        targets(tmp_path, text)
    np.testing.assert_array_equal(targets(tmp_path, text, time_is="end")["BTC"], expected((24, 1), (96, 0)))
    daily = targets(tmp_path, text, dataset(timeframe=86_400))["BTC"]
    np.testing.assert_array_equal(daily[:6], [0, 1, 1, 1, 0, 0])


TRADES = expected((34, -1), (49, 1), (81, 0), (100, 0.5))
TRADE_FILES = {
    "entries and exits": "Entry Time,Exit Time,Side,Weight\n2024-01-05 03:10,,long,50%\n"
    "2024-01-02 09:10,2024-01-03 00:30,short,1\n2024-01-03 00:30,2024-01-04 08:05,long,1\n",
    "freqtrade": "pair,open_date,close_date,is_short,weight\nBTC,2024-01-02 09:10:00+00:00,2024-01-03 00:30:00+00:00,"
    "True,1\nBTC,2024-01-03 00:30:00+00:00,2024-01-04 08:05:00+00:00,False,1\n"
    "BTC,2024-01-05 03:10:00+00:00,,False,.5\n",
}


@pytest.mark.parametrize("form", TRADE_FILES)
def test_a_row_per_trade_is_two_signals(form: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(targets(tmp_path, TRADE_FILES[form])["BTC"], TRADES)


SIZED = {
    "words": "time,side,weight\n2024-01-02 09:10,buy,0.5\n2024-01-03 00:30,sell,0.25\n2024-01-04 08:05,exit,\n",
    "numbers": "time,weight,signal\n2024-01-02 09:10,50%,1\n2024-01-03 00:30,25%,-1\n2024-01-04 08:05,1,0\n",
    "signs": "time,side,weight\n2024-01-02 09:10,buy,0.5\n2024-01-03 00:30,sell,-0.25\n2024-01-04 08:05,exit,1\n",
    "trades": "entry_time,exit_time,side,weight\n2024-01-02 09:10,2024-01-03 00:30,long,0.5\n"
    "2024-01-03 00:30,2024-01-04 08:05,short,-0.25\n",
}


@pytest.mark.parametrize("form", SIZED)
def test_a_weight_is_the_size_of_a_direction(form: str, tmp_path: Path) -> None:
    """Alone, it would make a long position of what is to be sold."""
    np.testing.assert_array_equal(targets(tmp_path, SIZED[form])["BTC"], expected((34, 0.5), (49, -0.25), (81, 0)))


def test_tradingviews_list_of_trades_is_read(tmp_path: Path) -> None:
    text = (
        "Trade #,Type,Signal,Date/Time,Price USDT\n2,Exit long,Close entry(s),2024-01-04 08:05,1\n"
        "2,Entry long,Long,2024-01-03 00:30,1\n1,Exit short,Margin call,2024-01-03 00:30,1\n"
        "1,Entry short,Short,2024-01-02 09:10,1\n"
    )
    np.testing.assert_array_equal(targets(tmp_path, text)["BTC"], expected((34, -1), (49, 1), (81, 0)))


def test_symbols_are_found_by_their_letters(tmp_path: Path) -> None:
    two = dataset("BTC/USD", "ETH/USD")
    wide = targets(tmp_path, "time,btcusd,ETH-USD\n2024-01-02 09:10,1,0\n2024-01-03 00:30,0,0.5\n", two)
    np.testing.assert_array_equal(wide["BTC/USD"], expected((34, 1), (49, 0)))
    np.testing.assert_array_equal(wide["ETH/USD"], expected((49, 0.5)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,price\n1704190000,1\n", "give columns time and signal"),
        ("Zeit;Signal\n1704190000;1\n", "give columns time and signal"),
        ("1704190000,1\n1704290000,0\n", "line 1 holds values"),
        ("time,signal\n", "no signal below it"),
        ("time,signal\n1704190000,2\n", "line 2: the signal 2 is not from -1 to 1"),
        ("time,side,weight\n1704190000,buy,\n", "line 2: weight is missing"),
        ("time,side,weight\n1704190000,buy,-0.5\n", "line 2: side is buy, but weight is -0.5"),
        ("time,signal\n1704190000,perhaps\n", "line 2: 'perhaps' is not a signal"),
        ("time,symbol,signal\n1704190000,DOGE,1\n", "no bars of DOGE; they are of BTC"),
        ("time,signal\n1704190000,1\nlater,0\n1704290000,0\n", "line 3: 'later' is not a time"),
        ("time,signal\n1704190000,1\n1704190000,-1\n", "line 3: another signal has the same time"),
        ("time,signal\n1604190000,1\n", "no signal is within the bars"),
        ("time,signal\n02/01/2024 09:10,1\n", "--day-first"),
        ("time,signal\n1704190000,1\ntime,signal\n1704290000,0\n", "line 3: the header occurs again"),
        ("entry_time,exit_time\n1704190000,1704390000\n1704290000,1704490000\n", "line 3: this trade begins before"),
        ("entry_time,exit_time\n1704390000,1704190000\n", "line 2: exit_time is before entry_time"),
        ('{"time": 1704190000}', "is JSON"),
    ],
)
def test_files_that_say_nothing_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as error:
        targets(tmp_path, text)
    assert "\n" not in str(error.value) and "s.csv" in str(error.value)


def test_a_clock_that_nobody_names_is_asked_for(tmp_path: Path) -> None:
    data = dataset(history=())
    with pytest.raises(DataError, match="--timezone"):
        targets(tmp_path, FORMS["plain"], data)
    np.testing.assert_array_equal(targets(tmp_path, FORMS["plain"], data, timezone="UTC")["BTC"], LONG_THEN_SHORT)


def test_signals_after_the_bars_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    targets(tmp_path, FORMS["plain"] + "\n2024-06-01 00:00,0")
    assert "1 signals are after the last bar" in caplog.text and "3 of 4 signals are between" in caplog.text
