"""From an event in a run's file to its pixel on the page, in a real browser.

A run grows by single events at random moments. The time begins before the event is written and ends with the frame that
shows it: in the chart of the run's page, and in the table of runs. Both clocks are that of the machine.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dashboard_browser import chromium, new_page
from dashboard_runs import STEPS, make_run, metrics
from dashboard_servers import dashboard
from engine_rows import Row

LINES, EVENTS = 2000, 40
VALUE = 1234.0  # of the first event: the return that the table then shows is one more for each
# Notes when each new text of an element is in a frame.
WATCH = """([selector, name]) => {
  const seen = window.seen = {};
  const look = () => {
    const element = document.querySelector(selector), found = name ? element?.getAttribute(name) : element?.textContent;
    if (found) seen[found] ??= performance.timeOrigin + performance.now();
    requestAnimationFrame(look);
  };
  look();
}"""
PICTURE = "() => document.querySelector('.chart canvas').toDataURL()"


def delay_rows(folder: Path) -> Iterator[Row]:
    """The longest of many delays, in both places."""
    make_run(folder / "grown" / "run", 0, *metrics(LINES, random.Random(0)), ended=False)
    with chromium() as browser, dashboard(folder / "grown", folder / "cache") as served:
        page = new_page(browser)
        page.goto(f"{served.url}/runs/grown/run")
        page.wait_for_selector(".chart-place[data-points]")
        page.evaluate(WATCH, [".chart-place", "data-last"])
        before = page.evaluate(PICTURE)
        chart = _delays(page, folder / "grown" / "run", LINES, lambda number: str((number + 1) * STEPS))
        assert page.evaluate(PICTURE) != before, "the chart is not drawn again"
        yield _row("in the chart of its page", chart)
        page.goto(served.url)
        page.wait_for_selector("table tbody tr a[href]")
        page.evaluate(WATCH, ["table tbody tr:has(a[href])", None])
        table = _delays(page, folder / "grown" / "run", LINES + EVENTS, lambda number: f"{VALUE + number:,.0f}")
        yield _row("in the table of runs", table)


def _row(where: str, delays: np.ndarray) -> Row:
    middle, longest = float(np.median(delays)), float(np.max(delays))
    shown = f"longest of {len(delays)} {longest:.2f} s, median {middle:.2f} s"
    return Row(f"from an event in a run's file to its pixel, {where}", shown, "", longest, 1.0, " s", most=True)


def _delays(page: Any, run: Path, first: int, text: Any) -> np.ndarray:
    """Seconds from each event until its text is seen."""
    draws, written = random.Random(0), {}
    page.wait_for_timeout(1000)
    for number in range(first, first + EVENTS):
        written[text(number)] = time.time()
        _append(run, number)
        page.wait_for_timeout(draws.uniform(300, 800))
    page.wait_for_timeout(2000)
    seen = page.evaluate("window.seen")
    first_seen = [min((at for shown, at in seen.items() if word in shown), default=np.inf) for word in written]
    shown = np.minimum.accumulate(first_seen[::-1])[::-1]  # where several come at once, only the newest may be seen
    return shown / 1000 - np.array(list(written.values()))


def _append(run: Path, number: int) -> None:
    """One more event of training."""
    step = (number + 1) * STEPS
    event = {"kind": "progress", "step": step, "time": time.time(), "episode/return": VALUE + number}
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**event, "steps_per_second": 1000.0, "share": 0.5}) + "\n")
