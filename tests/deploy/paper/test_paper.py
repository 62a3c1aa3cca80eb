"""An account on the bars of a file: its log, its continuation, its parity with the backtest, its limits."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.paper.trading import COINS, PAIRS, bars, bars_of, crypto_run, forex_run, parity, stored, trade
from rookery.deploy.paper import account_files
from rookery.deploy.paper.account_files import AccountFolder, Line, read_status
from rookery.deploy.paper.bar_sources import KillLimits
from rookery.errors import DataError, FileError, KillSwitch, OptionError, RunBusy
from rookery.training.storage.run_dir import RunDir


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stored(tmp_path_factory.mktemp("data"), bars())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> RunDir:
    return crypto_run(tmp_path_factory.mktemp("runs"), data)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, run: RunDir, data: str) -> Path:
    account = tmp_path_factory.mktemp("accounts") / "whole"
    trade(run.path, data, account)
    return account


def test_log_is_a_complete_account(uninterrupted: Path, run: RunDir) -> None:
    """Every bar has its line; fills name their orders; ids are unique; cash and holdings make the equity."""
    lines = bars_of(AccountFolder(uninterrupted).lines())
    times = [line["time"] for line in lines]
    assert times == sorted(set(times)) and len(lines) > 80
    ids = [order["id"] for line in lines for order in line["orders"]]
    assert len(set(ids)) == len(ids) == 2 * len(lines)
    assert sum(len(line["fills"]) for line in lines) > 20
    for before, line in pairwise(lines):
        known = {order["symbol"]: order["id"] for order in before["orders"]}
        assert all(fill["order"] == known[fill["symbol"]] for fill in line["fills"])
        (book,) = line["books"]
        closes = [line["bars"][symbol][3] for symbol in COINS]
        assert book["cash"] + np.dot(book["positions"], closes) == pytest.approx(book["equity"], rel=1e-12)
        assert line["equity"] == book["equity"]


def test_parity_to_the_bit(uninterrupted: Path, run: RunDir) -> None:
    found = parity(run.path, uninterrupted)
    assert found.first_difference is None
    assert found.bars > 80 and found.fills > 20


def test_parity_names_the_first_difference(uninterrupted: Path, run: RunDir, tmp_path: Path) -> None:
    """A log that says something else is found out, whatever it is."""
    lines = AccountFolder(uninterrupted).lines()
    (tmp_path / "history.parquet").write_bytes((uninterrupted / "history.parquet").read_bytes())
    filled = [line["seq"] for line in lines[10:] if line.get("fills")][3]

    def change_equity(line: Line) -> None:
        line["books"][0]["equity"] = np.nextafter(line["books"][0]["equity"], np.inf)

    def change_fill(line: Line) -> None:
        line["fills"][0]["price"] *= 1 + 1e-15

    def change_action(line: Line) -> None:
        line["actions"][0][1] += 0.5

    def change_bar(line: Line) -> None:
        line["bars"][COINS[0]][3] *= 1.000001

    for change, what in (
        (change_equity, "equity"), (change_fill, "fills"), (change_action, "the action before this bar"),
        (change_bar, "equity"),
    ):  # fmt: skip
        changed = json.loads(json.dumps(lines))
        change(changed[filled])
        (tmp_path / "log.jsonl").unlink(missing_ok=True)
        log = account_files.AccountLog(tmp_path / "log.jsonl")
        for line in changed:
            log.append({name: value for name, value in line.items() if name not in ("seq", "sum")})
        log.close()
        found = parity(run.path, tmp_path).first_difference
        assert found is not None and found.what == what, change
        after = 1 if change is change_action else 0
        assert found.time == lines[filled + after]["time"]


def test_continues_where_it_stopped(uninterrupted: Path, run: RunDir, data: str, tmp_path: Path) -> None:
    for count in (1, 2, 40, 41):
        trade(run.path, data, tmp_path, bars=count)
    trade(run.path, data, tmp_path)
    assert (tmp_path / "log.jsonl").read_bytes() == (uninterrupted / "log.jsonl").read_bytes()


@pytest.mark.slow
def test_torn_anywhere(
    uninterrupted: Path, run: RunDir, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies in the middle of a write, or before or after it, changes nothing."""
    draw = random.Random(4)
    whole = account_files.append_record

    def dies(file: Any, record: bytes) -> None:
        if draw.random() < 0.15:
            whole(file, record[: draw.randrange(len(record) + 1)])
            raise InterruptedError
        whole(file, record)

    monkeypatch.setattr(account_files, "append_record", dies)
    deaths = 0
    for _ in range(100):
        try:
            trade(run.path, data, tmp_path)
            break
        except InterruptedError:
            deaths += 1
    assert deaths > 5
    assert (tmp_path / "log.jsonl").read_bytes() == (uninterrupted / "log.jsonl").read_bytes()


