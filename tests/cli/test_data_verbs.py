"""The command `rookery data`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rookery.cli.main import main
from rookery.data.storage import read, write
from rookery.data.synth import synthesise

CSV = "time,open,high,low,close,volume\n" + "".join(f"2024-01-01 0{h}:00,10,12,9,11,5\n" for h in range(9))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answer(capsys: pytest.CaptureFixture, *words: str) -> dict:
    assert main(["data", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_synth_makes_what_python_makes(capsys: pytest.CaptureFixture) -> None:
    words = ["--assets", "2", "--bars", "50", "--timeframe", "1h", "--seed", "4", "--signal", "0.3", "--kind", "forex"]
    facts = answer(capsys, "synth", "--out", "new/f.parquet", *words)
    assert facts["hash"] == synthesise(2, 50, "1h", 4, 0.3, kind="forex").hash == read("new/f.parquet").hash
    assert facts["calendar"] == "forex" and facts["columns"][-1] == "signal" and facts["place"] == "new/f.parquet"


def test_info_is_a_table_for_people(capsys: pytest.CaptureFixture) -> None:
    data = synthesise(2, 50)
    keep = np.r_[0:20, 24:50]
    write(type(data)((data.bars[0], data.bars[1].rows(keep)), 300, history=data.history), "f.parquet")
    assert main(["data", "info", "f.parquet"]) == 0
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0].startswith("f.parquet: bars of 5m, calendar 24/7") and "2025-01-01 00:00 UTC" in lines[2]
    assert lines[3].split()[:2] == ["ETH/USD", "46"] and lines[3].split()[-2:] == ["1", "4"]  # one gap of four bars
    columns = {line.split()[0]: line.split()[-1] for line in lines[6:11]}
    assert columns == dict.fromkeys(("open", "high", "low", "close", "volume"), "bar")
    assert "history: synth --kind crypto" in text
    assert f"hash: {read('f.parquet').hash}" in text


def test_import_says_what_it_decided_and_keeps_it_in_the_history(
    capsys: pytest.CaptureFixture, caplog: pytest.LogCaptureFixture
) -> None:
    Path("EURUSD_1h.csv").write_text(CSV)
    words = ["import", "EURUSD_1h.csv", "--out", "f.parquet", "--timezone", "Europe/Berlin", "--timeframe", "2h"]
    assert main(["data", *words]) == 0
    assert "times are taken as the start of their bar, which is complete 1h later" in caplog.text
    capsys.readouterr()
    assert answer(capsys, "info", "f.parquet")["history"][:2] == [
        {"command": "import", "source": "EURUSD_1h.csv", "time_is": "start", "timezone": "Europe/Berlin"},
        {"command": "resample --timeframe 2h", "source": "1h"},
    ]
    assert read("f.parquet").symbols == ("EURUSD",)
    assert answer(capsys, *words)["notes"][0].startswith("times are taken")


def test_import_joins_several_files(capsys: pytest.CaptureFixture) -> None:
    for name in ("A", "B"):
        Path(f"{name}.csv").write_text(CSV)
    facts = answer(capsys, "import", "B.csv", "A.csv", "--out", "f.parquet", "--timezone", "UTC", "--time-is", "end")
    assert [row["symbol"] for row in facts["symbols"]] == ["B", "A"]
    assert facts["symbols"][0]["first"] == "2024-01-01 00:00 UTC"


def test_features_are_added_by_name_and_by_world(capsys: pytest.CaptureFixture) -> None:
    write(synthesise(1, 200), "f.parquet")
    facts = answer(capsys, "features", "f.parquet", "rsi_14,ema_10", "forex", "--out", "f.parquet")
    assert facts["columns"][5:8] == ["rsi_14", "ema_10", "ema_20"] and "weekday_cos" in facts["columns"]
    assert facts["history"][-1]["command"] == "features rsi_14 ema_10 forex"
    assert main(["data", "features", "f.parquet", "no_such", "--out", "g.parquet"]) == 2
    assert not Path("g.parquet").exists()


def test_check_exits_with_1_after_errors(capsys: pytest.CaptureFixture) -> None:
    data = synthesise(2, 50)
    write(data, "good.parquet")
    assert main(["data", "check", "good.parquet"]) == 0
    assert "good.parquet: 0 errors, 0 notes" in capsys.readouterr().out
    volume = data.bars[0]["volume"].copy()
    volume[[3, 4]] = -1.0
    broken = data.bars[0].with_columns({"volume": volume}).rows(np.r_[0:20, 22:50])
    write(type(data)((broken, data.bars[1]), 300), "bad.parquet")
    assert main(["data", "check", "bad.parquet"]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("error: BTC/USD row 3 (2024-12-31 20:10 UTC): volume should be >= 0, got -1")
    assert "and 1 more" in first
    assert second.startswith("note: BTC/USD row 19") and last == "bad.parquet: 1 errors, 1 notes"
    assert main(["data", "check", "bad.parquet", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert not facts["ok"] and facts["problems"][0]["row"] == 3 and facts["problems"][1]["severity"] == "note"


def test_check_reads_other_files_too(capsys: pytest.CaptureFixture) -> None:
    Path("A.csv").write_text(CSV)
    assert main(["data", "check", "A.csv", "--timezone", "UTC"]) == 0
    Path("A.csv").write_text(CSV.replace("04:00,10", "04:00,-10"))
    assert main(["data", "check", "A.csv", "--timezone", "UTC"]) == 1
    assert "error: A line 6: open should be > 0, got -10" in capsys.readouterr().out
    assert main(["data", "check", "nothing.csv"]) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [(["synth", "--out", "notes.txt"], "exists and is not a data file of rookery"),
     (["import", "A.csv", "--out", "A.csv"], "is the source itself"), (["synth", "--out", "folder"], "is a folder"),
     (["synth"], "--out"), (["synth", "--out", "f.parquet", "--bars", "1"], "bars should be"), (["fetsh"], "fetsh"),
     (["synth", "--out", "f.parquet", "--symbols", ","], "names nothing"), ([], "COMMAND")],
)  # fmt: skip
def test_mistakes_are_one_line_and_write_nothing(words: list[str], says: str, capsys: pytest.CaptureFixture) -> None:
    Path("notes.txt").write_text("important")
    Path("A.csv").write_text(CSV)
    Path("folder").mkdir()
    assert main(["data", *words]) == 2
    err = capsys.readouterr().err
    assert says in err and len(err.splitlines()) == 1
    assert Path("notes.txt").read_text() == "important" and not Path("f.parquet").exists()
