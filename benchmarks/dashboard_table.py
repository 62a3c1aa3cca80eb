"""A thousand runs in the browser: until the table is there, and the memory of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from dashboard_browser import chromium, new_page, seconds_until
from dashboard_runs import make_runs
from dashboard_servers import dashboard, timed
from engine_rows import Row

FIRST_ROW = "table tbody tr a[href]"


def table_rows(folder: Path, runs: int, lines: int) -> Iterator[Row]:
    """Cold is a server that has just started, with files in the page cache of the system."""
    size = make_runs(folder / "many", runs, lines)
    what = f"{runs:,} runs, {runs * lines / 1e6:g} M lines of metrics ({size / 1e9:.1f} GB)"
    with chromium() as browser, dashboard(folder / "many", folder / "cache") as served:
        page = new_page(browser)
        cold = seconds_until(page, served.url, FIRST_ROW)
        yield Row(f"{what}: first table in the browser, cold", f"{cold:.2f} s", "", cold, 2.0, " s", most=True)
        warm = median(seconds_until(page, served.url, FIRST_ROW) for _ in range(5))
        answer = median(timed(lambda: served.get("/api/runs")) for _ in range(5))
        yield Row("the same, warm", f"{warm:.2f} s; /api/runs {answer:.2f} s", "", warm, 0.5, " s", most=True)
        page.wait_for_timeout(2000)  # spark lines and the stream of the table
        memory = served.megabytes
        yield Row("the same: memory of the server", f"{memory:.0f} MB", "", memory, 300.0, " MB", most=True)
