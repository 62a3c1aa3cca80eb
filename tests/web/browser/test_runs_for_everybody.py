"""The table of runs and the comparison with everything open: axe finds nothing serious in light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web.dashboard_server import DashboardServer
from web.browser.many_runs import row, serve_curves, serve_rows

ROWS = [
    *(row(number, tags=["baseline"]) for number in range(60)),
    row(60, state="running", stuck="no event for 14 min"),
    *(row(61 + i, state=state) for i, state in enumerate(["running", "failed", "interrupted", "unreadable"])),
]


@pytest.mark.diagonal
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_table_with_a_selection_and_an_open_menu(
    new_page: Any, dashboard: DashboardServer, width: int, dark: bool
) -> None:
    page = new_page(width=width, dark=dark)
    serve_rows(page, ROWS)
    page.goto(dashboard.url)
    page.get_by_label("Select run-0062", exact=True).check()
    page.locator(".states button", has_text="running").click()
    page.get_by_role("button", name="Columns").click()
    assert serious(page) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_curves_with_their_settings(new_page: Any, dashboard: DashboardServer, dark: bool) -> None:
    page = new_page(dark=dark)
    serve_rows(page, ROWS)
    serve_curves(page)
    page.goto(dashboard.url + "/compare?run=runs/run-0001&run=runs/run-0002")
    page.get_by_role("region", name="Settings that differ").wait_for()
    page.get_by_text("Choose runs").click()
    assert serious(page) == []


def serious(page: Any) -> list[str]:
    """What axe finds that keeps somebody out."""
    found = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found if one["impact"] in ("serious", "critical")]
