"""`rookery report`: one HTML file with everything in it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.web.html_report.inlined_page import inlined_page

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
