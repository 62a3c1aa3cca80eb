"""Bars from the files and tables that people have."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas
import polars
import pytest

from rookery.data.dataset import Dataset
from rookery.data.features import add_features
from rookery.data.opened_data import open_data
from rookery.data.storage import fingerprint, read, write
from rookery.data.synth import synthesise
from rookery.errors import DataError, OptionError

START = 1_704_067_200  # 2024-01-01 00:00 UTC, a Monday
PRICES = [(10.0, 12.0, 9.0, 11.0, 5.0), (11.0, 13.0, 10.0, 12.0, 6.0), (12.0, 14.0, 11.0, 13.0, 7.0)]


def csv(times: list[object], header: str = "time,open,high,low,close,volume", delimiter: str = ",") -> str:
    rows = [delimiter.join(map(str, (time, *PRICES[i % 3]))) for i, time in enumerate(times)]
    return "\n".join([header, *rows, ""])


def opened(tmp_path: Path, text: str, name: str = "EURUSD.csv", **options: object) -> Dataset:
    (tmp_path / name).write_text(text)
    return open_data(tmp_path / name, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [("time,open,high,low,close,volume", ","), ("Date;Open;High;Low;Close;Volume", ";"),
     ("timestamp\to\th\tl\tc\tv", "\t"), ("open_time|Open|HIGH|Low|close|Vol", "|"),
     (",Open,High,Low,Close,Volume", ","),
     ("<DATETIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<TICKVOL>", ","), ("unix,open,high,low,close,Volume BTC", ","),
     ("Gmt time,Open,High,Low,Close,Volume", ","), ("made by an exchange\ndate,open,high,low,close,volume", ","),
     ("\ufefftime,open,high,low,close,volume", ",")],
)  # fmt: skip
def test_columns_are_found_by_their_names(header: str, delimiter: str, tmp_path: Path) -> None:
    data = opened(tmp_path, csv([START, START + 300, START + 600], header, delimiter))
    assert data.symbols == ("EURUSD",) and data.timeframe == 300 and not data.one_price
    assert [data.bars[0][name][1] for name in ("open", "high", "low", "close", "volume")] == list(PRICES[1])
    assert data.bars[0].times.tolist() == [START + 300, START + 600, START + 900]  # when the bars are complete


@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000, 1_000_000_000])
def test_numbers_are_times_by_their_size(per_second: int, tmp_path: Path) -> None:
    data = opened(tmp_path, csv([START * per_second, (START + 60) * per_second]))
    assert data.bars[0].times.tolist() == [START + 60, START + 120]


@pytest.mark.parametrize(
    ("texts", "options"),
    [(["2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"], {}),
     (["2024-01-01 01:00:00+01:00", "2024-01-01 02:00:00+01:00"], {}),
     (["01.01.2024 05:00:00.000 GMT+0500", "01.01.2024 06:00:00.000 GMT+0500"], {"day_first": True}),
     (["2024-01-01 00:00 UTC", "2024-01-01 01:00 UTC"], {}), (["2024-01-01", "2024-01-01 01:00"], {"timezone": "UTC"}),
     (["2024.01.01 00:00", "2024.01.01 01:00"], {"timezone": "UTC"}),
     (["2023-12-31 19:00", "2023-12-31 20:00"], {"timezone": "America/New_York"}),
     (["12/31/2023 19:00", "12/31/2023 20:00"], {"timezone": "America/New_York"}),  # no month has the number 31
     (["31/12/23 19h", "31/12/23 20h"], {"timezone": "America/New_York", "date_format": "%d/%m/%y %Hh"}),
     (["202401010000", "202401010100"], {"timezone": "UTC"})],
)  # fmt: skip
def test_times_in_text_become_utc(texts: list[object], options: dict, tmp_path: Path) -> None:
    if "%Hh" in str(options):
        options = options | {"date_format": "%d/%m/%y %H:%M"}
        texts = [str(text).replace("h", ":00") for text in texts]
    assert opened(tmp_path, csv(texts), **options).bars[0].times.tolist() == [START + 3600, START + 7200]


@pytest.mark.parametrize("name", ["Gmt time", "timestamp_utc", "Date (UTC)", "DateTime_UTC"])
def test_the_name_of_a_column_may_state_the_zone(name: str, tmp_path: Path) -> None:
    notes: list[str] = []
    text = csv(["2024-01-01 00:00", "2024-01-01 01:00"], f"{name},open,high,low,close,volume")
    assert opened(tmp_path, text, notes=notes).bars[0].times[0] == START + 3600
    assert f"times are UTC, as the name of the column {name!r} says" in notes


def test_a_source_that_names_no_calendar_gets_the_usual_one(tmp_path: Path) -> None:
    text = csv([START, START + 300])
    assert opened(tmp_path, text, usual_calendar="forex").calendar == "forex"
    assert opened(tmp_path, text, usual_calendar="forex", calendar="24/7").calendar == "24/7"
    assert open_data(synthesise(1, 20), usual_calendar="forex").calendar == "24/7"  # it has one


def test_date_and_time_may_have_columns_of_their_own(tmp_path: Path) -> None:
    lines = ["<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>"]
    lines += [f"2024.01.01\t0{hour}:00:00\t1.10\t1.12000\t1.09\t1.10\t100\t0\t3" for hour in range(3)]
    data = opened(tmp_path, "\n".join(lines), "EURUSD_H1.csv", timezone="UTC")
    assert data.symbols == ("EURUSD",) and data.bars[0].times[0] == START + 3600
    assert data.bars[0]["volume"][0] == 0 or data.bars[0]["volume"][0] == 100
    assert data.features[-1] == "spread" and data.observed == ()
    assert data.bars[0]["spread"] == pytest.approx(0.5 * 3e-5 / 1.10)  # three points of five digits


def test_the_day_is_known_to_come_first_only_if_a_date_shows_it(tmp_path: Path) -> None:
    shown = opened(tmp_path, csv([f"{day:02}/01/2024" for day in range(11, 15)]), timezone="UTC")
    assert shown.bars[0].times[0] == START + 11 * 86_400
    ambiguous = csv(["01/02/2024", "02/02/2024", "03/02/2024"])
    with pytest.raises(DataError, match=r"EURUSD line 2: '01/02/2024' could have the day or the month first"):
        opened(tmp_path, ambiguous, timezone="UTC")
    assert opened(tmp_path, ambiguous, timezone="UTC", day_first=True).timeframe == 86_400


def test_the_time_may_be_the_end_of_a_bar(tmp_path: Path) -> None:
    data = opened(tmp_path, csv([START + 299.999, START + 599.999]), time_is="end")
    assert data.bars[0].times.tolist() == [START + 300, START + 600]


def test_a_clock_that_is_put_back_shows_an_hour_twice(tmp_path: Path) -> None:
    texts = [f"2024-11-03 0{hour}:{minute}:00" for hour in (0, 1, 1, 2) for minute in ("00", "30")]
    data = opened(tmp_path, csv(list(texts)), timezone="America/New_York")
    assert np.diff(data.bars[0].times).tolist() == [1800] * 7


def test_a_local_day_is_complete_when_the_next_one_begins(tmp_path: Path) -> None:
    """3 November 2024 had 25 hours in New York."""
    data = opened(tmp_path, csv(["2024-11-01", "2024-11-02", "2024-11-03", "2024-11-04"]), timezone="America/New_York")
    assert data.timeframe == 86_400
    ends = [str(np.datetime64(int(time), "s")) for time in data.bars[0].times]
    assert ends[1:] == ["2024-11-03T04:00:00", "2024-11-04T05:00:00", "2024-11-05T05:00:00"]


def test_newest_first_is_turned_round(tmp_path: Path) -> None:
    data = opened(tmp_path, csv([START + 600, START + 300, START]))
    assert data.bars[0].times[0] == START + 300 and data.bars[0]["close"].tolist() == [13.0, 12.0, 11.0]


def test_other_numbers_become_features_and_adjusted_closes_do_not(tmp_path: Path) -> None:
    lines = ["Date,Open,High,Low,Close,Adj Close,Volume,RSI 14,Comment"]
    lines += [f"2024-01-0{day},10,12,9,11,5.5,100,{'' if day == 1 else 50},hello" for day in (1, 2, 3)]
    data = opened(tmp_path, "\n".join(lines), timezone="UTC")
    assert data.features == ("rsi_14",) and np.isnan(data.bars[0]["rsi_14"][0])
    halved = opened(tmp_path, "\n".join(lines), timezone="UTC", adjusted=True)
    assert [halved.bars[0][name][0] for name in ("open", "high", "low", "close")] == [5.0, 6.0, 4.5, 5.5]


def test_blank_lines_are_counted_and_passed_over(tmp_path: Path) -> None:
    text = "\n\n" + csv([START, START + 300]).replace(f"\n{START + 300}", f"\n\n{START + 300}") + "\n\n"
    assert len(opened(tmp_path, text).bars[0]) == 2
    with pytest.raises(DataError, match="EURUSD line 6: open should be > 0"):
        opened(tmp_path, text.replace(f"{START + 300},11", f"{START + 300},-11"))


def test_one_price_a_row_is_enough(tmp_path: Path) -> None:
    data = opened(tmp_path, f"time,price\n{START},1.5\n{START + 60},1.6\n")
    assert data.one_price and data.bars[0]["high"].tolist() == [1.5, 1.6] and data.bars[0]["volume"].tolist() == [0, 0]


def test_a_decimal_comma_is_read_if_it_is_said(tmp_path: Path) -> None:
    text = f"time;close\n{START};1,5\n{START + 60};1,6\n"
    with pytest.raises(DataError, match=r"line 2: close is '1,5': give --decimal-comma if that is 1.5"):
        opened(tmp_path, text)
    assert opened(tmp_path, text, decimal_comma=True).bars[0]["close"].tolist() == [1.5, 1.6]


def test_symbols_are_in_a_column_or_in_the_names_of_files(tmp_path: Path) -> None:
    lines = ["date,tic,open,high,low,close,volume"]
    lines += [f"2024-01-0{day}T00:00Z,{name},10,12,9,11,5" for day in (1, 2) for name in ("AAPL", "MSFT")]
    assert opened(tmp_path, "\n".join(lines)).symbols == ("AAPL", "MSFT")
    (tmp_path / "folder").mkdir()
    for name in ("B", "A", "C"):
        (tmp_path / "folder" / f"{name}.csv").write_text(csv([START, START + 300]))
    assert open_data(tmp_path / "folder").symbols == ("A", "B", "C")
    (tmp_path / "folder" / "bad.csv").write_text("not read, because it is not asked for")
    assert open_data(str(tmp_path / "folder"), ["C", "A"]).symbols == ("C", "A")


def test_utf_16_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "A.csv").write_bytes(csv([START, START + 300]).replace("\n", "\r\n").encode("utf-16"))
    assert len(open_data(tmp_path / "A.csv").bars[0]) == 2


@pytest.mark.parametrize("library", ["polars", "pandas index", "pandas column", "pandas local"])
def test_parquet_files_and_tables_are_read(library: str, tmp_path: Path) -> None:
    columns = dict(zip(("Open", "High", "Low", "Close", "Volume"), zip(*PRICES, strict=True), strict=True))
    times = np.array([START, START + 300, START + 600]) * 1000
    frame = polars.DataFrame({"__index_level_0__": polars.Series(times).cast(polars.Datetime("ms", "UTC")), **columns})
    if library == "polars":
        frame.write_parquet(tmp_path / "BTC.parquet")
        data = open_data(tmp_path / "BTC.parquet")
        assert open_data({"BTC": frame}).hash == data.hash
    else:
        index = pandas.to_datetime(times, unit="ms", utc=library != "pandas local")
        table = pandas.DataFrame(columns, index=index)
        table = table.rename_axis("when").reset_index(names="Date") if library == "pandas column" else table
        data = open_data({"BTC": table}, timezone="UTC" if library == "pandas local" else None)
    assert data.symbols == ("BTC",) and data.bars[0].times[0] == START + 300 and data.bars[0]["low"].tolist()[0] == 9.0


def arrays(rows: int = 6) -> dict[str, np.ndarray]:
    prices = 10.0 + np.arange(rows * 2).reshape(rows, 2) / 10
    return {"price_array": prices, "tech_array": np.arange(rows * 6.0).reshape(rows, 6),
            "time_array": START + 300 * np.arange(rows)}  # fmt: skip


@pytest.mark.parametrize("how", ["dict", "npz", "folder", "npy"])
def test_arrays_are_read(how: str, tmp_path: Path) -> None:
    made = arrays()
    np.savez(tmp_path / "all.npz", **made)
    (tmp_path / "folder").mkdir()
    for name, array in made.items():
        np.save(tmp_path / "folder" / f"{name}.npy", array)
    source = {"dict": made, "npz": tmp_path / "all.npz", "folder": tmp_path / "folder",
              "npy": tmp_path / "folder" / "price_array.npy"}[how]  # fmt: skip
    data = open_data(source, symbols=["BTC", "ETH"])
    assert data.one_price and data.timeframe == 300 and data.features == ("tech_0", "tech_1", "tech_2")
    assert data["ETH"]["tech_1"].tolist() == made["tech_array"][:, 4].tolist()  # the first symbol's come first
    assert data["ETH"]["close"].tolist() == made["price_array"][:, 1].tolist()
    assert data["BTC"].times[0] == START + 300


def test_names_of_tech_columns_can_be_given() -> None:
    made = arrays() | {"tech_array": np.tile([10.0, 12.0, 9.0, 11.0, 5.0, 50.0], (6, 2))}
    data = open_data(made, ["A", "B"], tech_names=["open", "high", "low", "close", "volume", "rsi_14"])
    assert not data.one_price and data["B"]["high"][0] == 12.0 and data.features == ("rsi_14",)


def test_rookerys_own_files_and_datasets_are_opened(tmp_path: Path) -> None:
    made = synthesise(2, 50)
    write(made, tmp_path / "f.parquet")
    assert open_data(tmp_path / "f.parquet").hash == open_data(made).hash == made.hash
    assert open_data(made, ["ETH/USD"], calendar="forex", timeframe="1h").timeframe == 3600


def test_the_history_names_the_source_but_not_its_folder(tmp_path: Path) -> None:
    data = opened(tmp_path, csv(["2024-01-01", "2024-01-02"]), timezone="UTC", timeframe="1d")
    assert data.history == ({"command": "import", "source": "EURUSD.csv", "time_is": "start", "timezone": "UTC"},)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"timezone": "Berlin"}, "time zone 'Berlin'"), ({"time_is": "middle"}, "time_is"),
     ({"symbols": ["A", "A"]}, "symbols")],
)  # fmt: skip
def test_wrong_options_are_named(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        open_data("anything.csv", **options)


def test_the_three_lines_that_yfinance_writes_are_one_header(tmp_path: Path) -> None:
    lines = ["Price,Close,High,Low,Open,Volume", "Ticker,SPY,SPY,SPY,SPY,SPY", "Date,,,,,"]
    lines += [f"2024-01-0{day},11,12,9,10,5" for day in (2, 3, 4)]
    data = opened(tmp_path, "\n".join(lines), timezone="America/New_York")
    assert data.symbols == ("SPY",) and data.bars[0]["open"].tolist() == [10.0] * 3
    with pytest.raises(DataError, match="SPY line 6: Close is 'x'"):
        opened(tmp_path, "\n".join(lines).replace("04,11", "04,x"), timezone="UTC")


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(synthesise(1, 20), "~/f.parquet")
    assert len(open_data("~/f.parquet").bars[0]) == len(read("~/f.parquet").bars[0]) == 20
    assert fingerprint("~/f.parquet") == fingerprint(tmp_path / "f.parquet")


def test_what_was_decided_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        opened(tmp_path, csv([START, START + 420]))
    assert caplog.text.count("which is complete 7m later") == 1


def test_in_a_forked_child_polars_is_refused_instead_of_hanging(tmp_path: Path) -> None:
    """Its threads do not survive the fork."""
    write(synthesise(1, 20), tmp_path / "f.parquet")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            open_data(tmp_path / "f.parquet")
        except BaseException as error:
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert "polars was used before this process was forked" in answer.read()


SPREADS = {"price": 0.0002 / 1.1 / 2, "half-price": 0.0002 / 1.1, "fraction": 0.0001, "half-fraction": 0.0002}


@pytest.mark.parametrize("unit", SPREADS)
def test_a_spread_is_stored_as_half_of_it_and_a_part_of_the_price(unit: str) -> None:
    rows = {"time": [START, START + 60], "close": [1.1, 1.1], "spread": [0.0002, 0.0002]}
    data = open_data({"EURUSD": rows}, spread=unit)
    assert data["EURUSD"]["spread"] == pytest.approx(SPREADS[unit])
    assert data.history[-1]["spread"] == unit


def test_points_are_the_last_digits_of_prices_unless_told() -> None:
    rows = {"time": [START, START + 60], "close": [151.203, 151.2], "spread": [14, 14]}
    assert open_data({"USDJPY": rows}, spread="points")["USDJPY"]["spread"][0] == pytest.approx(0.007 / 151.203)
    assert open_data({"USDJPY": rows}, spread="points", digits=4)["USDJPY"]["spread"][0] == pytest.approx(
        0.0007 / 151.203
    )


def test_a_spread_without_a_unit_is_no_cost() -> None:
    rows = {"time": [START, START + 60], "close": [1.1, 1.1], "spread": [3.0, 3.0]}
    notes: list[str] = []
    assert "spread" not in open_data({"EURUSD": rows}, notes=notes)["EURUSD"].columns
    assert any("--spread" in note for note in notes)


@pytest.mark.parametrize(("values", "unit"), [(3.0, "fraction"), (3.0, "price"), (-0.001, "fraction")])
def test_an_absurd_spread_is_refused(values: float, unit: str) -> None:
    rows = {"time": [START, START + 60], "close": [1.1, 1.1], "spread": [values, values]}
    with pytest.raises(DataError, match="spread"):
        open_data({"EURUSD": rows}, spread=unit)


def test_an_empty_column_of_volume_is_no_volume(tmp_path: Path) -> None:
    """As the sites write it that have none for currencies. A single gap is an error."""
    lines = [f"{START + 60 * k},1.1,1.2,1.0,1.1," for k in range(3)]
    notes: list[str] = []
    data = opened(tmp_path, "\n".join(["time,open,high,low,close,Vol.", *lines]), notes=notes)
    assert (data.bars[0]["volume"] == 0).all() and any("there is no volume" in note for note in notes)
    with pytest.raises(DataError, match=r"line 2: Vol\. is missing"):
        opened(tmp_path, "\n".join(["time,open,high,low,close,Vol.", lines[0], f"{lines[1]}5"]))


def test_one_absurd_spread_is_refused_with_its_row() -> None:
    rows = {"time": [START, START + 60, START + 120], "close": [1.1] * 3, "spread": [0.0001, 9.9, 0.0001]}
    with pytest.raises(DataError, match=r"EURUSD row 1: the spread is 900 % of the price"):
        open_data({"EURUSD": rows}, spread="price")


def test_spreads_beside_tick_volumes_are_points_only_if_they_are_whole() -> None:
    """Somebody has converted these prices' spreads: as points they would cost next to nothing."""
    rows = {
        "time": [START, START + 60],
        "close": [1.10427, 1.10428],
        "tick_volume": [9, 8],
        "spread": [0.00012, 0.0002],
    }
    notes: list[str] = []
    assert "spread" not in open_data({"EURUSD": rows}, notes=notes)["EURUSD"].columns
    assert any("--spread" in note for note in notes)
    assert open_data({"EURUSD": rows | {"spread": [12, 20]}})["EURUSD"]["spread"][0] == pytest.approx(6e-5 / 1.10427)


