"""A report is opened from a file: the same pages, without a server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from rookery.web.html_report import write_report

MARKETS = Path(__file__).parents[2] / "data" / "recorded_markets" / "runs"


def test_it_shows_the_runs(page: Any, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_report([runs / "cartpole_seed1", runs / "cartpole_seed2"], file)
    page.goto(file.as_uri())
    page.get_by_role("link", name="cartpole_seed2").first.click()
    page.locator(".chart canvas").first.wait_for()
    assert page.get_by_role("heading", level=1).inner_text().startswith("cartpole_seed2")
    assert not page.get_by_text("Watch it play").is_visible()
    page.go_back()
    page.get_by_role("link", name="cartpole_seed1").first.wait_for()
    assert page.locator("#views a").all_inner_texts() == ["Runs", "Compare"]


def test_of_one_run_it_opens_on_that_run(page: Any, runs: Path, tmp_path: Path) -> None:
    """Also one with an odd name; the table of runs is one click away."""
    file, name = tmp_path / "report.html", "50 % & more"
    (runs / "cartpole_seed1").rename(runs / name)
    write_report([runs / name], file)
    page.goto(file.as_uri())
    page.locator(".chart canvas").first.wait_for()
    assert page.get_by_role("heading", level=1).inner_text().startswith(name)
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name=name).first.wait_for()


def test_it_shows_bands_and_accounts(page: Any, runs: Path, tmp_path: Path) -> None:
    """Seeds as one band as long as all of them are chosen, and the account of a run that trades."""
    file, seeds = tmp_path / "report.html", [f"cartpole_seed{number}" for number in (1, 2, 3)]
    shutil.copytree(MARKETS / "coins", runs / "coins")
    write_report([runs / name for name in (*seeds, "coins")], file)
    chosen = "&".join(f"run=runs%2F{name}" for name in seeds)
    page.goto(f"{file.as_uri()}#/compare?{chosen}")
    curves = page.locator("table.curves tbody tr")
    curves.nth(2).wait_for()
    page.get_by_label("Seeds as one band").check()
    curves.filter(has_text="3 seeds").wait_for()
    assert curves.count() == 1
    page.get_by_text("Choose runs").click()
    page.get_by_label("Select cartpole_seed3").uncheck()
    page.get_by_label("Draw cartpole_seed1").wait_for()
    assert curves.count() == 2
    settings = page.get_by_role("region", name="Settings that differ").locator("tbody tr")
    assert settings.filter(has_text="seed").locator("td").all_inner_texts() == ["1", "2"]
    page.get_by_role("link", name="Markets").click()
    page.get_by_role("link", name="coins").click()
    page.locator(".chart-place[data-points]").first.wait_for()
    assert "Beats hold after costs" in page.inner_text("main")
    page.get_by_role("link", name="Run", exact=True).click()
    page.get_by_role("link", name="Market account").wait_for()
