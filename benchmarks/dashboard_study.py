"""A study of 50,000 trials in the browser, ours and optuna-dashboard's: `python benchmarks/dashboard_study.py`.

Both servers are started anew for each turn and read the same SQLite file. The time is from the address until the plot
of all trials is drawn: for ours also until the best trial, the importances, the curves and the table are there. Needs
Chromium, Playwright and optuna-dashboard.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from engine_rows import Row
from large_study import write_study
from report import measured, parser_for, report

MOST_SECONDS = 2.0
PATIENCE = 180  # seconds for the slower of the two
OURS_THERE = "main[data-complete]"
THEIRS_THERE = ".js-plotly-plot .plot-container"
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@contextmanager
def our_server(database: Path) -> Iterator[str]:
    """The address of the study on a new server of rookery's."""
    folder = database.parent
    command = [sys.executable, "-m", "rookery", "dashboard", "--runs-dir", str(folder.parent), "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
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
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
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


def seconds(browser: Any, url: str, there: str) -> float:
    """From the address to the drawn page."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    try:
        started = time.perf_counter()
        page.goto(url)
        page.wait_for_selector(there, timeout=1000 * PATIENCE, state="attached")
        page.evaluate(DRAWN)
        return time.perf_counter() - started
    finally:
        page.close()


def compared(database: Path, trials: int, rounds: int) -> list[Row]:
    """Ours and theirs in turns; ours once more on a server that has read the study."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise SystemExit("no Chromium: apt-get install chromium")
    ours, again, theirs = [], [], []
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for _ in range(rounds):
            with our_server(database) as url:
                ours.append(seconds(browser, url, OURS_THERE))
                again.append(seconds(browser, url, OURS_THERE))
            with their_server(database) as url:
                theirs.append(seconds(browser, url, THEIRS_THERE))
        browser.close()
    cold, warm, other = median(ours), median(again), median(theirs)
    figures = f"{cold:.2f} s", f"{other:.2f} s"
    return [
        Row(
            f"{trials:,} trials: the page of the study, new server",
            figures[0],
            "-",
            cold,
            MOST_SECONDS,
            " s",
            most=True,
        ),
        Row("the same, server that has read it", f"{warm:.2f} s", "-", warm, MOST_SECONDS, " s", most=True),
        Row("beside optuna-dashboard, new servers", *figures, value=other / cold, least=1.0),
    ]


def main() -> int:
    rows: dict[str, Callable[[], list[Row]]] = {}
    parser = parser_for(__doc__, ["study"], rounds=3)
    parser.add_argument("--trials", type=int, default=50_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = write_study(Path(folder) / "studies" / "large", options.trials)
        rows["study"] = lambda: compared(database, options.trials, options.rounds)
        return report(measured(rows, options.only), "Studies in the browser", options.json)


if __name__ == "__main__":
    sys.exit(main())
