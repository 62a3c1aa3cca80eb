"""A report is opened from a file: the same pages, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.web.html_report.report_file import write_report


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
