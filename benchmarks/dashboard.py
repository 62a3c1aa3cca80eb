"""How fast the dashboard shows many runs and long ones: `python benchmarks/dashboard.py [--only NAME ...]`.

It makes 1,000 runs with 10 million lines of metrics in a temporary folder (8 GB; --runs and --lines for fewer), and
opens the pages in Debian's Chromium, which Playwright drives. Cold is a server that has just started, with the files in
the page cache of the system. Exits with 1 if a figure misses what it must reach.

- table: until the first rows of all runs are in the browser, cold and warm; the memory of the server
- curve: a run of 1 million points, until its curve can be drawn, when nothing is known about it yet and when its
  columns are there; a zoom to exact points
- tensorboard: 250 runs, until the curves of all of them are there, beside TensorBoard on the event files of the same
  runs; the memory of both servers
- cost: steps per second of a training run, without and with a dashboard and a reader of the run's stream
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import psutil

from dashboard_runs import make_run, make_runs, metrics
from engine_rows import Row
from report import measured, parser_for, report

ROWS = ("table", "curve", "tensorboard", "cost")
CHROMIUM = "/usr/bin/chromium"
FIRST_ROW = "table tbody tr a[href]"
METRIC = "episode/return"
TENSORBOARD_RUNS, TENSORBOARD_LINES = 250, 1000
TRAIN = ("train", "CartPole-v1", "--steps", "6000000", "--set", "evaluation.episodes=1", "--quiet")


@dataclass
class Served:
    """A server at work: its address and its process."""

    url: str
    process: psutil.Process

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at a path."""
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=600) as answer:
            return json.loads(answer.read())

    @property
    def megabytes(self) -> float:
        """Of the server and its children."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in processes) / 1e6


@contextmanager
def dashboard(folder: Path, cache: Path) -> Iterator[Served]:
    """A dashboard in a process of its own, with a cache of its own."""
    code = "from rookery.cli.main import main; main()"
    command = [sys.executable, "-c", code, "dashboard", "--json", "--port", "0", "--runs-dir", str(folder)]
    environment = {**os.environ, "ROOKERY_CACHE": str(cache)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        yield Served(json.loads(process.stdout.readline())["url"], psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def table_rows(folder: Path, runs: int, lines: int) -> list[Row]:
    """The first table in a browser."""
    from playwright.sync_api import sync_playwright

    size = make_runs(folder / "many", runs, lines)
    what = f"{runs:,} runs, {runs * lines / 1e6:g} M lines, {size / 1e9:.1f} GB"
    with sync_playwright() as play, dashboard(folder / "many", folder / "cache") as served:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()

        def show() -> None:
            page.goto(served.url)
            page.wait_for_selector(FIRST_ROW, timeout=60_000)

        cold = timed(show)
        warm = float(np.median([timed(show) for _ in range(5)]))
        answer = float(np.median([timed(lambda: served.get("/api/runs")) for _ in range(5)]))
        page.wait_for_timeout(2000)  # spark lines and the stream of the table
        memory = served.megabytes
        browser.close()
    return [
        Row(f"first table in the browser, cold: {what}", f"{cold:.2f} s", "", cold, 2.0, " s", most=True),
        Row("the same, warm", f"{warm:.2f} s; /api/runs {answer:.3f} s", "", warm, 0.5, " s", most=True),
        Row("memory of the server", f"{memory:.0f} MB", "", memory, 300.0, " MB", most=True),
    ]


def curve_rows(folder: Path, points: int) -> list[Row]:
    """A run of many points, as the page asks for it."""
    size = make_run(folder / "long" / "run", 0, *metrics(points, random.Random(0)))
    path = "/api/runs/long/run/metrics/data"
    with dashboard(folder / "long", folder / "cache") as served:
        served.get("/api/health")
        first = timed(lambda: served.get(path, names=METRIC))
        half = {"from": points // 2 * 1024, "to": (points // 2 + 1000) * 1024}
        zoom = timed(lambda: served.get(path, names=METRIC, **half))
        assert served.get(path, names=METRIC, **half)["exact"]
        until = timed(partial(_wait_for_columns, served, path))
        exact = float(np.median([timed(lambda: served.get(path, names=METRIC)) for _ in range(9)]))
        memory = served.megabytes
    what = f"a run of {points / 1e6:g} M points ({size / 1e6:.0f} MB)"
    return [
        Row(f"{what}: a curve from samples, at once", f"{first:.3f} s", "", first, 0.5, " s", most=True),
        Row("the same: an exact zoom, at once", f"{zoom:.3f} s", "", zoom, 0.5, " s", most=True),
        Row(f"the same: every point, {until:.0f} s later", f"{exact:.3f} s", "", exact, 0.5, " s", most=True),
        Row("memory of the server", f"{memory:.0f} MB", "", memory, 300.0, " MB", most=True),
    ]


def _wait_for_columns(served: Served, path: str) -> None:
    while served.get(path, names=METRIC)["sampled"]:
        time.sleep(0.5)


def tensorboard_rows(folder: Path) -> list[Row]:
    """The curves of 250 runs, here and in TensorBoard."""
    make_runs(folder / "both", TENSORBOARD_RUNS, TENSORBOARD_LINES)
    ids = [f"both/CartPole-v1-ppo-s{number}" for number in range(TENSORBOARD_RUNS)]
    _write_event_files(folder)
    started = time.perf_counter()
    with dashboard(folder / "both", folder / "cache") as served:
        curves = [
            curve
            for first in range(0, len(ids), 125)
            for curve in served.get("/api/compare", ids=",".join(ids[first : first + 125]), metric=METRIC)["curves"]
        ]
        ours, our_memory = time.perf_counter() - started, served.megabytes
    assert len(curves) == TENSORBOARD_RUNS
    theirs, their_memory = _tensorboard(folder / "events")
    measure = f"{TENSORBOARD_RUNS} runs of {TENSORBOARD_LINES} lines, from the start until the curves are there"
    return [
        Row(measure, f"{ours:.2f} s", f"{theirs:.1f} s", theirs / ours, 10.0),
        Row("memory", f"{our_memory:.0f} MB", f"{their_memory:.0f} MB", our_memory / their_memory, 1.0, most=True),
    ]


def _write_event_files(folder: Path) -> None:
    """The same metrics as files of TensorBoard."""
    from torch.utils.tensorboard import SummaryWriter

    for run in sorted((folder / "both").iterdir()):
        events = [json.loads(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
        with SummaryWriter(str(folder / "events" / run.name)) as writer:
            for event in events:
                for name, value in event.items() if event["kind"] in ("progress", "evaluation") else ():
                    if name not in ("kind", "step", "time") and not isinstance(value, (bool, str)):
                        writer.add_scalar(name, value, event["step"])


def _tensorboard(folder: Path) -> tuple[float, float]:
    """Seconds until TensorBoard has every run's curve, and megabytes."""
    command = [
        sys.executable,
        "-m",
        "tensorboard.main",
        "--logdir",
        str(folder),
        "--port",
        "6116",
        "--host",
        "127.0.0.1",
    ]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    served = Served("http://127.0.0.1:6116", psutil.Process(process.pid))
    try:
        while _curves_of_tensorboard(served) < TENSORBOARD_RUNS:
            time.sleep(0.2)
        return time.perf_counter() - started, served.megabytes
    finally:
        process.terminate()
        process.wait()