def test_columns_of_vendors_are_kept_but_not_observed(tmp_path: Path) -> None:
    """Binance's `close_time` and `ignore` would otherwise take the place of the usual indicators."""
    header = "open_time,open,high,low,close,volume,close_time,quote_asset_volume,number_of_trades,ignore"
    lines = [header, *(f"{START + 60 * k}000,10,12,9,11,5,{START + 60 * k + 59}999,55,7,0" for k in range(3))]
    data = opened(tmp_path, "\n".join(lines), "BTCUSDT.csv")
    assert {"close_time", "ignore", "number_of_trades"} <= set(data.features) and data.observed == ()
    named = add_features(data, ["sma_2"])
    assert named.observed == ("sma_2",)
    write(named, tmp_path / "bars.parquet")
    assert read(tmp_path / "bars.parquet").observed == ("sma_2",)


def test_exact_duplicates_are_omitted_if_asked(tmp_path: Path) -> None:
    """An export that was appended to itself; rows of one time with other values stay an error."""
    text = csv([START, START + 60, START + 120])
    twice = text + "\n".join(text.splitlines()[2:]) + "\n"
    with pytest.raises(DataError, match=r"line 5.*--drop-duplicates"):
        opened(tmp_path, text + text.splitlines()[-1])
    notes: list[str] = []
    data = opened(tmp_path, twice, drop_duplicates=True, notes=notes)
    assert len(data["EURUSD"]) == 3 and any("2 exact duplicates" in note for note in notes)
    other = text + f"{START + 120},12,14,11,13.5,7\n"
    with pytest.raises(DataError, match="occurs twice"):
        opened(tmp_path, other, drop_duplicates=True)
