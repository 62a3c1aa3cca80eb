"""A run of a million points in the browser: its curve, a zoom to exact points, and the frames while it moves."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dashboard_browser import chromium, new_page, seconds_until
from dashboard_runs import STEPS, make_run, metrics
from dashboard_servers import METRIC, Served, dashboard
from engine_rows import Row

DATA = "/api/runs/long/run/metrics/data"
DRAWN = ".chart-place[data-points]"
MOVES = 120  # of the mouse, one for each frame
PLACES = 5  # to which is zoomed
# Milliseconds from a new range until its exact points are painted.
ZOOM = """([from, to]) => new Promise((done) => {
  const panel = document.querySelector("figure.panel").panel, began = performance.now();
  panel.board.setRange(from, to);
  const look = () => {
    const isThere = panel.board.loaded && panel.board.exact && !panel.drawing;
    requestAnimationFrame(isThere ? () => done(performance.now() - began) : look);
  };
  look();
})"""
RECORD_FRAMES = """() => {
  const frames = window.frames_seen = [];
  const note = (now) => { frames.push(now); requestAnimationFrame(note); };
  requestAnimationFrame(note);
}"""


def curve_rows(folder: Path, points: int) -> Iterator[Row]:
    """How long a page takes that has one such run."""
    size = make_run(folder / "long" / "run", 0, *metrics(points, random.Random(0)), columns=False)
    what = f"a run of {points / 1e6:g} M points ({size / 1e6:.0f} MB)"
    with chromium() as browser, dashboard(folder / "long", folder / "cache") as served:
        page = new_page(browser)
        seconds_until(page, served.url, "table tbody tr a[href]")
        url = f"{served.url}/runs/long/run"
        yield _seconds(f"{what}: its page with curves drawn from samples, read for the first time",
                       seconds_until(page, url, DRAWN))  # fmt: skip
        read = _wait_for_columns(served)
        yield _seconds(f"the same with the lowest and highest of all points, {read:.0f} s later",
                       median(seconds_until(page, url, DRAWN) for _ in range(5)))  # fmt: skip
        yield _seconds("the same: zoom until the exact points are drawn", _zoom_seconds(page, points))
        yield _frames_row(_frames(page))
        memory = served.megabytes
        yield Row("the same: memory of the server", f"{memory:.0f} MB", "", memory, 300.0, " MB", most=True)


def _seconds(what: str, seconds: float) -> Row:
    return Row(what, f"{seconds:.2f} s", "", seconds, 0.5, " s", most=True)


def _frames_row(frames: np.ndarray) -> Row:
    slow, longest = float(np.percentile(frames, 95)), float(np.max(frames))
    shown = f"{slow:.0f} ms; median {np.median(frames):.0f} ms, longest {longest:.0f} ms"
    return Row("the same: a frame while it is zoomed and moved, 95 %", shown, "", slow, 50.0, " ms", most=True)


def _wait_for_columns(served: Served) -> float:
    """Seconds until the server has read every line."""
    started = time.perf_counter()
    while served.get(DATA, names=METRIC)["sampled"]:
        time.sleep(0.2)
    return time.perf_counter() - started


def _zoom_seconds(page: Any, points: int) -> float:
    """The median over zooms to a thousand points somewhere."""
    places = np.linspace(0.1, 0.9, PLACES) * points
    return median(page.evaluate(ZOOM, [place * STEPS, (place + 1000) * STEPS]) / 1000 for place in places.tolist())


def _frames(page: Any) -> np.ndarray:
    """Milliseconds of the frames while a person zooms by keys and moves the curve with the mouse."""
    page.locator(".chart").first.focus()
    page.keyboard.press("0")
    page.wait_for_timeout(1000)
    page.evaluate(RECORD_FRAMES)
    for key in ("+", "+", "+", "-", "+"):
        page.keyboard.press(key)
        page.wait_for_timeout(400)
    box = page.locator(".u-over").first.bounding_box()
    x, y = box["x"] + 0.7 * box["width"], box["y"] + box["height"] / 2
    page.keyboard.down("Shift")
    page.mouse.move(x, y)
    page.mouse.down()
    for move in range(MOVES):
        page.mouse.move(x - 3 * move, y)
        page.wait_for_timeout(16)
    page.mouse.up()
    page.keyboard.up("Shift")
    return np.diff(page.evaluate("window.frames_seen"))