@pytest.mark.slow
def test_other_bars_later(run: RunDir, data: str, tmp_path: Path) -> None:
    """Bars that were traded on come from the log: a file with other values for them changes nothing before its end."""
    lines = trade(run.path, data, tmp_path / "account", bars=50)
    other = stored(tmp_path, bars(seed=9))
    after = trade(run.path, other, tmp_path / "account")
    assert after[: len(lines)] == lines and len(after) > len(lines)
    assert parity(run.path, tmp_path / "account").first_difference is None


def test_damaged_history_and_other_owner(
    uninterrupted: Path, run: RunDir, data: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    account = tmp_path / "account"
    trade(run.path, data, account, bars=3)
    other = crypto_run(tmp_path / "runs", data)
    with pytest.raises(OptionError, match=r"is the account of .*--account"):
        trade(other.path, data, account)
    stored(account, bars(seed=2), "history.parquet")
    with pytest.raises(DataError, match="other bars than those that the account began with"):
        trade(run.path, data, account)
    text = (account / "log.jsonl").read_text()
    (account / "log.jsonl").write_text(text.replace('"equity"', '"Equity"', 1))
    with pytest.raises(FileError, match="damaged"):
        trade(run.path, data, account)


def test_one_process_an_account(run: RunDir, data: str, tmp_path: Path) -> None:
    with AccountFolder(tmp_path).locked(), pytest.raises(RunBusy):
        trade(run.path, data, tmp_path)


def test_drawdown_closes_and_stops(run: RunDir, data: str, tmp_path: Path) -> None:
    """Everything is sold at the next bar, the log says why, and only a person lets it go on."""
    limits = KillLimits(max_drawdown=0.005, stale=0)
    with pytest.raises(KillSwitch, match=r"the drawdown is .* 0.50% are allowed") as stopped:
        trade(run.path, data, tmp_path, limits=limits)
    assert stopped.value.kind == "drawdown"
    lines = AccountFolder(tmp_path).lines()
    assert lines[-1]["kind"] == "kill" and lines[-1]["reason"] == "drawdown"
    assert bars_of(lines)[-1]["books"][0]["positions"] == [0.0, 0.0]
    assert [line["closing"] is None for line in bars_of(lines)[-3:]] == [True, False, False]
    with pytest.raises(KillSwitch, match="--resume-after-kill"):
        trade(run.path, data, tmp_path, limits=limits)
    assert AccountFolder(tmp_path).lines() == lines
    assert read_status(AccountFolder(tmp_path)).killed is not None
    after = trade(run.path, data, tmp_path, resume_after_kill=True)
    assert after[len(lines)]["kind"] == "resume" and len(bars_of(after)) > len(bars_of(lines))
    assert parity(run.path, tmp_path).first_difference is None


@pytest.mark.slow
def test_killed_while_closing(run: RunDir, data: str, tmp_path: Path) -> None:
    """A kill in the middle of the kill-switch's work: it goes on with it, and stops as it would have."""
    limits = KillLimits(max_drawdown=0.005, stale=0)
    with pytest.raises(KillSwitch):
        trade(run.path, data, tmp_path / "whole", limits=limits)
    whole = (tmp_path / "whole" / "log.jsonl").read_bytes().splitlines(keepends=True)
    for missing in (1, 2, 3):
        trade(run.path, data, tmp_path / f"cut{missing}", bars=1)
        (tmp_path / f"cut{missing}" / "log.jsonl").write_bytes(b"".join(whole[:-missing]))
        with pytest.raises(KillSwitch):
            trade(run.path, data, tmp_path / f"cut{missing}", limits=limits)
        assert (tmp_path / f"cut{missing}" / "log.jsonl").read_bytes() == b"".join(whole)


def test_gap_stops(run: RunDir, tmp_path: Path) -> None:
    """Orders that wait are cancelled, positions stay, and after a resumption the gap is passed."""
    whole = bars()
    keep = np.r_[0:70, 78:120]
    gap = whole.bars[0].times[keep]
    data = stored(tmp_path, type(whole)(tuple(one.rows(keep) for one in whole.bars), 300))
    limits = KillLimits(max_drawdown=1.0, stale=3)
    with pytest.raises(KillSwitch, match="no bar of 5m since") as stopped:
        trade(run.path, data, tmp_path / "account", limits=limits)
    assert stopped.value.kind == "stale-data"
    lines = AccountFolder(tmp_path / "account").lines()
    assert lines[-1]["time"] == gap[69] and lines[-1]["cancelled"] == sorted(o["id"] for o in lines[-2]["orders"])
    after = trade(run.path, data, tmp_path / "account", limits=limits, resume_after_kill=True)
    assert bars_of(after)[-1]["time"] == gap[-1]
    assert all(fill["order"] is None for fill in after[len(lines) + 1]["fills"])
    assert parity(run.path, tmp_path / "account").first_difference is None


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"action_type": "weights"}, marks=pytest.mark.slow),
        pytest.param({"layout": "finrl", "lookback": 1, "columns": ["rsi_14", "ema_10"]}, marks=pytest.mark.slow),
        pytest.param({"scaling": "power"}, marks=pytest.mark.slow),
    ],
)
def test_other_crypto_worlds(options: dict[str, Any], data: str, tmp_path: Path) -> None:
    run = crypto_run(tmp_path / "runs", data, **options)
    trade(run.path, data, tmp_path / "account", bars=60)
    assert (tmp_path / "account" / "log.jsonl").is_file()
    lines = trade(run.path, data, tmp_path / "account")
    found = parity(run.path, tmp_path / "account")
    assert found.first_difference is None and found.fills > 10
    with pytest.raises(KillSwitch):
        trade(run.path, data, tmp_path / "limited", limits=KillLimits(max_drawdown=0.003, stale=0))
    lines = AccountFolder(tmp_path / "limited").lines()
    assert not np.any(bars_of(lines)[-1]["books"][0]["positions"])
    assert parity(run.path, tmp_path / "limited").first_difference is None


