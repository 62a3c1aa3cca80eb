"""Every page of the dashboard checked by axe, and the weight of the first one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dashboard_browser import chromium, new_page
from dashboard_servers import dashboard
from engine_rows import Row
from large_study import write_study

DATA = Path(__file__).parent.parent / "tests" / "data"
RECORDED = {  # and where they are copied to
    "recorded_runs": "", "recorded_leagues": "", "recorded_markets/runs": "",
    "recorded_markets/agents/coins": "registry",
}  # fmt: skip
TRIALS = 200
PAGES = (
    "/", "/compare?run=runs/cartpole_seed1&run=runs/cartpole_seed2", "/runs/runs/cartpole_seed1", "/studies",
    "/studies/runs/study", "/leagues", "/leagues/runs/icehouse", "/markets",
    "/markets/backtest/runs/coins-walk-forward", "/markets/registry/runs/registry",
    "/markets/paper/runs/registry", "/play",
)  # fmt: skip
SCHEMES = ("light", "dark")
MOST_KB = 300.0


def page_check_rows(folder: Path) -> Iterator[Row]:
    """Serious findings of all pages, light and dark; kilobytes until the first page is there."""
    copy_recorded(folder / "runs")
    with chromium() as browser, dashboard(folder / "runs", folder / "cache") as served:
        weight = _weight(new_page(browser), served.url)
        yield Row("weight of the first page, not compressed", f"{weight:.0f} kB", "", weight, MOST_KB, " kB", most=True)
        found = [fault for scheme in SCHEMES for path in PAGES for fault in _faults(browser, scheme, served.url + path)]
    for fault in found:
        print(fault)
    number = len(found)
    checked = f"{number} in {len(PAGES)} pages, light and dark"
    yield Row("serious findings of axe", checked, "", number, 0, unit="", most=True)


def copy_recorded(folder: Path) -> None:
    """The runs, leagues and markets that the tests have recorded, and a study, in one folder."""
    for recorded, place in RECORDED.items():
        shutil.copytree(DATA / recorded, folder / place, dirs_exist_ok=True)
    write_study(folder / "study", TRIALS)


def _faults(browser: Any, scheme: str, url: str) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    page = new_page(browser)
    page.emulate_media(color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("main > :not(.empty)")
    page.wait_for_timeout(500)
    found = Axe().run(page).response["violations"]
    page.close()
    return [
        f"{scheme} {url}: {one['id']}: {one['nodes'][0]['html']}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def _weight(page: Any, url: str) -> float:
    """Kilobytes of everything that the first page asks for; an open stream has no end and is not counted."""
    answers: list[Any] = []
    page.on("requestfinished", lambda request: answers.append(request.response()))
    page.goto(url)
    page.wait_for_selector("table tbody tr a[href]")
    page.wait_for_timeout(1000)
    return sum(len(answer.body()) for answer in answers if answer) / 1e3
