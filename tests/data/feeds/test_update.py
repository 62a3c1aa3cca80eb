"""Files of bars that are brought up to date."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data.feeds.feed_server import START, FeedServer, bar, status
from rookery.data import storage as folder_lock_module
from rookery.data.dataset import Dataset
from rookery.data.features import add_features
from rookery.data.feeds.fetch import Download, fetch
from rookery.data.feeds.update import update
from rookery.data.storage import folder_lock, read, write
from rookery.data.synth import synthesise
from rookery.errors import DataError

FIVE = 300
FEATURES = ["rsi_14", "ema_10", "macd", "hour_sin", "volatility_regime"]


@pytest.fixture
def file(server: FeedServer, tmp_path: Path) -> Path:
    """Two hundred bars of two symbols with features; the server has fifty more by now."""
    for symbol in ("BTC/USD", "ETH/USD"):
        server.symbols[symbol] = START, START + 200 * FIVE
    path = tmp_path / "coins.parquet"
    data = fetch(Download("alpaca", ("BTC/USD", "ETH/USD"), FIVE), START)
    write(add_features(data, FEATURES), path)
    for symbol in server.symbols:
        server.symbols[symbol] = START, START + 250 * FIVE
    server.requests.clear()
    return path


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() == other.tobytes()


def test_new_bars_are_added_and_stored_rows_stay_bit_identical(file: Path, server: FeedServer) -> None:
    before = read(file)
    results = update(file)
    after = read(file)
    assert [(one.symbol, one.added, one.last, one.revised) for one in results] == [
        ("BTC/USD", 50, START + 250 * FIVE, 0), ("ETH/USD", 50, START + 250 * FIVE, 0)
    ]  # fmt: skip
    fresh = add_features(fetch(Download("alpaca", ("BTC/USD", "ETH/USD"), FIVE), START), FEATURES)
    for symbol in before.symbols:
        assert tuple(after[symbol].columns) == tuple(before[symbol].columns)
        assert after[symbol].times.tolist() == [START + i * FIVE for i in range(1, 251)]
        for name in before[symbol].columns:
            assert same(after[symbol][name][:200], before[symbol][name]), name
            assert same(after[symbol][name], fresh[symbol][name]), name
    assert [entry["command"].split()[0] for entry in after.history] == ["fetch", "update"]


def test_a_symbol_without_new_bars_keeps_its_features(file: Path, server: FeedServer) -> None:
    before = read(file)["ETH/USD"]
    server.symbols["ETH/USD"] = START, START + 200 * FIVE
    assert [one.added for one in update(file)] == [50, 0]
    after = read(file)["ETH/USD"]
    assert tuple(after.columns) == tuple(before.columns)
    assert all(same(after[name], before[name]) for name in before.columns)


def test_nothing_new_writes_nothing(file: Path, server: FeedServer) -> None:
    update(file)
    before = file.stat().st_mtime_ns, file.stat().st_ino
    assert [one.added for one in update(file)] == [0, 0]
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == before


def test_a_history_has_one_entry_for_all_updates(file: Path, server: FeedServer) -> None:
    for more in (10, 20, 30):
        for symbol in server.symbols:
            server.symbols[symbol] = START, START + (250 + more) * FIVE
        update(file)
    assert len(read(file).history) == 2
    assert read(file).history[1]["source"] == "alpaca"


def test_little_is_asked_for(file: Path, server: FeedServer) -> None:
    update(file)
    assert len(server.requests) == 2
    assert server.requests[0]["start"] > "2024-01-01T07:00:00Z"


def test_revised_bars_are_mentioned_and_kept(file: Path, server: FeedServer, caplog: pytest.LogCaptureFixture) -> None:
    server.revised["ETH/USD"] = START + 195 * FIVE
    before = read(file)
    results = update(file)
    assert [(one.added, one.revised, one.replaced) for one in results] == [(50, 0, False), (50, 5, False)]
    assert (
        "5 stored bars of ETH/USD have other values in the source now (the first is of 2024-01-01T16:20:00Z)"
        in caplog.text
    )
    after = read(file)["ETH/USD"]
    assert same(after["close"][:200], before["ETH/USD"]["close"])
    assert after["close"][200] == bar(START + 200 * FIVE)[3] + 1


def test_revised_bars_are_taken_if_asked_with_their_features(file: Path, server: FeedServer) -> None:
    """However old they are, and earlier features stay as they were."""
    server.revised["ETH/USD"] = START + 60 * FIVE
    before = read(file)
    results = update(file, revise=True)
    assert [(one.added, one.revised, one.replaced) for one in results] == [(50, 0, True), (50, 140, True)]
    after = read(file)
    fresh = add_features(fetch(Download("alpaca", ("BTC/USD", "ETH/USD"), FIVE), START, refresh=True), FEATURES)
    for symbol in after.symbols:
        for name in after[symbol].columns:
            assert same(after[symbol][name], fresh[symbol][name]), name
            assert same(after[symbol][name][:60], before[symbol][name][:60]), name


def test_bars_that_were_missing_are_left_out_unless_asked(
    file: Path, server: FeedServer, caplog: pytest.LogCaptureFixture
) -> None:
    data = read(file)
    hole = np.r_[0:150, 155:200]
    bare = Dataset(tuple(bars.rows(hole) for bars in data.bars), FIVE, history=data.history)
    write(bare, file)
    update(file)
    assert "5 bars of BTC/USD were missing and are in the source now" in caplog.text
    assert len(read(file)["BTC/USD"]) == 245
    update(file, revise=True)
    assert read(file)["BTC/USD"].times.tolist() == [START + i * FIVE for i in range(1, 251)]


def test_a_failure_changes_nothing(file: Path, server: FeedServer) -> None:
    before = file.read_bytes()
    server.faults = [None, status(401, {"message": "no"})]
    with pytest.raises(DataError, match="wants keys"):
        update(file)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir() if path.name != "cache"] == [file.name]


def test_a_folder_is_updated_file_by_file(file: Path, server: FeedServer, tmp_path: Path) -> None:
    folder = tmp_path / "5m"
    data = read(file)
    write(data.select(["BTC/USD"]), folder / "BTC-USD.parquet")
    write(data.select(["ETH/USD"]), folder / "ETH-USD.parquet")
    assert [(one.path.name, one.added) for one in update(folder)] == [("BTC-USD.parquet", 50), ("ETH-USD.parquet", 50)]
    assert read(folder).symbols == ("BTC/USD", "ETH/USD")
    assert len(read(folder)["ETH/USD"]) == 250


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    update(link)
    assert link.is_symlink() and len(read(file)["BTC/USD"]) == 250


def test_rescaled_prices_are_not_joined_with_stored_ones(
    server: FeedServer, keys: tuple[str, str], tmp_path: Path
) -> None:
    """After a split, adjusted prices of the whole past change: joined, they would show a jump that never was."""
    server.symbols["AAPL"] = START, START + 200 * FIVE
    wanted, path = Download("alpaca", ("AAPL",), FIVE, "iex", "split", "all"), tmp_path / "apple.parquet"
    write(fetch(wanted, START), path)
    before = path.read_bytes()
    server.symbols["AAPL"] = START, START + 250 * FIVE
    server.revised["AAPL"] = 0
    with pytest.raises(DataError, match=r"adjusted prices of AAPL have changed, .* --revise` fetches all"):
        update(path)
    assert path.read_bytes() == before
    update(path, revise=True)
    assert read(path)["AAPL"]["open"][0] == bar(START)[0] + 1
    assert len(read(path)["AAPL"]) == 250


def test_days_are_added_over_a_change_of_clocks(server: FeedServer, tmp_path: Path) -> None:
    day = 86_400
    start = 1_709_251_200  # 2024-03-01
    server.symbols["BTC/USD"] = start, start + 20 * day
    path = tmp_path / "days.parquet"
    write(fetch(Download("alpaca", ("BTC/USD",), day), start), path)
    server.symbols["BTC/USD"] = start, start + 30 * day
    assert [one.added for one in update(path)] == [10]
    assert set(np.diff(read(path)["BTC/USD"].times)) == {day}


@pytest.mark.parametrize(
    ("history", "problem"),
    [
        ((), "its history names no source that has newer bars of BTC/USD"),
        (({"command": "import", "source": "arrays"},), "its history names no source"),
        (
            ({"command": "fetch", "source": "alpaca", "symbols": ["BTC/USD"], "timeframe": "1m", "feed": "us"},),
            "its bars of 5m were made from downloaded bars of 1m: update those",
        ),
        (
            ({"command": "fetch", "source": "alpaca", "symbols": ["BTC/USD"], "timeframe": "5m", "feed": "../x"},),
            "alpaca has no feed '../x'",
        ),
    ],
)
def test_files_from_elsewhere_are_refused(
    file: Path, server: FeedServer, history: tuple[dict[str, object], ...], problem: str
) -> None:
    write(replace(read(file, ["BTC/USD"]), history=history), file)
    with pytest.raises(DataError, match=problem):
        update(file)
    assert server.requests == []


def test_synthetic_bars_are_up_to_date(tmp_path: Path, server: FeedServer) -> None:
    """So that `rookery schedule` works on them; the file stays as it is."""
    write(synthesise(2, 50, "5m", seed=1), tmp_path / "made.parquet")
    before = (tmp_path / "made.parquet").read_bytes()
    assert [(one.added, one.problem) for one in update(tmp_path / "made.parquet")] == [(0, ""), (0, "")]
    assert (tmp_path / "made.parquet").read_bytes() == before and server.requests == []


def test_columns_that_no_feature_makes_are_refused(file: Path) -> None:
    data = read(file, ["BTC/USD"])
    bars = data.bars[0].with_columns({"sentiment": np.zeros(200)})
    write(replace(data, bars=(bars,)), file)
    before = file.read_bytes()
    with pytest.raises(DataError, match="its features cannot be computed for new bars: 'sentiment' is not a feature"):
        update(file)
    assert file.read_bytes() == before


def test_two_updates_at_once_give_one_result(file: Path) -> None:
    added: list[int] = []
    both = [threading.Thread(target=lambda: added.append(update(file)[0].added)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(added) == [0, 50]
    assert read(file)["BTC/USD"].times.tolist() == [START + i * FIVE for i in range(1, 251)]


def test_a_folder_that_stays_busy_is_reported(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock_module, "WAIT_SECONDS", 0.1)
    with folder_lock(file.parent), pytest.raises(DataError, match="another process is writing bars there"):
        update(file)
    assert [one.added for one in update(file)] == [50, 50]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.parquet: there is no such file or folder"):
        update(tmp_path / "nowhere.parquet")
    assert not os.path.lexists(tmp_path / "nowhere.parquet")
