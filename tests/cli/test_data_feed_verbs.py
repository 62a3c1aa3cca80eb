"""The commands `rookery data fetch` and `rookery data update`, against a server that answers as Alpaca's does."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data.feeds.feed_server import START, FeedServer, status
from rookery.cli.main import main
from rookery.data.storage import read

FIVE = 300
FETCH = ["data", "fetch", "alpaca", "--symbols", "BTC/USD,ETH/USD", "--timeframe", "5m", "--start", "2024-01-01"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FeedServer]:
    served = FeedServer()
    for symbol in ("BTC/USD", "ETH/USD"):
        served.symbols[symbol] = START, START + 50 * FIVE
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOKERY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("APCA_API_DATA_URL", served.address)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("APCA_API_KEY_ID", "APCA_API_SECRET_KEY", "ALPACA_API_KEY", "ALPACA_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rookery.data.feeds.feed.sleep", lambda seconds: None)
    yield served
    served.close()


def grow(server: FeedServer, bars: int) -> None:
    for symbol in server.symbols:
        server.symbols[symbol] = START, START + bars * FIVE


def test_fetch_writes_a_file_per_symbol_and_update_adds_to_them(
    server: FeedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FETCH, "--out", "data/5m"]) == 0
    out = capsys.readouterr().out
    assert (
        "data/5m/BTC-USD.parquet: BTC/USD: 50 bars, complete from 2024-01-01T00:05:00Z to 2024-01-01T04:10:00Z" in out
    )
    assert read("data/5m").symbols == ("BTC/USD", "ETH/USD")
    grow(server, 60)
    assert main(["data", "update", "data/5m"]) == 0
    assert "ETH/USD: 10 bars added, up to 2024-01-01T05:00:00Z" in capsys.readouterr().out
    assert main(["data", "update", "data/5m"]) == 0
    assert capsys.readouterr().out == "nothing new since 2024-01-01T05:00:00Z\n"
    assert sorted(path.name for path in Path("data/5m").iterdir()) == ["BTC-USD.parquet", "ETH-USD.parquet"]


def test_fetch_writes_one_file_and_the_results_are_json_if_asked(
    server: FeedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = answer(*FETCH, "--end", "2024-01-01T02:00", "--out", "coins.parquet")
    assert [(row["symbol"], row["bars"], row["path"]) for row in made["symbols"]] == [
        ("BTC/USD", 24, "coins.parquet"), ("ETH/USD", 24, "coins.parquet")
    ]  # fmt: skip
    done = answer("data", "update", "coins.parquet")
    assert done["added"] == 52
    assert done["symbols"][1]["last"] == "2024-01-01T04:10:00Z"
    assert answer("data", "update", "coins.parquet", "--revise")["added"] == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(server: FeedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    server.page = 10
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        assert main([*FETCH, "--out", "coins.parquet", "--force", "--refresh"]) == 0
        assert ("ETH/USD" in stream.getvalue() and "%" in stream.getvalue()) == shown


def test_existing_files_are_not_overwritten_unless_asked(
    server: FeedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FETCH, "--out", "coins.parquet"]) == 0
    server.requests.clear()
    assert main([*FETCH, "--out", "coins.parquet"]) == 2
    assert "coins.parquet exists already: `rookery data update` adds what is new" in capsys.readouterr().err
    assert server.requests == []
    assert main([*FETCH, "--out", "coins.parquet", "--force"]) == 0


def test_a_folder_holds_bars_of_one_timeframe(server: FeedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FETCH, "--out", "data", "--symbols", "BTC/USD"]) == 0
    server.requests.clear()
    words = [*FETCH, "--out", "data", "--symbols", "ETH/USD"]
    assert main([*words, "--timeframe", "10m"]) == 2
    assert "data/BTC-USD.parquet has bars of 5m, calendar 24/7, and these are of 10m" in capsys.readouterr().err
    assert server.requests == []
    assert main(words) == 0
    assert main([*FETCH, "--timeframe", "10m", "--out", "data/both.parquet"]) == 0  # a file of its own may be anywhere


def test_an_interrupted_fetch_leaves_nothing_and_continues(
    server: FeedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    server.page, server.faults = 10, [None] * 7 + [status(503)]
    with monkeypatch.context() as patch:
        patch.setattr("rookery.data.feeds.feed.sleep", interrupt)
        assert main([*FETCH, "--out", "coins.parquet"]) == 130
    assert "the same command continues where it stopped" in caplog.text
    assert [path.name for path in Path().iterdir()] == ["cache"]
    server.requests.clear()
    assert main([*FETCH, "--out", "coins.parquet"]) == 0
    assert len(server.requests) == 4  # three pages that were missing, and a look for newer bars of the other symbol
    assert len(read("coins.parquet")["ETH/USD"]) == 50


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (["--symbols", ","], "no symbol is given"),
        (["--symbols", "DOGE/USD"], "alpaca has no bars of DOGE/USD in this period"),
        (["--timeframe", "1M"], "months"),
        (["--timeframe", "fast"], "is not a timeframe"),
        (["--start", "soon"], "--start should be a date or a time"),
        (["--start", "2099-01-01"], "has not come yet"),
        (["--end", "2023-01-01"], "is not after the start"),
        (["--feed", "iex"], "alpaca has no feed 'iex' for BTC/USD"),
        (["--adjustment", "all"], "cannot be 'all'"),
        (["--hours", "late"], "hours should be regular or all"),
        (["--symbols", "AAPL"], "set APCA_API_KEY_ID and APCA_API_SECRET_KEY"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    server: FeedServer, capsys: pytest.CaptureFixture[str], change: list[str], problem: str
) -> None:
    assert main([*FETCH, "--out", "new/coins.parquet", *change]) == 2
    shown = capsys.readouterr().err
    assert problem in shown and shown.startswith("rookery: ") and shown.count("\n") == 1
    assert not Path("new").exists()


def test_unknown_sources_are_refused(server: FeedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FETCH[:2], "kraken", *FETCH[3:], "--out", "x.parquet"]) == 2
    assert "'kraken' is not a source of bars: there is alpaca, and ccxt:NAME" in capsys.readouterr().err


def test_updates_of_other_files_are_refused(server: FeedServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "synth", "--out", "s.parquet", "--bars", "50", "--assets", "1"]) == 0
    assert main(["data", "update", "s.parquet"]) == 0
    assert main(["data", "update", "nowhere"]) == 2
    assert "nowhere: there is no such file or folder" in capsys.readouterr().err


def test_a_symbol_that_fails_does_not_keep_others_from_being_updated(
    server: FeedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*FETCH, "--out", "data"]) == 0
    grow(server, 60)
    before = Path("data/BTC-USD.parquet").read_bytes()
    server.faults = [status(400, {"message": "invalid symbol: BTC/USD"})]
    assert main(["data", "update", "data"]) == 1
    shown = capsys.readouterr()
    assert "ETH/USD: 10 bars added" in shown.out
    assert shown.err.endswith("/BTC-USD.parquet: alpaca refuses the request (HTTP 400: invalid symbol: BTC/USD)\n")
    assert Path("data/BTC-USD.parquet").read_bytes() == before
    server.faults = [status(500)] * 20  # a server that is down is not asked for every file
    server.requests.clear()
    assert main(["data", "update", "data"]) == 2
    assert len(server.requests) == 5


def test_no_key_is_in_any_output_or_file(
    server: FeedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    keys = "PKPLANTEDKEY1234567", "s3cretPlanted/+key=987654321"
    monkeypatch.setenv("ALPACA_API_KEY", keys[0])
    monkeypatch.setenv("ALPACA_SECRET_KEY", keys[1])
    caplog.set_level("DEBUG")
    assert main([*FETCH, "--out", "coins.parquet"]) == 0
    assert server.requests[0]["headers"]["APCA-API-KEY-ID"] == keys[0]
    server.faults = [status(401, {"message": f"{keys[0]} {keys[1]}"})]
    assert main(["data", "update", "coins.parquet"]) == 2
    shown = "".join(capfd.readouterr()) + caplog.text
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert "***" in shown
    assert not any(key in shown or key.encode() in stored for key in keys)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_process_that_is_ended_leaves_nothing_and_the_next_continues(
    server: FeedServer, number: int, code: int
) -> None:
    reached, go_on = threading.Event(), threading.Event()

    def hang(_: Any) -> None:
        reached.set()
        go_on.wait(60)

    server.page, server.faults = 10, [None] * 7 + [hang]
    command = [sys.executable, "-m", "rookery", *FETCH, "--out", "coins.parquet"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert reached.wait(60)
    process.send_signal(number)
    shown = process.communicate(timeout=60)[1]
    go_on.set()
    assert process.returncode == code
    assert "Traceback" not in shown
    assert [path.name for path in Path().iterdir()] == ["cache"]
    server.requests.clear()
    assert main(command[3:]) == 0
    assert len(server.requests) == 4
    assert len(read("coins.parquet")["ETH/USD"]) == 50


@pytest.mark.slow
def test_two_processes_that_update_at_once_do_no_damage(server: FeedServer) -> None:
    assert main([*FETCH, "--out", "coins.parquet"]) == 0
    grow(server, 400)
    command = [sys.executable, "-m", "rookery", "data", "update", "coins.parquet"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    texts = sorted(process.communicate()[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert "350 bars added" in texts[0] and texts[1].startswith("nothing new")
    assert read("coins.parquet")["BTC/USD"].times.tolist() == [START + i * FIVE for i in range(1, 401)]


@pytest.mark.slow
def test_the_command_line_does_without_the_packages_of_feeds() -> None:
    """They take seconds to load."""
    code = (
        "import sys; from rookery.cli.main import build_parser; build_parser(); import rookery.data.feeds.update;"
        "print([name for name in ('ccxt', 'alpaca', 'pandas', 'requests', 'polars', 'talib') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
