"""Broken files: each gives one sentence that names the file, the symbol and the row, and nothing is written."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from rookery.cli import main as command_line
from rookery.cli.main import build_parser, main
from rookery.data.opened_data import open_data
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.errors import DataError, OptionError, RookeryError

START = 1_704_067_200  # 2024-01-01 00:00 UTC
HEADER = "time,open,high,low,close,volume"
Make = Callable[[Path], Any]


@dataclass(frozen=True)
class Broken:
    """A kind of broken file: how it is made, what is said of it, and with which options it is read."""

    make: Make
    says: str
    file: str = "BTC.csv"
    options: dict[str, Any] = field(default_factory=dict)


def rows(count: int = 30, step: int = 300) -> list[list[str]]:
    return [[str(START + step * i), "10", "12", "9", "11", "5"] for i in range(count)]


def csv(edit: Callable[[list[list[str]]], Any] | None = None, header: str = HEADER, delimiter: str = ",") -> Make:
    def make(path: Path) -> None:
        table = rows()
        if edit is not None:
            edit(table)
        path.write_text("\n".join([header, *(delimiter.join(row) for row in table), ""]))

    return make


def cell(row: int, column: int, value: str) -> Make:
    """A CSV file with another value in one cell; the first row is line 2."""

    def edit(table: list[list[str]]) -> None:
        table[row][column] = value

    return csv(edit)


def times(*texts: str) -> Make:
    return csv(lambda table: table.__setitem__(slice(None), [[text, "10", "12", "9", "11", "5"] for text in texts]))


def content(data: bytes | str) -> Make:
    return lambda path: path.write_bytes(data.encode() if isinstance(data, str) else data)


def parquet(**columns: Any) -> Make:
    usual = {"time": [(START + 300 * i) * 1000 for i in range(5)], "close": [1.0] * 5}
    return lambda path: polars.DataFrame(usual | columns, strict=False).write_parquet(path)


def ours(path: Path, **facts: Any) -> None:
    """A file of rookery with other metadata."""
    write(synthesise(1, 20), path)
    known = json.loads(polars.read_parquet_metadata(path)["rookery"]) | facts
    polars.read_parquet(path).write_parquet(path, metadata={"rookery": json.dumps(known)})


def edited(path: Path) -> None:
    ours(path)
    text = polars.read_parquet_metadata(path)["rookery"]
    polars.read_parquet(path).with_columns(polars.col("low") / 2).write_parquet(path, metadata={"rookery": text})


def damaged(path: Path, end: int) -> None:
    ours(path)
    path.write_bytes(path.read_bytes()[:end])


def arrays(**changed: Any) -> Make:
    usual = {
        "price_array": np.full((10, 2), 5.0),
        "tech_array": np.ones((10, 6)),
        "time_array": START + 60 * np.arange(10),
    }
    made = {name: array for name, array in (usual | changed).items() if array is not None}
    return lambda path: np.savez(path, **made)


def folder(**files: str | Make) -> Make:
    def make(path: Path) -> None:
        path.mkdir()
        for name, made in files.items():
            file = path / name.replace("__", ".")
            made(file) if callable(made) else file.write_text(made)

    return make


def every(step: int) -> Make:
    return lambda path: path.write_text("\n".join([HEADER, *(",".join(row) for row in rows(step=step))]))


def two_steps(table: list[list[str]]) -> None:
    for i in range(15, 30):
        table[i][0] = str(START + 300 * 14 + 60 * (i - 14))


def jump(table: list[list[str]]) -> None:
    for i in range(20, 30):
        table[i][1:5] = ["10000", "12000", "9000", "11000"]


def swap(table: list[list[str]]) -> None:
    table[4], table[9] = table[9], table[4]


def no_permission(path: Path) -> None:
    csv()(path)
    path.chmod(0)


class Dangerous:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


PICKLE = pickle.dumps(Dangerous())
CONVERT = r"never reads one; .*convert it in your own environment: python -c"
KINDS = {
    "empty file": Broken(content(""), "the file is empty"),
    "only a header": Broken(content(HEADER + "\n"), "BTC: there is a header, but no bar"),
    "only spaces": Broken(content(" \n \n"), "line 1 has no comma"),
    "missing file": Broken(lambda path: None, "there is no such file"),
    "link to nowhere": Broken(
        lambda path: path.symlink_to("nowhere.csv"), "leads to nowhere.csv, which does not exist"
    ),
    "no permission": Broken(no_permission, "no permission to read it"),
    "pipe": Broken(lambda path: os.mkfifo(path), "not a regular file"),
    "empty folder": Broken(folder(), "the folder has no .csv", "data"),
    "folder of folders": Broken(
        lambda path: (path / "5m").mkdir(parents=True), "it has the folders 5m: name one", "data"
    ),
    "truncated parquet": Broken(lambda path: damaged(path, 700), "cut off or damaged", "BTC.parquet"),
    "truncated parquet footer": Broken(lambda path: damaged(path, -4), "cut off or damaged", "BTC.parquet"),
    "text called parquet": Broken(csv(), "parquet file: its first bytes are", "BTC.parquet"),
    "pickle": Broken(content(PICKLE), CONVERT + ".*read_pickle.*to_parquet", "BTC.pkl"),
    "pickle called csv": Broken(content(PICKLE), CONVERT, "BTC.csv"),
    "pickle called parquet": Broken(content(PICKLE), CONVERT, "BTC.parquet"),
    "pickle called npy": Broken(content(PICKLE), CONVERT + ".*np.save", "price_array.npy"),
    "old pickle": Broken(content(pickle.dumps([Dangerous()], 0)), CONVERT, "BTC.csv"),
    "joblib": Broken(content(b"x\x9c12345"), CONVERT + ".*joblib.load", "BTC.joblib"),
    "folder of pickles": Broken(folder(price_array__pkl=content(PICKLE)), "price_array.pkl.*" + CONVERT, "data"),
    "object array in npz": Broken(arrays(price_array=np.full((10, 2), None)), "Python objects.*python -c", "a.npz"),
    "object array in npy": Broken(
        folder(price_array__npy=lambda path: np.save(path, np.array([{}], object))), "Python objects.*python -c", "data"
    ),
    "gzip called csv": Broken(content(gzip.compress(HEADER.encode())), "no bar below it"),
    "gzip cut": Broken(content(gzip.compress(HEADER.encode() * 99)[:-9]), "cannot be unpacked"),
    "zip": Broken(content(b"PK\x03\x04" + b"0" * 50), "cannot be unpacked"),
    "HDF5": Broken(content(b"\x89HDF\r\n\x1a\n" + b"0" * 50), "HDF5 file", "BTC.h5"),
    "web page": Broken(content("<!DOCTYPE html><html>no access</html>"), "web page"),
    "JSON": Broken(content('{"close": [1, 2]}'), "is JSON", "BTC.json"),
    "unknown kind": Broken(content("abc"), "neither .csv, .parquet, .npy nor .npz", "BTC.xyz"),
    "bytes called csv": Broken(content(b"time,close\x00\x00\x01\xff"), "is not a text"),
    "latin-1": Broken(content(f"{HEADER},größe\n".encode("latin-1")), "line 1 is not valid UTF-8"),
    "UTF-16 cut off": Broken(content(HEADER.encode("utf-16") + b"\x00"), "is not valid UTF-8|no bar below"),
    "no header": Broken(content("1704067200,10,12,9,11,5\n1704067500,10,12,9,11,5\n"), "line 1 holds values"),
    "header twice": Broken(csv(lambda t: t.insert(7, HEADER.split(","))), "BTC line 9: the header occurs again"),
    "wrong delimiter": Broken(csv(header=HEADER.replace(",", ":"), delimiter=":"), "no comma, semicolon or tab"),
    "delimiter that changes": Broken(csv(lambda t: t.__setitem__(5, [";".join(t[5])])), "BTC line 7: "),
    "line too long": Broken(csv(lambda t: t[6].append("7")), "line 8 has 7 columns, but the header has 6"),
    "line too short": Broken(csv(lambda t: t[6].pop()), "BTC line 8: volume is missing"),
    "decimal comma": Broken(
        csv(lambda t: t[3].__setitem__(4, "11,5"), HEADER.replace(",", ";"), ";"),
        "BTC line 5: close is '11,5': give --dec",
    ),
    "decimal comma in a comma file": Broken(cell(3, 4, "11,5"), "line 5 has 7 columns.*comma used for decimals"),
    "quote that never ends": Broken(cell(3, 4, '"11'), "BTC|CSV"),
    "no time column": Broken(csv(header="a,open,high,low,close,volume"), "BTC: no column of times: name it time"),
    "only times of ends": Broken(csv(header=HEADER.replace("time", "close_time")), "give --time-is end"),
    "no close column": Broken(csv(header="time,open,high,low,b,volume"), "no column of prices: name it close"),
    "no high column": Broken(
        csv(header="time,open,b,low,close,volume"), "BTC: there is no column high, but there is open"
    ),
    "two close columns": Broken(csv(header="time,open,Close,low,close,volume"), "two columns are called"),
    "text in prices": Broken(cell(4, 2, "n/a"), "BTC line 6: high is 'n/a', which is not a finite number"),
    "currency in prices": Broken(cell(4, 2, "12 USD"), r"BTC line 6: high is '12 USD'"),
    "missing price": Broken(cell(4, 3, ""), "BTC line 6: low is missing"),
    "NaN": Broken(cell(4, 4, "nan"), "BTC line 6: close is 'nan'"),
    "infinity": Broken(cell(4, 4, "inf"), "BTC line 6: close is 'inf'"),
    "negative price": Broken(cell(4, 3, "-9"), "BTC line 6: low should be > 0, got -9"),
    "zero price": Broken(cell(4, 1, "0"), "BTC line 6: open should be > 0, got 0"),
    "high below low": Broken(cell(4, 2, "8"), "BTC line 6: high is below low"),
    "close above high": Broken(cell(4, 4, "12.5"), "BTC line 6: close is not between low and high, got 12.5"),
    "open below low": Broken(cell(4, 1, "8.5"), "BTC line 6: open is not between low and high"),
    "negative volume": Broken(cell(4, 5, "-5"), "BTC line 6: volume should be >= 0, got -5"),
    "jump": Broken(csv(jump), "BTC line 22: a price is .* times or a fraction of the last close"),
    "time twice": Broken(cell(4, 0, str(START + 900)), "BTC line 6: this time occurs twice"),
    "unsorted": Broken(csv(swap), "BTC line 7: this bar is older|BTC line 7: .*before"),
    "missing time": Broken(cell(4, 0, ""), "BTC line 6: time is missing"),
    "times without a zone": Broken(
        times("2024-01-01 00:00", "2024-01-01 01:00"), "BTC: the times name no time zone: give"
    ),
    "days without a zone": Broken(times("2024-01-01", "2024-01-02"), "the times name no time zone"),
    "some times with a zone": Broken(
        times("2024-01-01 00:00Z", "2024-01-01 01:00"), "line 3: some times name a time zone"
    ),
    "mixed time zones": Broken(
        times("2024-01-01 00:00+00:00", "2024-01-01 01:00-05:00"), r"BTC line 3: .*mixed time zones, \+00:00 and -05:00"
    ),
    "day or month first": Broken(
        times("01/02/2024", "02/02/2024"), "BTC line 2: '01/02/2024' could have the day", options={"timezone": "UTC"}
    ),
    "day and month first": Broken(
        times("13/02/2024", "02/14/2024"), "BTC line 3: some dates have the day first", options={"timezone": "UTC"}
    ),
    "date that is none": Broken(
        times("2024-02-30T00:00Z", "2024-03-01T00:00Z"), "'2024-02-30T00:00Z' is not a valid date"
    ),
    "text in times": Broken(cell(4, 0, "yesterday"), "BTC line"),
    "year of two digits": Broken(times("01/02/24", "02/02/24"), "BTC line 2: '01/02/24' is not a readable time"),
    "other date format": Broken(
        times("2024-01-01", "2024-01-02"),
        "BTC line 2: '2024-01-01' is not of the date format",
        options={"timezone": "UTC", "date_format": "%d.%m.%Y"},
    ),
    "clock that was skipped": Broken(
        times("2024-03-10 01:30", "2024-03-10 02:30"),
        "BTC line 3: 2024-03-10 02:30:00 does not exist",
        options={"timezone": "America/New_York"},
    ),
    "unknown zone": Broken(csv(), "there is no time zone 'Mars/Base'", options={"timezone": "Mars/Base"}),
    "units that change": Broken(cell(4, 0, f"{START}000"), "BTC line 6: the time .* has another unit"),
    "row numbers as times": Broken(
        csv(lambda t: [r.__setitem__(0, str(i)) for i, r in enumerate(t)]), "0 is not a time"
    ),
    "epoch 0": Broken(
        times("1970-01-01 00:05Z", "1970-01-01 00:10Z", "1970-01-01 00:15Z"), "BTC line 2: this bar is of 1970-01-01"
    ),
    "far future": Broken(times("2190-01-01 00:05Z", "2190-01-01 00:10Z"), "BTC line 2: this bar is in the future"),
    "mixed timeframes": Broken(csv(two_steps), "BTC line 2: from here bars are 5m apart, but the timeframe is 1m"),
    "one bar": Broken(times("2024-01-01 00:05Z"), "BTC: one bar does not show its timeframe: give --timeframe"),
    "symbols of two timeframes": Broken(
        content("time,symbol,close\n" + "".join(f"{START + 60 * i},A,1\n{START + 300 * i},B,1\n" for i in range(9))),
        "B has bars of 5m, but A has bars of 1m",
    ),
    "files of two timeframes": Broken(
        folder(A__csv=every(60), B__csv=every(300)), "B.csv: its timeframe is 5m, but", "data"
    ),
    "symbol twice": Broken(folder(A__csv=every(60), A_1m__csv=every(60)), "the symbol 'A' is also in", "data"),
    "missing symbol name": Broken(
        content(f"time,symbol,close\n{START},A,1\n{START + 60},,1\n"), "line 3: symbol is missing"
    ),
    "symbol that is not there": Broken(csv(), "there is no symbol 'DOGE'; it has BTC", options={"symbols": ["DOGE"]}),
    "weekend bars": Broken(
        times("2024-07-05T14:30Z", "2024-07-05T15:30Z", "2024-07-06T14:30Z", "2024-07-06T15:30Z"),
        "BTC line 4: XNYS has no session on the day of this bar",
        options={"calendar": "XNYS"},
    ),
    "unknown calendar": Broken(
        times("2024-07-05T14:30Z", "2024-07-05T15:30Z"), "there is no calendar 'NYSE2'", options={"calendar": "NYSE2"}
    ),
    "unknown timeframe": Broken(csv(), "'5x' is not a timeframe", options={"timeframe": "5x"}),
    "finer timeframe": Broken(csv(), "bars of 5m cannot become bars of 1m", options={"timeframe": "1m"}),
    "too few bars to resample": Broken(csv(), "BTC: there are too few bars for one of 1d", options={"timeframe": "1d"}),
    "no adjusted close": Broken(csv(), "no column of adjusted closes", options={"adjusted": True}),
    "text in a parquet's prices": Broken(
        parquet(close=["1", "2", "x", "4", "5"]), "BTC row 2: close is 'x'", "BTC.parquet"
    ),
    "null in a parquet's prices": Broken(
        parquet(close=[1.0, None, 1, 1, 1]), "BTC row 1: close is missing", "BTC.parquet"
    ),
    "lists in a parquet's times": Broken(parquet(time=[[1]] * 5), "holds no times", "BTC.parquet"),
    "parquet without bars": Broken(parquet(time=[], close=[]), "BTC: there are no bars", "BTC.parquet"),
    "edited file of rookery": Broken(edited, "their hash differs: the file was changed", "BTC.parquet"),
    "newer format": Broken(lambda path: ours(path, format=2), "format 2 is newer than 1", "BTC.parquet"),
    "metadata that is none": Broken(lambda path: ours(path, history=7), "its metadata cannot be read", "BTC.parquet"),
    "unknown timeframe in a file": Broken(
        lambda path: ours(path, timeframe="5x"), "'5x' is not a timeframe", "BTC.parquet"
    ),
    "prices of three dimensions": Broken(
        arrays(price_array=np.ones((10, 2, 2))), r"price_array should have the shape", "a.npz"
    ),
    "texts in price_array": Broken(
        arrays(price_array=np.full((10, 2), "x")), "price_array should hold numbers", "a.npz"
    ),
    "NaN in price_array": Broken(
        arrays(price_array=np.where(np.arange(20).reshape(10, 2) == 7, np.nan, 5.0)),
        "ASSET2 row 3: open is not a fin",
        "a.npz",
    ),
    "short time_array": Broken(
        arrays(time_array=START + 60 * np.arange(9)), r"time_array should have the shape \(10,\)", "a.npz"
    ),
    "no time_array": Broken(arrays(time_array=None), "there is no time_array", "a.npz"),
    "no price_array": Broken(arrays(price_array=None), "there is no price_array", "a.npz"),
    "time_array that goes back": Broken(
        arrays(time_array=START + 60 * np.array([0, 1, 2, 3, 5, 4, 6, 7, 8, 9])),
        "ASSET1 row 5: this bar is older",
        "a.npz",
    ),
    "short tech_array": Broken(arrays(tech_array=np.ones((9, 6))), "tech_array should have the shape", "a.npz"),
    "odd tech_array": Broken(
        arrays(tech_array=np.ones((10, 5))), r"tech_array should have the shape.*got \(10, 5\)", "a.npz"
    ),
    "too many symbols": Broken(
        arrays(), "price_array has 2 columns, but there are 3 symbols", "a.npz", {"symbols": ["A", "B", "C"]}
    ),
    "wrong names of tech columns": Broken(
        arrays(), "3 columns per symbol, but 2 names", "a.npz", {"tech_names": ["a", "b"]}
    ),
    "array of another name": Broken(lambda path: np.save(path, np.ones(3)), "name the files price_array.npy", "x.npy"),
    "truncated npy": Broken(
        folder(price_array__npy=content(b"\x93NUMPY\x01\x00v\x00{'descr'")), "price_array cannot be read", "data"
    ),
    "truncated npz": Broken(content(b"PK\x03\x04" + b"1" * 60), "cannot be read", "a.npz"),
}


@pytest.fixture(params=KINDS.values(), ids=list(KINDS))
def broken(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", _as_a_user(os.access))
    monkeypatch.setattr(command_line, "build_parser", _parser)  # building it takes longest
    request.param.make(Path(request.param.file))
    return request.param


@cache
def _parser(command: str = "") -> argparse.ArgumentParser:
    return build_parser()


def _as_a_user(access: Callable[..., bool]) -> Callable[..., bool]:
    """Tests may be run by the superuser, who can read everything."""
    return lambda path, mode: access(path, mode) and (Path(path).is_dir() or bool(Path(path).stat().st_mode & 0o400))


def test_there_are_at_least_forty_kinds() -> None:
    assert len(KINDS) >= 40


def test_a_broken_file_is_refused_in_one_sentence(broken: Broken, capsys: pytest.CaptureFixture) -> None:
    """By `open_data` and by the command line, with the same words."""
    with pytest.raises((DataError, OptionError)) as caught:
        open_data(broken.file, **broken.options)
    message = str(caught.value)
    assert re.search(broken.says, message), message
    if not re.search(r"no time zone|is not a timeframe", message):
        assert Path(broken.file).name in message or "calendar 'NYSE2'" in message
    assert "\n" not in message and len(message) < 600
    before = sorted(os.listdir())
    assert main(["data", "import", broken.file, "--out", "out.parquet", *flags(broken.options)]) == 2
    assert capsys.readouterr().err == f"rookery: {message}\n"
    assert sorted(os.listdir()) == before  # nothing was written, and no pickle was executed


def flags(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(value) if isinstance(value, list) else value)
    return words


def test_an_old_file_stays_when_an_import_fails(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    write(synthesise(1, 20), out)
    before = out.read_bytes()
    cell(4, 4, "nan")(tmp_path / "BTC.csv")
    assert main(["data", "import", str(tmp_path / "BTC.csv"), "--out", str(out)]) == 2
    assert out.read_bytes() == before and sorted(os.listdir(tmp_path)) == ["BTC.csv", "out.parquet"]


@pytest.mark.parametrize(
    ("data", "says"),
    [({}, "the dict is empty"), (7, "not int"), (None, "not NoneType"), ([], "not list"),
     ({"BTC": {"time": [START], "open": [1.0]}}, "the tables: BTC: no column of prices"),
     ({"BTC": {"time": [START, START + 60], "close": [[1.0], [2.0]]}}, "'close' has the shape"),
     ({"BTC": {"time": [START, START + 60], "close": [1.0]}}, "the table cannot be read"),
     ({"BTC": {"time": [START, START + 60], "close": [1.0, "x"]}}, "BTC row 1: close is 'x'"),
     ({"BTC": io.StringIO("x")}, "the tables: BTC: no column of times")],
)  # fmt: skip
def test_objects_that_are_no_bars_are_refused(data: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        open_data(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BTC.csv", "BTC.parquet", "ours.parquet", "a.npz"])
def test_bytes_changed_at_random_are_read_or_refused_in_one_line(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    """Also where polars panics, which prints the stack of its own code."""
    path, rng = tmp_path / name, np.random.default_rng(1)
    {"BTC.csv": csv(), "BTC.parquet": parquet(), "ours.parquet": ours, "a.npz": arrays()}[name](path)
    whole = path.read_bytes()
    messages = []
    for _ in range(400):
        content = np.frombuffer(whole, np.uint8).copy()
        content[rng.integers(len(content), size=rng.choice([1, 3, 20]))] = rng.integers(256)
        path.write_bytes(content[: len(content) - rng.choice([0, 0, 0, rng.integers(len(content))])].tobytes())
        try:
            open_data(path, timezone="UTC", notes=[])
        except RookeryError as error:
            messages.append(str(error))
    assert messages and all("\n" not in message and len(message) < 700 for message in messages)
    assert capfd.readouterr().err == ""
