"""A real browser for the benchmarks of the dashboard: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60_000  # milliseconds
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@contextmanager
def chromium() -> Iterator[Any]:
    """A new browser."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # as root it has none
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def new_page(browser: Any) -> Any:
    """A page of ordinary size."""
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page.set_default_timeout(PATIENCE)
    return page


def seconds_until(page: Any, url: str, there: str) -> float:
    """From the address until an element is in the page and painted."""
    started = time.perf_counter()
    page.goto(url)
    page.wait_for_selector(there, state="attached")
    page.evaluate(PAINTED)
    return time.perf_counter() - started
