"""Files of bars that were imported from files which have grown."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.data.feeds.update import update
from rookery.data.opened_data import import_entry
from rookery.data.storage import read, write
from rookery.errors import DataError

HOUR = 3600


def grow(path: Path, first: int, last: int) -> None:
    """Rows of a CSV file, with dates that may be day or month first."""
    with path.open("a") as file:
        if first == 0:
            file.write("Date,Open,High,Low,Close,Volume\n")
        for hour in range(first, last):
            price = 1.1 + hour % 17 / 1000
            file.write(
                f"0{1 + hour // 24}/02/2024 {hour % 24:02}:00,{price},{price + 0.01},{price - 0.01},{price},{hour}\n"
            )


@pytest.fixture
def csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "raw" / "EURUSD_1h.csv"
    path.parent.mkdir()
    grow(path, 0, 20)
    return path


def run(*words: str) -> None:
    assert main(["data", *words]) == 0


def test_a_file_that_has_grown_is_read_again_with_the_same_options(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "data/f.parquet", "--timezone", "Europe/Berlin", "--day-first")
    run("features", "data/f.parquet", "sma_3,hour_sin", "--out", "data/f.parquet")
    before = read("data/f.parquet")["EURUSD"]
    grow(csv, 20, 24)
    capsys.readouterr()
    run("update", "data/f.parquet")
    assert "EURUSD: 4 bars added, up to 2024-02-01T23:00:00Z" in capsys.readouterr().out
    after = read("data/f.parquet")["EURUSD"]
    assert len(after) == 24 and tuple(after.columns) == tuple(before.columns)
    assert all(after[name][:20].tobytes() == before[name].tobytes() for name in before.columns)
    assert np.isfinite(after["sma_3"][20:]).all()
    run("update", "data/f.parquet")
    assert "nothing new since 2024-02-01T23:00:00Z" in capsys.readouterr().out


def test_resampled_bars_are_resampled_again(csv: Path) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "UTC", "--day-first", "--timeframe", "4h")
    assert len(read("f.parquet")["EURUSD"]) == 5
    grow(csv, 20, 23)  # not a whole bar of four hours
    assert update("f.parquet")[0].added == 0
    grow(csv, 23, 24)
    assert update("f.parquet")[0].added == 1


def test_month_first_is_remembered(csv: Path) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "UTC", "--month-first")
    grow(csv, 20, 22)
    assert update("f.parquet")[0].last == 1_704_153_600 + 22 * HOUR  # 2024-01-02


def test_both_can_be_moved_together(csv: Path, tmp_path: Path) -> None:
    run("import", "raw", "--out", "data/f.parquet", "--timezone", "UTC", "--day-first")
    grow(csv, 20, 22)
    shutil.move(tmp_path / "raw", tmp_path / "new" / "raw")
    shutil.move(tmp_path / "data", tmp_path / "new" / "data")
    assert update(tmp_path / "new" / "data" / "f.parquet")[0].added == 2


def test_a_changed_row_is_mentioned_and_taken_if_asked(csv: Path, caplog: pytest.LogCaptureFixture) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "UTC", "--day-first")
    csv.write_text(csv.read_text().replace(",7\n", ",777\n"))
    assert update("f.parquet")[0].revised == 1
    assert "1 stored bars of EURUSD have other values" in caplog.text
    assert read("f.parquet")["EURUSD"]["volume"][7] == 7
    update("f.parquet", revise=True)
    assert read("f.parquet")["EURUSD"]["volume"][7] == 777


def test_a_source_that_is_gone_or_damaged_is_named_and_nothing_changes(csv: Path) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "UTC", "--day-first")
    before = Path("f.parquet").read_bytes()
    grow(csv, 20, 22)
    csv.write_text(csv.read_text() + "03/02/2024 00:00,abc,1,1,1,1\n")
    with pytest.raises(DataError, match=r"f\.parquet: what it was imported from cannot be read again: .*1h\.csv"):
        update("f.parquet")
    csv.unlink()
    with pytest.raises(DataError, match=r"EURUSD_1h\.csv: there is no such file or folder"):
        update("f.parquet")
    assert Path("f.parquet").read_bytes() == before


def test_histories_with_nonsense_are_refused(csv: Path) -> None:
    run("import", "raw/EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "UTC", "--day-first")
    data = read("f.parquet")
    for options in ({"timeframe": "2h"}, {"timezone": "Mars"}, {"time_is": ["x"]}, {"symbols": ["GBPUSD"]}):
        entry = {"command": "import", "source": "files", "paths": ["raw/EURUSD_1h.csv"], "options": options}
        write(type(data)(data.bars, data.timeframe, data.calendar, history=(entry,)), "f.parquet")
        with pytest.raises(DataError, match=r"f\.parquet: "):
            update("f.parquet")


def test_a_file_that_replaces_its_source_has_none() -> None:
    assert import_entry(["f.parquet"], "./f.parquet", {}) is None
    entry = import_entry(["a.csv", "b.csv"], "out/f.parquet", {"day_first": False, "adjusted": False, "timezone": None})
    assert entry is not None
    assert (entry["paths"], entry["options"]) == (["../a.csv", "../b.csv"], {"day_first": False})
