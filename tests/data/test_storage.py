"""rookery's Parquet files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars
import pytest

from rookery.data.dataset import Dataset
from rookery.data.storage import fingerprint, read, write
from rookery.data.synth import synthesise
from rookery.errors import DataError


@pytest.fixture
def data() -> Dataset:
    return synthesise(3, 50, signal=0.2)


def test_what_was_written_is_read_bit_for_bit(data: Dataset, tmp_path: Path) -> None:
    values = data.bars[1]["signal"].copy()
    values[:4] = [np.nan, -0.0, 1e-300, np.pi]
    changed = replace(data, bars=(data.bars[0], data.bars[1].with_columns({"signal": values}), data.bars[2]))
    write(changed, tmp_path / "new" / "f.parquet")
    back = read(tmp_path / "new" / "f.parquet")
    assert back.hash == changed.hash and back.symbols == data.symbols and back.history == data.history
    assert back.place == str(tmp_path / "new" / "f.parquet") and (back.timeframe, back.calendar) == (300, "24/7")
    assert back.bars[1]["signal"].tobytes() == values.tobytes()
    assert not back.bars[0].times.flags.writeable and not back.bars[0]["close"].flags.writeable


def test_other_programs_read_it(data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / "f.parquet")
    frame = polars.read_parquet(tmp_path / "f.parquet")
    assert frame.columns == ["symbol", "time", "open", "high", "low", "close", "volume", "signal"]
    assert frame["time"].dtype == polars.Datetime("ms", "UTC") and len(frame) == 150


def test_symbols_are_selected_in_the_given_order(data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / "f.parquet")
    assert read(tmp_path / "f.parquet", ["SOL/USD", "BTC/USD"]).symbols == ("SOL/USD", "BTC/USD")
    with pytest.raises(DataError, match=r"f.parquet: there is no symbol 'DOGE'"):
        read(tmp_path / "f.parquet", ["DOGE"])


def test_a_column_of_one_symbol_stays_its_own(data: Dataset, tmp_path: Path) -> None:
    one = data.bars[0].with_columns({"funding": np.zeros(50)})
    write(replace(data, bars=(one, *data.bars[1:])), tmp_path / "f.parquet")
    back = read(tmp_path / "f.parquet")
    assert "funding" in back.bars[0].columns and "funding" not in back.bars[1].columns


def test_a_folder_is_the_union_of_its_files(data: Dataset, tmp_path: Path) -> None:
    for bars in data.bars:
        write(replace(data, bars=(bars,)), tmp_path / f"{bars.symbol[:3]}.parquet")
    (tmp_path / ".f.parquet.new").write_text("left by a killed process")
    back = read(tmp_path)
    assert back.symbols == ("BTC/USD", "ETH/USD", "SOL/USD") and len(back.history) == 3
    assert back.place == str(tmp_path)
    write(data, tmp_path / "again.parquet")
    with pytest.raises(DataError, match=r"again.parquet: .*is also in|is also in .*again.parquet"):
        read(tmp_path)


@pytest.mark.parametrize("key", ["timeframe", "calendar"])
def test_a_folder_has_one_timeframe_and_calendar(key: str, data: Dataset, tmp_path: Path) -> None:
    write(replace(data, bars=data.bars[:1]), tmp_path / "a.parquet")
    other = {"timeframe": 600} if key == "timeframe" else {"calendar": "forex"}
    write(replace(data, bars=data.bars[1:], **other), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=f"b.parquet: its {key} is .* but that of .*a.parquet"):
        read(tmp_path)


def test_an_edited_file_is_refused(data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / "f.parquet")
    facts = polars.read_parquet_metadata(tmp_path / "f.parquet")["rookery"]
    frame = polars.read_parquet(tmp_path / "f.parquet").with_columns(polars.col("close") * 1.01)
    frame.write_parquet(tmp_path / "f.parquet", metadata={"rookery": facts})
    with pytest.raises(DataError, match="their hash differs"):
        read(tmp_path / "f.parquet")


def test_a_newer_format_is_refused(data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / "f.parquet")
    facts = json.loads(polars.read_parquet_metadata(tmp_path / "f.parquet")["rookery"]) | {"format": 2}
    polars.read_parquet(tmp_path / "f.parquet").write_parquet(
        tmp_path / "f.parquet", metadata={"rookery": json.dumps(facts)}
    )
    with pytest.raises(DataError, match=r"format 2 is newer than 1.*update rookery"):
        read(tmp_path / "f.parquet")


def test_an_error_leaves_the_old_file(data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.parquet"
    write(data, path)
    before = path.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(polars.DataFrame, "write_parquet", full)
    with pytest.raises(OSError, match="No space"):
        write(synthesise(1, 20), path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["f.parquet"]


def test_the_fingerprint_changes_with_the_file(data: Dataset, tmp_path: Path) -> None:
    write(data, tmp_path / "f.parquet")
    first = fingerprint(tmp_path)
    assert fingerprint(tmp_path) == first
    write(synthesise(3, 50, seed=2, signal=0.2), tmp_path / "f.parquet")
    os.utime(tmp_path / "f.parquet", (0, 0))
    second = fingerprint(tmp_path / "f.parquet")
    assert second != first
    with pytest.raises(DataError, match="there is no such file"):
        fingerprint(tmp_path / "nothing.parquet")
