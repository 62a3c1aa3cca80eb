"""`rookery report`: one HTML file with everything in it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.web.html_report import inlined_page, write_report

MARKETS = Path(__file__).parents[2] / "data" / "recorded_markets" / "runs"
RECORDED = Path(__file__).parents[2] / "data" / "recorded_runs"
OUTSIDE = re.compile(r"""(?:src|href)=["'](?!#|/|data:)[^"']""")


def recorded_in(page: str) -> dict:
    return json.loads(re.search(r'id="recorded">(.*?)</script>', page, re.DOTALL)[1])


def test_runs_become_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = shutil.copytree(RECORDED, tmp_path / "runs")
    file = tmp_path / "out.html"
    assert main(["report", "cartpole_seed1", "pendulum_sac", "--runs-dir", str(runs), "--html", str(file)]) == 0
    assert capsys.readouterr().out.strip() == str(file)
    found = recorded_in(file.read_text())
    assert {row["name"] for row in found["rows"]} == {"cartpole_seed1", "pendulum_sac"}
    run = found["runs"]["runs/cartpole_seed1"]
    curves = run["curves"]["steps"][0]
    assert len(curves["x"]) == len(curves["series"]["episode/return"])
    assert run["details"]["row"]["steps"] == 60416


def test_a_missing_folder_is_made(tmp_path: Path) -> None:
    """As by other commands that write a file."""
    file = tmp_path / "new" / "folder" / "out.html"
    assert main(["report", str(RECORDED / "cartpole_seed1"), "--html", str(file)]) == 0
    assert file.stat().st_size > 10_000


@pytest.mark.slow
def test_seeds_are_bands(tmp_path: Path) -> None:
    """Those of the dashboard's comparison, for every metric and axis; a run of another kind is in none."""
    runs = shutil.copytree(RECORDED, tmp_path / "runs")
    write_report([runs / name for name in ("cartpole_seed1", "cartpole_seed2", "pendulum_sac")], tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    bands = recorded_in(page)["bands"]
    assert bands.keys() == {"steps", "time", "episodes"}
    (band,) = bands["steps"]["episode/return"]
    assert band["ids"] == ["runs/cartpole_seed2", "runs/cartpole_seed1"] and "2 seeds" in band["label"]
    assert 10 < len(band["x"]) == len(band["y"]) == len(band["low"]) == len(band["high"]) <= 250
    assert all(low <= mean <= high for low, mean, high in zip(band["low"], band["y"], band["high"], strict=True))
    assert '<html data-report="bands"' in page
    write_report([runs / "cartpole_seed1", runs / "pendulum_sac"], tmp_path / "out.html")
    assert '<html data-report=""' in (tmp_path / "out.html").read_text()


@pytest.mark.slow
def test_accounts_of_markets_are_included(tmp_path: Path) -> None:
    """What the page of a backtest asks for; one whose report is damaged is left out."""
    runs = shutil.copytree(MARKETS, tmp_path / "runs")
    shutil.copytree(runs / "coins", runs / "damaged")
    (runs / "damaged" / "report" / "report.json").write_text("{")
    write_report([runs / "coins", runs / "damaged"], tmp_path / "out.html")
    page = (tmp_path / "out.html").read_text()
    found = recorded_in(page)["markets"]
    assert [row["id"] for row in found["list"]] == ["runs/coins"] and found["of"].keys() == {"runs/coins"}
    account = found["of"]["runs/coins"]["series"]["report"]
    names = {
        "equity/agent",
        "equity/hold",
        "drawdown/equal_weight",
        "cost/fees",
        "cost/funding",
        "turnover",
        "weight/0",
    }
    assert {f"report:{name}" for name in names} <= account["series"].keys()
    assert len(account["x"]) == len(account["series"]["report:equity/agent"]) > 100
    assert found["of"]["runs/coins"]["report"]["agent"]["total_return"] is not None
    assert 'data-report="markets"' in page


def test_a_page_holds_all_that_it_loads() -> None:
    page = inlined_page({"rows": [], "runs": {}, "sparks": {}}, "title")
    assert not OUTSIDE.search(page)
    assert "/static/" not in re.sub(r"data:[^\"]*", "", page)
    modules = json.loads(re.search(r'type="importmap">(.*?)</script>', page)[1])["imports"]
    assert "rookery/main.js" in modules
    assert "rookery/views/run.js" in modules


def test_no_text_leaves_the_data() -> None:
    page = inlined_page({"rows": ["</script><script>alert(1)</script>"]}, "<b>")
    assert "<script>alert" not in page
    assert recorded_in(page)["rows"] == ["</script><script>alert(1)</script>"]
    assert "<title>&lt;b&gt;</title>" in page


@pytest.mark.parametrize(("words", "problem"), [(["--html", "a.pdf"], "should end in .html"), ([], "no run")])
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert main(["report", "nothing", "--runs-dir", str(tmp_path), *words]) == 2
    assert problem in capsys.readouterr().err