@pytest.mark.slow
@pytest.mark.usefixtures("plain_python")
@pytest.mark.parametrize("action_type", ["discrete", pytest.param("continuous", marks=pytest.mark.slow)])
def test_forex(action_type: str, tmp_path: Path) -> None:
    """Each pair has an account of its own; they need not have bars at the same times."""
    whole = bars(PAIRS, 150, timeframe=3600)
    kept = np.delete(np.arange(150), [60, 61, 90])
    some = type(whole)((whole.bars[0], whole.bars[1].rows(kept)), 3600, "forex")
    data = stored(tmp_path, some)
    run = forex_run(tmp_path / "runs", data, action_type=action_type)
    trade(run.path, data, tmp_path / "account", bars=40)
    lines = trade(run.path, data, tmp_path / "account")
    assert any(line["books"][1] is None for line in bars_of(lines)[1:])
    assert lines[-1]["equity"] == sum(lines[-1]["equities"]) > 150_000
    found = parity(run.path, tmp_path / "account")
    assert found.first_difference is None and found.fills > 5
    assert set(read_status(AccountFolder(tmp_path / "account")).positions) == set(PAIRS)


def test_anytrading_has_no_account(tmp_path: Path) -> None:
    data = stored(tmp_path, bars(("EURUSD",), timeframe=3600))
    run = forex_run(tmp_path / "runs", data)
    config = json.loads(run.config.read_text())
    config["world_options"] = {"data": data, "layout": "gym-anytrading"}
    run.config.write_text(json.dumps(config))
    with pytest.raises(OptionError, match="has no account"):
        trade(run.path, data, tmp_path / "account")
