"""A study of 50,000 trials in the browser, ours and optuna-dashboard's: `python benchmarks/dashboard_study.py`.

Both servers are started again for each turn and read the same SQLite file. The time is from the address until a dot of
every finished trial is drawn in the plot of their values; for ours also until the parameters of all trials, the best
trial, the importances and the intermediate values are there. Needs Chromium, Playwright and optuna-dashboard.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import TimeoutError as PageTimeout
from playwright.sync_api import sync_playwright

from dashboard_servers import environment
from engine_rows import Row
from large_study import write_study
from report import measured, parser_for, report, said

MOST_SECONDS = 2.0
PATIENCE = 60  # seconds, after which a page is given up
# Whether the page has drawn the values of so many finished trials. Ours draws pixels: many dots share some.
OUR_DOTS = """(finished) => {
  const canvas = document.querySelector('canvas[aria-label^="The value of each trial"]');
  if (!document.querySelector("main[data-trials]") || !canvas?.width) return false;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let blue = 0;
  for (let k = 0; k < pixels.length; k += 4) blue += pixels[k + 3] === 255 && pixels[k + 2] - pixels[k] > 60;
  return blue > Math.min(finished, 10000);
}"""
ALL_OF_OURS = "() => document.querySelector('main[data-complete]')"
# Theirs draws an element for each dot, or on a canvas by WebGL.
THEIR_DOTS = """(finished) => {
  const plot = document.getElementById("plot-history"), count = (trace) => trace.x?.length ?? 0;
  if (!plot || !(plot.data ?? []).some((trace) => count(trace) >= finished)) return false;
  const isDrawnByWebGl = plot.data.some((trace) => trace.type === "scattergl") && plot.querySelector("canvas");
  return isDrawnByWebGl || plot.querySelectorAll(".scatterlayer path.point").length >= finished;
}"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@contextmanager
def our_server(database: Path) -> Iterator[str]:
    """The address of the study on a new server of rookery's."""
    folder = database.parent
    command = [sys.executable, "-m", "rookery", "dashboard", "--runs-dir", str(folder.parent), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    assert server.stdout is not None
    try:
        yield f"{json.loads(server.stdout.readline())['url']}/studies/{folder.parent.name}/{folder.name}"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def their_server(database: Path) -> Iterator[str]:
    """The same of optuna-dashboard's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("optuna-dashboard")
    server = subprocess.Popen(
        [str(program), f"sqlite:///{database}", "--port", str(port), "--host", "127.0.0.1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
    )  # fmt: skip
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}/dashboard/studies/1"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/meta", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("optuna-dashboard does not answer")


def seconds(browser: Any, url: str, finished: int, *conditions: str) -> list[float]:
    """From the address until each condition holds on the page; infinity if it does not in time."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    found = []
    try:
        started = time.perf_counter()
        page.goto(url, wait_until="commit", timeout=1000 * PATIENCE)
        for condition in conditions:
            page.wait_for_function(condition, arg=finished, timeout=1000 * PATIENCE)
            page.evaluate(DRAWN)
            found.append(time.perf_counter() - started)
    except PageTimeout:
        found += [inf] * (len(conditions) - len(found))
    finally:
        page.close()
    return found


def compared(database: Path, trials: int, rounds: int) -> list[Row]:
    """Ours and theirs in turns; ours once more on a server that has read the study."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    ours, again, theirs = [], [], []
    finished = count_finished(database)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for number in range(rounds):
            with our_server(database) as url:
                ours.append(seconds(browser, url, finished, OUR_DOTS, ALL_OF_OURS))
                again.append(seconds(browser, url, finished, OUR_DOTS, ALL_OF_OURS))
            with their_server(database) as url:
                theirs += seconds(browser, url, finished, THEIR_DOTS)
            said(f"round {number + 1} of {rounds}: {ours[-1][1]:.2f} s, optuna-dashboard {theirs[-1]:.1f} s")
        browser.close()
    return rows_of(trials, [median(each) for each in zip(*ours, strict=True)], median(e[1] for e in again), theirs)


def rows_of(trials: int, cold: list[float], warm: float, theirs: list[float]) -> list[Row]:
    """What must be reached: everything of ours, also beside the dots alone of theirs."""
    drawn, everything = cold
    other = median(theirs)
    shown = f"{other:.2f} s" if other < inf else f"not in {PATIENCE} s"

    def within(what: str, value: float) -> Row:
        return Row(what, f"{value:.2f} s", "-", value, MOST_SECONDS, " s", most=True)

    return [
        within(f"{trials:,} trials: all drawn, new server", drawn),
        within("the whole page of the study, new server", everything),
        within("the same, server that has read it", warm),
        Row("beside optuna-dashboard, new servers", f"{everything:.2f} s", shown,
            value=min(other, PATIENCE) / everything, least=1.0),
    ]  # fmt: skip


def count_finished(database: Path) -> int:
    """How many trials have a value to draw."""
    with closing(sqlite3.connect(database)) as reader:
        found: int = reader.execute("SELECT COUNT(*) FROM trials WHERE state = 'COMPLETE'").fetchone()[0]
    return found


def main() -> int:
    rows: dict[str, Callable[[], list[Row]]] = {}
    parser = parser_for(__doc__, ["study"], rounds=3)
    parser.add_argument("--trials", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = write_study(Path(folder) / "studies" / "large", options.trials)
        rows["study"] = lambda: compared(database, options.trials, options.rounds)
        return report(measured(rows, options.only, options.json), "Studies in the browser", options.json)


if __name__ == "__main__":
    sys.exit(main())
