"""Hockey played in a page: frames a second, and the time from a key to the frame that shows it, in a real browser.

A person's keys are pressed by Playwright in Debian's Chromium. The time of a key is that of the browser's own event;
the time of a frame is when the page has drawn it. Every frame carries the number of the last key that its step used.
Keys between two games move nothing, and are not counted.

python benchmarks/dashboard_play.py
python benchmarks/dashboard_play.py --seconds 20 --keys 100 --json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from typing import Any

import numpy as np

from engine_rows import Row
from rookery.web.dashboard_server import DashboardServer

LEAST_FPS, MOST_MS = 30.0, 50.0  # what must be reached
KEYS = ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Space", "q")
RECORD = """() => {
  const canvas = document.querySelector("canvas");
  window.drawn = [];
  canvas.addEventListener("drawn", ({ detail }) => window.drawn.push([detail.time, detail.delay]));
  canvas.focus();
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="for which it is played (10)")
    parser.add_argument("--keys", type=int, default=60, metavar="N", help="keys that are pressed in the meantime (60)")
    parser.add_argument("--json", action="store_true", help="print the row as JSON")
    options = parser.parse_args()
    row = measure(options.seconds, options.keys)
    if options.json:
        print(json.dumps(row))
    else:
        for name, value in row.items():
            print(f"{name:28} {value}")
    return 0 if row["passed"] else 1


def measure(seconds: float, keys: int) -> dict[str, Any]:
    """Play against the agent that comes with rookery."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        tempfile.TemporaryDirectory() as folder,
        DashboardServer([folder], port=0) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(f"{server.url}/play?agent=hockey&opponent=human")
        page.wait_for_selector("canvas", timeout=180_000)
        page.wait_for_timeout(2000)
        page.evaluate(RECORD)
        _press(page, seconds, keys)
        drawn = page.evaluate("window.drawn")
        browser.close()
    return _row(drawn, keys)


def play_rows(seconds: float, keys: int) -> list[Row]:
    """Frames a second, and the time from a key to its frame."""
    found = measure(seconds, keys)
    rate, delay = found["frames/s"], found["key to frame ms, median"]
    frames = f"{rate:.1f}/s, longest {found['longest frame ms']:.0f} ms"
    delays = f"median of {found['keys']} {delay:.0f} ms, 95 % {found['key to frame ms, 95 %']:.0f} ms"
    return [
        Row("hockey played in the page: frames", frames, "", rate, LEAST_FPS, "/s"),
        Row("hockey played in the page: from a key to its frame", delays, "", delay, MOST_MS, " ms", most=True),
    ]


def _press(page: Any, seconds: float, keys: int) -> None:
    """Press and release keys at random moments."""
    draws = random.Random(0)
    for _ in range(keys):
        page.keyboard.down(key := draws.choice(KEYS))
        page.wait_for_timeout(1000 * seconds / keys * draws.uniform(0.3, 0.7))
        page.keyboard.up(key)
        page.wait_for_timeout(1000 * seconds / keys * draws.uniform(0.3, 0.7))


def _row(drawn: list[list[float | None]], keys: int) -> dict[str, Any]:
    times = np.array([time for time, _ in drawn], float)
    delays = np.array([delay for _, delay in drawn if delay is not None], float)
    rate = (len(times) - 1) / (times[-1] - times[0]) * 1000.0
    middle, high = np.percentile(delays, [50, 95])
    return {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "frames/s": round(float(rate), 1),
        "longest frame ms": round(float(np.diff(times).max()), 1),
        "key to frame ms, median": round(float(middle), 1),
        "key to frame ms, 95 %": round(float(high), 1),
        "keys": len(delays),
        "passed": bool(rate >= LEAST_FPS and middle <= MOST_MS and len(delays) >= keys // 2),
    }


if __name__ == "__main__":
    sys.exit(main())
