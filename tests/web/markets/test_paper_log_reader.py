"""The log of a paper account is read while it grows, and whatever becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.deploy.paper.account_files import AccountFolder, read_status
from rookery.web.market_views import paper_log
from rookery.web.market_views.paper_details import paper_details
from rookery.web.market_views.paper_log import PaperLog
from web.markets.recorded_market import log_lines, written_lines


@pytest.fixture
def path(market: Path) -> Path:
    return market / "agents" / "coins" / "paper" / "log.jsonl"


def read(path: Path) -> PaperLog:
    log = PaperLog(path)
    log.refresh()
    return log


def test_figures_are_those_of_the_status(path: Path) -> None:
    """`rookery paper --status` computes the same from the whole log."""
    for folder in (path.parent, path.parent / "shadow"):
        mine, status = paper_details(read(folder / "log.jsonl")), read_status(AccountFolder(folder))
        for name in ("equity", "start_equity", "bars", "fills", "orders", "waiting", "last_bar", "since", "version"):
            assert mine[name] == getattr(status, name), name
        assert mine["costs"]["total"] == pytest.approx(status.costs)
        assert mine["drawdown"] == pytest.approx(status.drawdown)
        assert mine["positions"] == status.positions


def test_weights_and_cash_make_the_account(path: Path) -> None:
    log = read(path.parent / "shadow" / "log.jsonl")
    curves = log.columns.curves()
    exposure = curves.curve("exposure")
    assert exposure is not None and exposure.max() > 0.1
    assert np.allclose(sum(np.abs(weight) for weight in curves.weights.values()), exposure, atol=1e-4)


def test_it_grows_line_by_line(path: Path) -> None:
    whole = path.read_bytes()
    cut = whole.index(b'"seq": 31') - 1
    path.write_bytes(whole[:cut])
    log = read(path)
    assert len(log.columns) == 30 and log.is_complete
    with path.open("ab") as file:
        file.write(whole[cut : cut + 100])  # a line that is being written
    log.refresh()
    assert len(log.columns) == 30 and log.problem is None
    with path.open("ab") as file:
        file.write(whole[cut + 100 :])
    log.refresh()
    assert len(log.columns) == 60 and paper_details(log) == paper_details(read(path))


def test_a_log_that_was_replaced_or_shortened_is_read_anew(path: Path) -> None:
    log, whole = read(path), path.read_bytes()
    path.write_bytes(whole[: whole.index(b'"seq": 11') - 1])
    log.refresh()
    assert len(log.columns) == 10
    other = (path.parent / "shadow" / "log.jsonl").read_bytes()
    path.write_bytes(other)  # the same file, with other and more contents
    log.refresh()
    assert len(log.columns) == 60 and log.columns.version == 2 and log.problem is None


def test_a_changed_line_ends_it(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"seq": 20, "kind": "bar"', b'"seq": 20, "kind": "BAR"'))
    log = read(path)
    assert len(log.columns) == 19 and log.problem is not None and log.problem.startswith("line 21")
    log.refresh()
    assert len(log.columns) == 19


def broken(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Lines with right checksums, and contents that no account has."""
    bar = lines[5]
    return {
        "text": {**bar, "equity": "much"}, "missing": {key: bar[key] for key in bar if key != "books"},
        "backwards": {**bar, "time": 5}, "list": {**bar, "bars": []}, "nested": {**bar, "books": [[[]]]},
        "huge": {**bar, "time": 10**400}, "symbols": {**bar, "books": [{**lines[5]["books"][0], "positions": [1] * 9}]},
    }  # fmt: skip


@pytest.mark.parametrize("case", ["text", "missing", "backwards", "list", "nested", "huge", "symbols"])
def test_lines_of_anybody_end_it(market: Path, path: Path, case: str) -> None:
    lines = log_lines(market)
    path.write_bytes(written_lines([*lines[:5], broken(lines)[case], *lines[6:]]))
    log = read(path)
    assert len(log.columns) == 4 and log.problem is not None
    paper_details(log)


def test_a_kill_a_resumption_and_a_gap(market: Path, path: Path) -> None:
    lines = log_lines(market)
    killed = {"kind": "kill", "time": lines[20]["time"], "reason": "drawdown", "why": "too deep", "cancelled": [],
              "actions": [None]}  # fmt: skip
    path.write_bytes(written_lines([*lines[:21], killed]))
    found = paper_details(read(path))
    assert found["state"] == "stopped by the kill-switch" and found["killed"]["why"] == "too deep"
    assert found["waiting"] == 0
    resumed = {"kind": "resume", "time": lines[20]["time"]}
    path.write_bytes(written_lines([*lines[:21], killed, resumed, *lines[25:]]))
    found = paper_details(read(path))
    assert found["killed"] is None and [stop["what"] for stop in found["stops"]] == ["resumed", "stopped"]
    assert [gap["bars"] for gap in found["gaps"]] == [4]


def test_a_long_log_takes_several_looks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_log, "MOST_AT_ONCE", 20_000)
    monkeypatch.setattr(paper_log, "BLOCK", 5_000)
    log, looks = PaperLog(path), 0
    while not log.is_complete:
        log.refresh()
        looks += 1
    assert looks > 1 and len(log.columns) == 60


def test_a_line_without_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_log, "LONGEST_LINE", 10_000)
    with path.open("ab") as file:
        file.write(b"x" * 20_000)
    assert read(path).problem is not None
