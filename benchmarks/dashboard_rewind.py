"""A run with a thousand checkpoints in the browser: until the slider is there, and the frames while it is dragged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np

from dashboard_browser import chromium, new_page, seconds_until
from dashboard_curves import RECORD_FRAMES
from dashboard_runs import START, STEPS, make_run, metrics
from dashboard_servers import dashboard
from engine_rows import Row

LINES = 10_000  # of metrics
SLIDER = "#moment"
DRAWN = ".rewind .ticks path[d]"
MOVES = 150  # of the mouse


def rewind_rows(folder: Path, checkpoints: int) -> Iterator[Row]:
    """The checkpoints are empty folders: the page only lists them."""
    run = folder / "kept" / "run"
    progress, evaluations = metrics(LINES, random.Random(0))
    steps = [STEPS * LINES * (k + 1) // checkpoints for k in range(checkpoints)]
    saved = "".join(f"{json.dumps(_event(step))}\n" for step in steps).encode()
    make_run(run, 0, progress + saved, evaluations)
    for step in steps:
        (run / "checkpoints" / f"step-{step:012d}").mkdir(parents=True)
    what = f"a run with {checkpoints:,} checkpoints"
    with chromium() as browser, dashboard(folder / "kept", folder / "cache") as served:
        page = new_page(browser)
        url = f"{served.url}/runs/kept/run"
        first = seconds_until(page, url, DRAWN)
        warm = median(seconds_until(page, url, DRAWN) for _ in range(5))
        shown = f"{warm:.2f} s; {first:.2f} s from a new server"
        yield Row(f"{what}: its page with the slider", shown, "", warm, 1.0, " s", most=True)
        page.wait_for_timeout(1000)
        page.locator(SLIDER).scroll_into_view_if_needed()
        box = page.locator(SLIDER).bounding_box()
        page.evaluate(RECORD_FRAMES)
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 10, y)
        page.mouse.down()
        for move in range(MOVES):
            page.mouse.move(box["x"] + 10 + move * (box["width"] - 20) / MOVES, y)
            page.wait_for_timeout(10)
        page.mouse.up()
        frames = np.diff(page.evaluate("window.frames_seen"))
        rate, slow = 1000 / float(np.mean(frames)), float(np.percentile(frames, 95))
        shown = f"{rate:.0f} frames/s; 95 % of frames within {slow:.0f} ms"
        yield Row("the same: while the slider is dragged", shown, "", rate, 30.0, " frames/s")


def _event(step: int) -> dict[str, object]:
    path = f"runs/run/checkpoints/step-{step:012d}"
    return {"kind": "checkpoint", "step": step, "time": START, "path": path, "seconds": 0.01, "bytes": 120_000}
