"""What the market pages are told: lists, backtests, folds, registries and paper accounts, from files of anybody."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from rookery.deploy.paper.account_files import AccountEvents
from rookery.training.storage.run_lock import Lock
from web.markets.recorded_market import COINS

FOLDS = "/api/markets/runs/coins-walk-forward"


def got(client: TestClient, path: str, **query: Any) -> dict[str, Any]:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def refused(client: TestClient, path: str, status: int = 404, **query: Any) -> str:
    answer = client.get(path, params=query)
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"])


def test_everything_is_listed(dashboard: TestClient) -> None:
    lists = got(dashboard, "/api/markets")
    assert [row["id"] for row in lists["backtests"]] == ["runs/coins", "runs/coins-walk-forward"]
    assert [row["folds"] for row in lists["backtests"]] == [0, 3]
    (registry,), (paper,) = lists["registries"], lists["papers"]
    assert registry["aliases"] == {"champion": 1, "challenger": 2} and registry["versions"] == 2
    assert paper["bars"] == 60 and paper["state"] == "not running" and paper["version"] == 1


def test_a_backtest_has_its_figures_and_curves(dashboard: TestClient, market: Path) -> None:
    report = got(dashboard, "/api/markets/runs/coins/report")
    assert report["accounts"] == ["report"] and report["symbols"] == ["BTC/USD", "ETH/USD"]
    assert report["verdict"].startswith("Beats hold after costs") and not report["paper"]
    names = "equity/agent,drawdown/hold,weight/1,cost/total,turnover,exposure"
    found = got(dashboard, "/api/markets/runs/coins/series", accounts="report", names=names)
    rows = np.load(market / "runs" / "coins" / "report" / "account.npy")
    assert found["exact"] and found["x"] == rows["time"].tolist()
    series = found["series"]
    assert series["report:equity/agent"] == rows["agent"].tolist()
    assert -min(series["report:drawdown/hold"]) == pytest.approx(report["hold"]["max_drawdown"])
    assert series["report:cost/total"][-1] == pytest.approx(report["agent"]["costs"]["total"])
    assert series["report:turnover"][-1] == pytest.approx(report["agent"]["turnover"])
    assert np.mean(series["report:exposure"][1:]) == pytest.approx(report["agent"]["exposure"])


def test_folds_are_laid_over_each_other(dashboard: TestClient) -> None:
    report = got(dashboard, f"{FOLDS}/report")
    folds = ["fold-1", "fold-2", "fold-3"]
    assert report["accounts"] == ["report", *folds]
    assert report["fold_runs"] == ["coins-fold1", "coins-fold2", "coins-fold3"]
    found = got(dashboard, f"{FOLDS}/series", accounts=",".join(folds), names="return/agent", x="elapsed")
    assert found["x"][0] == 0 and len(found["series"]) == 3
    for row, fold in zip(report["by_fold"], folds, strict=True):
        curve = [value for value in found["series"][f"{fold}:return/agent"] if value is not None]
        assert curve[0] == 0 and curve[-1] == pytest.approx(row["agent"]["total_return"])


def test_a_long_account_is_drawn_with_few_points_and_exactly_on_zoom(dashboard: TestClient) -> None:
    whole = got(dashboard, f"{FOLDS}/series", accounts="report", names="equity/agent", points=4000)
    few = got(dashboard, f"{FOLDS}/series", accounts="report", names="equity/agent", points=50)
    name = "report:equity/agent"
    assert len(few["x"]) <= 50 and not few["exact"] and few["range"] == whole["range"]
    assert max(few["series"][name]) == max(whole["series"][name])
    low, high = whole["x"][100], whole["x"][120]
    near = {"accounts": "report", "names": "equity/agent", "points": 50, "from": low, "to": high}
    part = got(dashboard, f"{FOLDS}/series", **near)
    assert part["exact"] and part["series"][name] == whole["series"][name][99:122]


def test_champion_and_challenger_with_the_gate(dashboard: TestClient) -> None:
    registry = got(dashboard, f"{COINS}/registry")
    challenger, champion = registry["versions"]
    assert registry["compared"] == 2 and registry["paper"] and registry["shadow"]
    decision = challenger["decision"]
    assert decision["what"] == "refuse" and decision["champion"] == 1 and not decision["passed"]
    assert decision["figures"]["conditions"] == [True, False, True, True, True]
    assert len(decision["reasons"]) == 5 and "margin" in decision["reasons"][1]
    assert challenger["accounts"] == ["gate-2", "rival-2"] and champion["accounts"] == ["version-1"]
    found = got(dashboard, f"{COINS}/series", accounts="gate-2,rival-2", names="return/agent,return/hold")
    ends = {name: values[-1] for name, values in found["series"].items()}
    figures = decision["figures"]
    assert ends["gate-2:return/agent"] == pytest.approx(figures["candidate"]["total_return"])
    assert ends["rival-2:return/agent"] == pytest.approx(figures["champion"]["total_return"])
    assert ends["gate-2:return/hold"] == pytest.approx(figures["hold"]["total_return"])
    assert got(dashboard, f"{COINS}/report", version=1)["accounts"] == ["version-1"]


def test_a_version_leads_to_its_run_only_if_that_is_shown(dashboard: TestClient, market: Path) -> None:
    assert got(dashboard, f"{COINS}/registry")["versions"][1]["shown_run"] is None  # it was made elsewhere
    from rookery.web.market_views.market_routes import shown_run
    from rookery.web.run_folders import RunFolders

    folders = RunFolders([market / "runs"])
    assert shown_run(folders, str(market / "runs" / "coins")) == "runs/coins"
    assert shown_run(folders, str(market / "runs" / "gone")) is None
    assert shown_run(folders, ["no", "text"]) is None


def test_the_log_of_a_registry(dashboard: TestClient, market: Path) -> None:
    entries = got(dashboard, f"{COINS}/audit")["entries"]
    assert [entry["what"] for entry in entries] == ["refuse", "compare", "add", "promote", "add"]
    assert [entry["entry"] for entry in got(dashboard, f"{COINS}/audit", before=3)["entries"]] == [2, 1]
    log = market / "agents" / "coins" / "audit.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:4]) + b'["odd"]\n{"half')
    entries = got(dashboard, f"{COINS}/audit")["entries"]
    assert [entry["what"] for entry in entries[:2]] == [
        "refuse",
        "a line that is damaged",
    ]  # the last is in aliases.json


def test_a_damaged_version_does_not_hide_the_others(dashboard: TestClient, market: Path) -> None:
    (market / "agents" / "coins" / "versions" / "000002" / "version.json").write_text("{}")
    challenger, champion = got(dashboard, f"{COINS}/registry")["versions"]
    assert "does not list" in challenger["error"] and champion["error"] is None
    (market / "agents" / "coins" / "aliases.json").write_text("[]")
    assert "damaged" in refused(dashboard, f"{COINS}/registry", 409)
    assert "damaged" in got(dashboard, "/api/markets")["registries"][0]["error"]


def test_a_paper_account_and_its_shadow(dashboard: TestClient, market: Path) -> None:
    paper, shadow = got(dashboard, f"{COINS}/paper"), got(dashboard, f"{COINS}/paper", account="shadow")
    assert paper["shadow"] and not shadow["shadow"] and shadow["version"] == 2
    assert paper["gaps"] == [] and paper["killed"] is None and paper["calendar"] == "24/7"
    found = got(dashboard, f"{COINS}/series", accounts="paper,shadow", names="equity/agent,cost/total,equity/prices")
    assert found["series"]["paper:equity/agent"][-1] == paper["equity"]
    assert found["series"]["shadow:cost/total"][-1] == pytest.approx(shadow["costs"]["total"])
    assert shadow["costs"]["total"] > 0 and found["series"]["paper:equity/prices"][0] == 100_000


def test_who_trades_and_when_bars_came(dashboard: TestClient, market: Path) -> None:
    folder = market / "agents" / "coins" / "paper"
    AccountEvents(folder).arrived(1_735_648_800)
    AccountEvents(folder).alert("handover", "version 3 cannot take over")
    with (folder / "events.jsonl").open("a") as file:
        file.write('{"kind": "bar", "time": 100, "at": 107.5}\nnot json\n{"kind": "alert", "text": 5}\n')
    with Lock(folder / "paper.lock"):
        paper = got(dashboard, f"{COINS}/paper")
    assert paper["state"] == "running" and paper["delay"] == 7.5 and paper["largest_delay"] > 7.5
    assert [alert["text"] for alert in paper["alerts"]] == ["version 3 cannot take over"]
    assert got(dashboard, f"{COINS}/paper")["state"] == "not running"


def test_a_paper_account_in_a_folder_of_its_own(dashboard: TestClient, market: Path) -> None:
    shutil.move(market / "agents" / "coins" / "paper", market / "runs" / "my-account")
    (market / "runs" / "other").mkdir()
    (market / "runs" / "other" / "log.jsonl").write_text('{"kind": "something else"}\n')
    assert [row["id"] for row in got(dashboard, "/api/markets")["papers"]] == ["runs/my-account"]
    assert got(dashboard, "/api/markets/runs/my-account/paper")["bars"] == 60


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/api/markets/runs/gone/report", {}, 404),
        ("/api/markets/runs/coins/registry", {}, 404),
        ("/api/markets/runs/coins/paper", {}, 404),
        ("/api/markets/elsewhere/coins/report", {}, 404),
        ("/api/markets/runs/%2e%2e/report", {}, 404),
        (f"{COINS}/report", {"version": "../../x"}, 400),
        (f"{COINS}/report", {"version": "1e30"}, 400),
        (f"{COINS}/audit", {"before": "-1"}, 400),
        (f"{COINS}/series", {"accounts": "../paper", "names": "turnover"}, 404),
        (f"{COINS}/series", {"accounts": "paper"}, 400),
        (f"{COINS}/series", {"accounts": "paper", "names": "turnover", "x": "y"}, 400),
        (f"{COINS}/series", {"accounts": ",".join(f"fold-{k}" for k in range(99)), "names": "turnover"}, 400),
    ],
)
def test_what_is_not_there_is_a_sentence(dashboard: TestClient, path: str, query: Any, status: int) -> None:
    assert refused(dashboard, path, status, **query)


def test_links_are_not_followed(dashboard: TestClient, market: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    shutil.move(market / "runs" / "coins" / "report", secret)
    (market / "runs" / "coins" / "report").symlink_to(secret)
    log = market / "agents" / "coins" / "paper" / "log.jsonl"
    log.rename(tmp_path / "log")
    log.symlink_to(tmp_path / "log")
    assert refused(dashboard, "/api/markets/runs/coins/report") and refused(dashboard, f"{COINS}/paper")
    lists = got(dashboard, "/api/markets")
    assert [row["name"] for row in lists["backtests"]] == ["coins-walk-forward"] and lists["papers"] == []


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"agent": 5, "by_fold": [1, {"fold": "x"}], "notes": [{}], "data": []}']
)
def test_a_report_of_anybody_is_read_or_refused(dashboard: TestClient, market: Path, text: str) -> None:
    (market / "runs" / "coins" / "report" / "report.json").write_text(text)
    row = got(dashboard, "/api/markets")["backtests"][0]
    answer = dashboard.get("/api/markets/runs/coins/report")
    if text.endswith("]}"):
        assert answer.status_code == 200 and row["agent_sharpe"] is None and answer.json()["notes"] == []
    else:
        assert answer.status_code == 409 and "damaged" in row["error"]


def test_a_backtest_of_before_has_figures_and_no_curves(dashboard: TestClient, market: Path) -> None:
    account = market / "runs" / "coins" / "report" / "account.npy"
    account.write_bytes(b"half")
    assert "damaged" in got(dashboard, "/api/markets/runs/coins/report")["problem"]
    account.unlink()
    report = got(dashboard, "/api/markets/runs/coins/report")
    assert report["accounts"] == [] and "rookery backtest" in report["problem"] and report["agent"]


def test_a_new_report_is_seen(dashboard: TestClient, market: Path) -> None:
    path = market / "runs" / "coins" / "report" / "report.json"
    got(dashboard, "/api/markets/runs/coins/report")
    path.write_text(json.dumps({**json.loads(path.read_text()), "verdict": "<b>No.</b>"}))
    assert got(dashboard, "/api/markets/runs/coins/report")["verdict"] == "<b>No.</b>"