def _curves_of_tensorboard(served: Served) -> int:
    """How many runs have the curve up to its end."""
    try:
        tags = served.get("/data/plugin/scalars/tags")
        complete = [run for run, found in tags.items() if METRIC in found]
        if len(complete) < TENSORBOARD_RUNS:
            return len(complete)
        curves = [served.get("/data/plugin/scalars/scalars", run=run, tag=METRIC) for run in complete]
    except OSError:
        return 0
    return sum(curve[-1][1] > (TENSORBOARD_LINES - 10) * 1024 for curve in curves)


def cost_rows(folder: Path, rounds: int) -> list[Row]:
    """Steps per second of a run, alone and with somebody who looks."""
    runs = folder / "trained"
    runs.mkdir()
    _train(runs, "warm")
    alone, watched = [], []
    for number in range(rounds):
        alone.append(_train(runs, f"alone{number}"))
        with dashboard(runs, folder / "cache") as served:
            served.get("/api/runs")
            reader = subprocess.Popen(["curl", "-sN", f"{served.url}/api/stream"], stdout=subprocess.DEVNULL)
            watched.append(_train(runs, f"watched{number}"))
            reader.terminate()
            reader.wait()
    cost = 100 * (1 - float(np.median(np.array(watched) / np.array(alone))))
    figures = (f"{np.median(side):,.0f}/s" for side in (watched, alone))
    return [
        Row("cost to a training run: the dashboard and a reader of its stream", *figures, cost, 1.0, " %", most=True)
    ]


def _train(runs: Path, name: str) -> float:
    """Steps per second of a run."""
    code = "from rookery.cli.main import main; main()"
    command = [sys.executable, "-c", code, *TRAIN, "--name", name, "--runs-dir", str(runs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = (runs / name / "metrics.jsonl").read_bytes().splitlines()
    speeds = [event["steps_per_second"] for event in map(json.loads, lines) if "steps_per_second" in event]
    return float(np.median(speeds[1:-1]))


def main() -> int:
    """Measure and print."""
    parser = parser_for(__doc__, ROWS, rounds=3)
    parser.add_argument("--runs", type=int, default=1000, help="runs of the table (default: %(default)s)")
    parser.add_argument("--lines", type=int, default=10_000, help="lines of each of them (default: %(default)s)")
    parser.add_argument("--points", type=int, default=1_000_000, help="of the long run (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where temporary folders are made (default: the system's)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dashboard-", dir=options.folder) as name:
        folder = Path(name)
        rows = {
            "table": partial(table_rows, folder, options.runs, options.lines),
            "curve": partial(curve_rows, folder, options.points),
            "tensorboard": partial(tensorboard_rows, folder),
            "cost": partial(cost_rows, folder, options.rounds),
        }
        return report(measured(rows, options.only), "The dashboard", options.json)


if __name__ == "__main__":
    sys.exit(main())
