"""A real browser on a real server: Debian's Chromium, driven by Playwright.

Every page of these tests fails at its end if the browser reported an error or asked anybody but the dashboard.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rookery.web.dashboard_server import DashboardServer

RECORDED = Path(__file__).parents[2] / "data" / "recorded_runs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 20  # that a page may take on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/web/browser/"):
            item.add_marker(pytest.mark.web)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Without a sandbox only as root, where Chromium has none.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=program, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A copy of the recorded runs, which a test may change."""
    return Path(shutil.copytree(RECORDED, tmp_path / "runs"))


@pytest.fixture
def dashboard(runs: Path) -> Iterator[DashboardServer]:
    """A dashboard of the recorded runs."""
    with DashboardServer([runs], port=0) as server:
        yield server


@pytest.fixture
def new_page(browser: Any, dashboard: DashboardServer) -> Iterator[Any]:
    """Makes pages: `new_page(width=390, dark=True)`. What was wrong in any of them is told at the end. They are closed
    before the dashboard ends, which would be an error to them."""
    contexts, problems = [], []

    def make(width: int = 1280, height: int = 800, dark: bool = False) -> Any:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(1000 * SECONDS)
        context.route(_is_foreign, lambda route: _refuse(route, problems))
        page = context.new_page()
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        contexts.append(context)
        page.problems = problems
        return page

    yield make
    for context in contexts:
        context.close()
    assert not problems, "\n".join(problems)


@pytest.fixture
def page(new_page: Any) -> Any:
    """A page of ordinary size."""
    return new_page()


def _is_foreign(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob", "file") and parts.hostname not in ("127.0.0.1", "localhost")


def _refuse(route: Any, problems: list[str]) -> None:
    problems.append(f"asked {route.request.url}")
    route.abort()
