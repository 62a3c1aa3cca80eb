"""The table of runs: found, sorted, selected, live, and the same for whoever is sent its address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.web.dashboard_server import DashboardServer
from web.browser.many_runs import row, serve_rows, until

ROWS = [row(number) for number in range(1000)]
NAMES = "tbody tr:not(.gap) th a"


@pytest.fixture
def table(page: Any, dashboard: DashboardServer) -> Any:
    """The page of a thousand runs."""
    serve_rows(page, ROWS)
    page.goto(dashboard.url)
    page.wait_for_selector(NAMES)
    return page


def test_newest_first_and_only_what_is_in_sight_is_drawn(table: Any) -> None:
    assert table.locator(NAMES).first.inner_text() == "run-0999"
    assert table.locator("table").get_attribute("aria-rowcount") == "1001"
    assert table.locator("tbody tr").count() < 100


def test_a_folder_that_does_not_answer_is_named(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS[:3], silent=["drive"])
    page.goto(dashboard.url)
    page.get_by_text("The folder drive does not answer").wait_for()
    assert page.locator(NAMES).count() == 3


def test_the_three_best_are_found_and_compared(table: Any) -> None:
    table.get_by_role("button", name="Return").click()
    assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    for name in ("run-0999", "run-0998", "run-0997"):
        table.get_by_label(f"Select {name}", exact=True).check()
    table.get_by_role("link", name="Compare 3 runs").wait_for()
    target = table.get_by_role("link", name="Compare 3 runs").get_attribute("href")
    assert target == "/compare?run=old/run-0999&run=runs/run-0998&run=runs/run-0997"


def test_an_address_is_the_whole_state(new_page: Any, dashboard: DashboardServer) -> None:
    first = new_page()
    serve_rows(first, ROWS)
    first.goto(dashboard.url)
    first.get_by_role("button", name="Return").click()
    first.get_by_role("button", name="Return").click()
    first.get_by_role("searchbox").fill("hockey 99")
    first.locator(".states button", has_text="finished").click()
    first.get_by_label("Select run-0099", exact=True).check()
    until(first, "location.search.includes('run=old/run-0099')")
    second = new_page()
    serve_rows(second, ROWS)
    second.goto(first.url)
    second.wait_for_selector(NAMES)
    assert second.locator(NAMES).all_inner_texts() == first.locator(NAMES).all_inner_texts()
    assert second.locator(NAMES).first.inner_text() == "run-0099"
    assert second.get_by_label("Select run-0099", exact=True).is_checked()
    assert second.get_by_role("searchbox").input_value() == "hockey 99"


def test_news_leave_scroll_focus_and_selection_alone(table: Any) -> None:
    table.get_by_label("Select run-0998", exact=True).check()
    table.evaluate("document.querySelector('.data-table').scrollTop = 20000")
    table.wait_for_selector("text=run-0540")
    table.get_by_role("link", name="run-0540").focus()
    table.wait_for_timeout(1700)  # nobody points at the table any more
    before = table.get_by_role("link", name="run-0540").bounding_box()
    new = [row(number) for number in range(1000, 1003)]
    table.evaluate("rows => tell('rows', { rows, gone: [] })", new)
    until(table, "document.querySelector('table').getAttribute('aria-rowcount') === '1004'")
    assert table.get_by_role("link", name="run-0540").bounding_box() == before
    assert table.evaluate("document.activeElement.textContent") == "run-0540"
    assert "1 selected" in table.locator(".selection").inner_text()


def test_a_row_changes_and_goes(table: Any) -> None:
    changed = row(998, state="failed", steps=777_000)
    table.evaluate("rows => tell('rows', { rows, gone: ['old/run-0999'] })", [changed])
    until(table, "document.querySelector('tbody').textContent.includes('777 k')")
    assert table.locator(NAMES).first.inner_text() == "run-0998"
    assert table.locator("tbody tr:not(.gap)").first.locator("td .state.failed").is_visible()


def test_after_a_restart_the_server_tells_everything(table: Any) -> None:
    table.evaluate("rows => tell('rows', { rows, gone: [], all: true })", ROWS[:3])
    until(table, "document.querySelectorAll('tbody tr:not(.gap)').length === 3")


def test_the_order_waits_while_somebody_points_at_the_table(table: Any) -> None:
    table.get_by_role("button", name="Return").click()
    table.locator(NAMES).nth(3).hover()
    table.evaluate("rows => tell('rows', { rows, gone: [] })", [row(998, **{"return": 5000.0})])
    until(table, "document.querySelector('tbody').textContent.includes('5,000')")
    assert table.locator(NAMES).first.inner_text() == "run-0999"
    until(table, f"document.querySelector({NAMES!r}).textContent === 'run-0998'")


def test_what_is_stuck_is_told_first(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, [row(1), row(2, state="running", stuck="no event for 14 min; worker 3 is silent")])
    page.goto(dashboard.url)
    page.get_by_text("no event for 14 min; worker 3 is silent").wait_for()
    page.locator(".states button", has_text="stuck").click()
    until(page, "document.querySelectorAll('tbody tr:not(.gap)').length === 1")


def test_keys_lead_through_the_table(table: Any) -> None:
    table.keyboard.press("/")
    assert table.evaluate("document.activeElement.type") == "search"
    table.locator(NAMES).first.focus()
    for _ in range(40):
        table.keyboard.press("ArrowDown")
    assert table.evaluate("document.activeElement.textContent") == "run-0959"
    for _ in range(5):
        table.keyboard.press("ArrowUp")
    assert table.evaluate("document.activeElement.textContent") == "run-0964"


def test_shift_selects_a_range(table: Any) -> None:
    table.get_by_label("Select run-0999", exact=True).click()
    table.get_by_label("Select run-0995", exact=True).click(modifiers=["Shift"])
    assert "5 selected" in table.locator(".selection").inner_text()
    table.get_by_role("button", name="Clear", exact=True).click()
    assert table.locator(".selection").is_hidden()


def test_the_other_seeds_of_a_run(table: Any) -> None:
    table.get_by_label("Select run-0997", exact=True).check()
    table.get_by_role("button", name="Other seeds").click()
    until(table, "document.querySelectorAll('tr.picked').length === 5")


def test_columns_are_chosen_on_a_phone(new_page: Any, dashboard: DashboardServer) -> None:
    page = new_page(width=390, height=844)
    serve_rows(page, ROWS)
    page.goto(dashboard.url)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Seed").check()
    assert page.get_by_role("columnheader", name="Seed").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    until(page, "location.search.includes('column=seed')")


def test_hidden_runs_and_no_match(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, [row(1), row(2, hidden=True)])
    page.goto(dashboard.url)
    page.wait_for_selector(NAMES)
    assert page.locator(NAMES).all_inner_texts() == ["run-0001"]
    page.get_by_label("Show 1 hidden").check()
    assert page.locator(NAMES).count() == 2
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_role("button", name="Clear the filters").click()
    assert page.locator(NAMES).count() == 2


def test_without_runs_it_says_what_to_type(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, [])
    page.goto(dashboard.url)
    page.get_by_text("No runs yet").wait_for()
    assert page.get_by_text("rookery train CartPole-v1", exact=True).is_visible()
    page.evaluate("rows => tell('rows', { rows, gone: [] })", [row(1)])
    page.wait_for_selector(NAMES)
    assert page.get_by_text("No runs yet").is_hidden()


def test_the_last_of_a_thousand_rows_is_reached(table: Any) -> None:
    table.locator(".data-table").evaluate("box => { box.scrollTop = box.scrollHeight; }")
    table.get_by_role("link", name="run-0000").wait_for()
    last = table.locator("tbody tr:not(.gap)").last
    assert last.get_attribute("aria-rowindex") == "1001"
    assert table.locator("tbody tr").count() < 100


def test_settings_in_names(page: Any, dashboard: DashboardServer, runs: Path) -> None:
    """A run whose name has a comma and a percent sign has its curve, and can be compared."""
    (runs / "cartpole_seed1").rename(runs / "lr=0.1,gamma=50%")
    page.goto(dashboard.url)
    page.locator("tr", has_text="lr=0.1,gamma=50%").locator(".spark polyline").wait_for()
    page.get_by_label("Select lr=0.1,gamma=50%", exact=True).check()
    page.get_by_role("link", name="Show its curves").click()
    page.wait_for_selector(".chart canvas")
    assert page.locator("table.curves tbody tr").inner_text().startswith("lr=0.1,gamma=50%")


def test_runs_are_tagged_and_hidden(new_page: Any, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --allow-control; the table and its filters show it, also after the page is loaded again."""
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    with DashboardServer([runs], port=0, allow_control=True) as server:
        page = new_page()
        page.goto(server.url)
        page.get_by_label("Select cartpole_seed1", exact=True).check()
        page.get_by_role("button", name="Tag", exact=True).last.click()
        page.get_by_label("Tag", exact=True).fill("baseline")
        page.get_by_role("button", name="Add", exact=True).click()
        page.locator("tr", has_text="cartpole_seed1").locator(".tag", has_text="baseline").wait_for()
        page.get_by_role("button", name="Hide from the table").click()
        page.get_by_label("Show 1 hidden").wait_for()
        page.goto(server.url + "/?tag=baseline&hidden=1")
        page.wait_for_selector(NAMES)
        assert page.locator(NAMES).all_inner_texts() == ["cartpole_seed1"]
        page.context.close()
