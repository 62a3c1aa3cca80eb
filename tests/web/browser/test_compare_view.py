"""The comparison of runs: curves one over the other, as the address says."""

from __future__ import annotations

from typing import Any

from rookery.web.dashboard_server import DashboardServer
from web.browser.many_runs import row, serve_curves, serve_rows, until

ROWS = [row(number) for number in range(20)]
TWO = "/compare?run=runs/run-0001&run=runs/run-0002"


def test_two_runs_are_drawn_and_named(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS)
    asked = serve_curves(page)
    page.goto(dashboard.url + TWO)
    page.wait_for_selector(".chart canvas")
    assert page.locator("table.curves tbody tr").count() == 2
    assert page.get_by_role("img", name="episode/return of 2 runs over steps").is_visible()
    assert "metric=episode%2Freturn" in asked[-1]
    page.get_by_role("region", name="Settings that differ").wait_for()
    assert page.get_by_role("row", name="ppo.learning_rate 0.001 0.0003").is_visible()


def test_what_is_chosen_is_in_the_address(new_page: Any, dashboard: DashboardServer) -> None:
    page = new_page()
    serve_rows(page, ROWS)
    serve_curves(page)
    page.goto(dashboard.url + TWO)
    page.wait_for_selector(".chart canvas")
    page.get_by_label("Metric").select_option("ppo/loss")
    page.get_by_text("Time", exact=True).click()
    page.get_by_label("Smoothing").fill("0.6")
    page.get_by_label("Seeds as one band").check()
    until(page, "location.search.includes('bands=seeds') && location.search.includes('x=time')")
    other = new_page()
    serve_rows(other, ROWS)
    asked = serve_curves(other)
    other.goto(page.url)
    other.wait_for_selector(".chart canvas")
    assert all(word in asked[-1] for word in ("metric=ppo%2Floss", "x=time", "smoothing=0.6", "bands=seeds"))
    assert other.get_by_label("Metric").input_value() == "ppo/loss"
    assert other.get_by_label("Seeds as one band").is_checked()


def test_the_cursor_tells_the_values(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS)
    serve_curves(page)
    page.goto(dashboard.url + TWO)
    box = page.locator(".chart .u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.locator(".tooltip div").nth(1).wait_for()
    assert "run-0002" in page.locator(".tooltip").inner_text()


def test_a_zoom_stays_while_runs_go_on(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS)
    asked = serve_curves(page)
    page.goto(dashboard.url + TWO)
    box = page.locator(".chart .u-over").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 50)
    page.mouse.up()
    canvas = page.locator(".chart canvas")
    canvas.evaluate("element => { element.marked = true; }")
    before = len(asked)
    page.evaluate("rows => tell('rows', { rows, gone: [] })", [row(1, steps=5000)])
    page.wait_for_timeout(3600)
    assert len(asked) == before + 1
    assert canvas.evaluate("element => element.marked")


def test_runs_are_chosen_in_the_page(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS)
    serve_curves(page)
    page.goto(dashboard.url + "/compare")
    page.get_by_label("Select run-0019", exact=True).check()
    page.get_by_label("Select run-0017", exact=True).check()
    until(page, "document.querySelectorAll('table.curves tbody tr').length === 2")
    page.get_by_role("button", name="Remove runs/run-0019").click()
    until(page, "document.querySelectorAll('table.curves tbody tr').length === 1")
    assert not page.get_by_label("Select run-0019", exact=True).is_checked()


def test_a_metric_that_no_run_has(page: Any, dashboard: DashboardServer) -> None:
    serve_rows(page, ROWS)
    serve_curves(page)
    page.route(
        "**/api/compare*",
        lambda route: route.fulfill(json={"curves": [{"id": "runs/run-0001", "label": "a", "x": [], "y": []}]}),
    )
    page.goto(dashboard.url + TWO + "&metric=eval/return")
    page.get_by_text("No run chosen has the metric eval/return.").wait_for()
    assert page.locator(".chart canvas").count() == 0
