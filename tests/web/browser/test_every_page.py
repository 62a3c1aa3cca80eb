"""What holds for every page: it says what it shows, works for everybody, and is small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from rookery.web.dashboard_server import DashboardServer

PAGES = {
    "runs": "/",
    "compare": "/compare",
    "run": "/runs/runs/cartpole_seed1",
    "studies": "/studies",
    "leagues": "/leagues",
    "play": "/play",
}
LARGEST_FIRST_PAGE = 300_000  # bytes
SCREENS = {"desktop": 1280, "phone": 390}


def opened(page: Any, server: DashboardServer, path: str) -> None:
    """The page, when everything that it asked for has arrived."""
    page.goto(server.url + path)
    page.wait_for_selector("main > :not(.empty)")
    page.wait_for_timeout(300)


@pytest.mark.diagonal
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", PAGES)
def test_nobody_is_kept_out(
    new_page: Any, dashboard: DashboardServer, tmp_path: Path, name: str, screen: str, dark: bool
) -> None:
    """axe finds nothing serious, and nothing is wider than the screen."""
    page = new_page(width=SCREENS[screen], dark=dark)
    opened(page, dashboard, PAGES[name])
    found = Axe().run(page).response["violations"]
    serious = [f"{fault['id']}: {fault['nodes'][0]['html']}" for fault in found if fault["impact"] in BAD]
    assert not serious, "\n".join(serious)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


BAD = ("serious", "critical")


def test_the_first_page_is_small(page: Any, dashboard: DashboardServer) -> None:
    sizes: list[int] = []
    page.on("response", lambda answer: sizes.append(_size(answer)))
    opened(page, dashboard, "/")
    assert sum(sizes) <= LARGEST_FIRST_PAGE


def test_names_are_text(page: Any, dashboard: DashboardServer, runs: Path) -> None:
    """Whoever names a run cannot run anything in the page of somebody who looks at it."""
    name = "<img src=x onerror=document.title='caught'>"
    (runs / "cartpole_seed1").rename(runs / name)
    for path in ("/", "/runs/runs/" + name.replace("<", "%3C").replace(" ", "%20")):
        page.goto(dashboard.url + path)
        page.get_by_text(name).first.wait_for()
        assert page.title() != "caught"
        assert page.locator("img[src=x]").count() == 0


def _size(answer: Any) -> int:
    try:
        return len(answer.body())
    except Exception:
        return 0  # an open stream has no end
