"""The market pages in a browser: from the lists to backtests, folds, a registry and a paper account that grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web.dashboard_server import DashboardServer
from web.markets.recorded_market import copied

NAME = "<img src=x onerror=document.title='caught'>"
DRAWN = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
PAGES = {
    "/markets": "main[data-complete]",
    "/markets/backtest/runs/coins": "main[data-complete]",
    "/markets/backtest/runs/coins-walk-forward?account=fold-2": "main[data-complete]",
    "/markets/registry/agents/coins": "main[data-complete]",
    "/markets/paper/agents/coins": "main[data-bars]",
}


@pytest.fixture
def market(tmp_path: Path) -> Path:
    return copied(tmp_path)


@pytest.fixture
def server(market: Path) -> Iterator[DashboardServer]:
    with DashboardServer([market / "runs", market / "agents"], port=0) as made:
        yield made


def shown_charts(page: Any) -> int:
    """How many charts there are, after each was scrolled to and has drawn something."""
    places = page.locator(".chart-place")
    for k in range(places.count()):
        places.nth(k).scroll_into_view_if_needed()
        canvas = places.nth(k).locator("canvas")
        canvas.wait_for()
        assert canvas.evaluate(DRAWN)
    return int(places.count())


def test_from_the_list_to_a_fold(server: DashboardServer, page: Any) -> None:
    page.goto(f"{server.url}/markets")
    page.get_by_role("link", name="coins-walk-forward").click()
    page.wait_for_selector("main[data-complete]")
    assert shown_charts(page) == 7
    assert "above that of holding in 3 of 3 folds" in page.inner_text("main")
    page.get_by_label("Charts of").select_option("fold-2")
    page.wait_for_url("**account=fold-2")
    equity = page.get_by_role("group", name=re.compile("^Equity over"))
    equity.focus()
    equity.press("+")
    page.get_by_text("A double click shows all").wait_for()
    page.get_by_role("link", name="Fold 1").wait_for()


def test_a_run_leads_to_its_account(server: DashboardServer, page: Any) -> None:
    page.goto(f"{server.url}/runs/runs/coins")
    page.get_by_role("link", name="Market account").click()
    page.wait_for_url("**/markets/backtest/runs/coins")
    page.get_by_text("Beats hold after costs").wait_for()
    page.get_by_role("link", name="Run", exact=True).click()
    page.wait_for_url("**/runs/runs/coins")
    assert page.get_by_role("heading", level=1).inner_text() == "coins"


def test_champion_and_challenger(server: DashboardServer, page: Any) -> None:
    page.goto(f"{server.url}/markets/registry/agents/coins")
    page.wait_for_selector("main[data-complete]")
    assert page.locator(".conditions .bad").inner_text() == "fails" and page.locator(".conditions .good").count() == 4
    assert shown_charts(page) == 2
    log = page.get_by_role("region", name="Audit log")
    assert log.locator("tbody tr").count() == 5
    log.locator("summary").first.click()
    assert '"passed": false' in log.locator("pre").first.inner_text()
    page.get_by_role("link", name="Its backtest").first.click()
    page.wait_for_url("**/markets/backtest/agents/coins?version=1")
    page.get_by_role("heading", name="coins, version 1").wait_for()


def test_a_paper_account_grows_in_the_page(server: DashboardServer, page: Any, market: Path) -> None:
    log = market / "agents" / "coins" / "paper" / "log.jsonl"
    whole = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(whole[:41]))
    page.goto(f"{server.url}/markets/paper/agents/coins")
    page.wait_for_selector("main[data-bars='40']")
    assert shown_charts(page) == 5
    turnover = page.locator(".chart-place").last
    before = turnover.get_attribute("data-last")
    with log.open("ab") as file:
        file.writelines(whole[41:])
    page.wait_for_selector("main[data-bars='60']")
    page.wait_for_function("([place, last]) => place.dataset.last !== last", arg=[turnover.element_handle(), before])
    assert float(turnover.get_attribute("data-last")) == json.loads(whole[60])["time"]
    page.get_by_role("link", name="Account of the challenger").click()
    page.get_by_role("heading", name="coins: shadow account").wait_for()


def test_texts_of_files_are_text(server: DashboardServer, page: Any, market: Path) -> None:
    """Whoever writes a report or a log cannot run anything in the page of somebody who looks at it."""
    path = market / "runs" / "coins" / "report" / "report.json"
    report = {**json.loads(path.read_text()), "verdict": NAME, "notes": [NAME], "world": NAME}
    report["by_asset"][0]["symbol"] = NAME
    path.write_text(json.dumps(report))
    audit = market / "agents" / "coins" / "audit.jsonl"
    audit.write_text(json.dumps({"entry": 1, "what": NAME, "who": NAME, "evidence": {"why": NAME}}) + "\n")
    for address in ("/markets", "/markets/backtest/runs/coins", "/markets/registry/agents/coins"):
        page.goto(server.url + address)
        page.get_by_text(NAME).first.wait_for()
        assert page.title() != "caught" and page.locator("img[src=x]").count() == 0


@pytest.mark.push("phone, dark")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["desktop", "phone, dark"])
def test_nobody_is_kept_out_of_markets(server: DashboardServer, new_page: Any, width: int, dark: bool) -> None:
    page = new_page(width=width, dark=dark)
    for path, ready in PAGES.items():
        page.goto(server.url + path)
        page.wait_for_selector(ready)
        page.wait_for_timeout(200)
        found = Axe().run(page).response["violations"]
        serious = [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in BAD]
        assert not serious, "\n".join([path, *serious])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


BAD = ("serious", "critical")


def test_nothing_of_a_market_yet(dashboard: DashboardServer, page: Any) -> None:
    page.goto(f"{dashboard.url}/markets")
    page.get_by_text("Nothing of a market yet").wait_for()
    assert page.locator("main table").count() == 0
