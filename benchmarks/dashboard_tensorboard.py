"""The curves of 250 runs, in the dashboard and in TensorBoard: a row of `dashboard.py`.

Both servers are started again for each round, in turns, and read the same metrics from the page cache of the system.
Each was started once before, so that Python has compiled its modules. The time is from the start of the server until a
client has received one curve of every run, complete to its last point. It asks as the pages do: of TensorBoard the time
series plugin, first for the tags and then for the metric of all runs; of the dashboard the table of runs, the metrics
of the first few runs, and the comparison. Where TensorBoard has no fast loader (it has one for x86_64 only) it takes
half an hour: then it is given up after --patience seconds, and its figures are those until then.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from dashboard_runs import TEXTS, make_runs
from dashboard_servers import METRIC, Served, dashboard, environment
from engine_rows import Row
from report import said

RUNS, LINES = 250, 1000
ASKED_FOR_METRICS = 4  # runs of which the page of a comparison asks for the names of metrics
PLUGIN = "/experiment/defaultExperimentId/data/plugin/timeseries"  # of TensorBoard
NO_OUTPUT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
LOOK_SECONDS = 0.1  # between two looks whether TensorBoard has read everything


class Loaded(NamedTuple):
    """What one server took until the curves were there."""

    seconds: float
    cpu_seconds: float
    megabytes: float
    processes: int
    complete: bool = True


def tensorboard_rows(folder: Path, rounds: int, patience: float) -> list[Row]:
    """Seconds until the curves are there, and memory, of both."""
    make_runs(folder / "both", RUNS, LINES)
    _write_event_files(folder / "both", folder / "events")
    ours, theirs = [], []
    _start_once(folder)
    for number in range(rounds):
        ours.append(_ours(folder / "both", folder / f"cache{number}"))
        theirs.append(_theirs(folder / "events", patience))
        said(f"round {number + 1} of {rounds}: {ours[-1].seconds:.2f} s, TensorBoard {theirs[-1].seconds:.1f} s")
    our_seconds, their_seconds = (median(loaded.seconds for loaded in side) for side in (ours, theirs))
    our_cpu, their_cpu = (median(loaded.cpu_seconds for loaded in side) for side in (ours, theirs))
    our_memory, their_memory = (median(loaded.megabytes for loaded in side) for side in (ours, theirs))
    loader = "with its fast loader" if theirs[0].processes > 1 else "without its fast loader"
    least = "" if all(loaded.complete for loaded in theirs) else "more than "
    what = f"{RUNS} runs of {LINES:,} lines"
    return [
        Row(
            f"{what}: from the start of the server until the curves are there, beside TensorBoard ({loader})",
            f"{our_seconds:.2f} s", f"{least}{their_seconds:.1f} s", their_seconds / our_seconds, 10.0,
        ),
        Row(
            f"{what}: processor time of the server until then, beside TensorBoard", f"{our_cpu:.2f} s",
            f"{least}{their_cpu:.1f} s", their_cpu / our_cpu, 10.0,
        ),
        Row(
            f"{what}: memory of the server, beside TensorBoard", f"{our_memory:.0f} MB",
            f"{least}{their_memory:.0f} MB", our_memory / their_memory, 1.0, most=True,
        ),
    ]  # fmt: skip


def _start_once(folder: Path) -> None:
    """Both servers, until they have answered."""
    (folder / "nothing").mkdir()
    with dashboard(folder / "nothing", folder / "cache") as served:
        served.get("/api/runs")
    with _tensorboard(folder / "nothing") as served:
        while not _answers(served):
            time.sleep(LOOK_SECONDS)


def _answers(served: Served) -> bool:
    try:
        return bool(served.get(f"{PLUGIN}/tags"))
    except OSError:
        return False


def _ours(runs: Path, cache: Path) -> Loaded:
    """A new dashboard."""
    started = time.perf_counter()
    with dashboard(runs, cache) as served:
        ids = [row["id"] for row in served.get("/api/runs")["runs"]]
        for run in ids[:ASKED_FOR_METRICS]:
            served.get(f"/api/runs/{run}/metrics")
        curves = served.get("/api/compare", ids=",".join(ids), metric=METRIC)["curves"]
        loaded = _loaded(served, started)
    assert len(curves) == RUNS and all(curve["exact"] for curve in curves)
    return loaded


def _theirs(events: Path, patience: float) -> Loaded:
    """A new TensorBoard."""
    started = time.perf_counter()
    with _tensorboard(events) as served:
        while not (complete := _is_complete(served)) and time.perf_counter() - started < patience:
            time.sleep(LOOK_SECONDS)
        return _loaded(served, started, complete)


def _loaded(served: Served, started: float, complete: bool = True) -> Loaded:
    seconds = time.perf_counter() - started
    return Loaded(
        seconds, served.cpu_seconds, served.megabytes, 1 + len(served.process.children(recursive=True)), complete
    )


@contextmanager
def _tensorboard(events: Path) -> Iterator[Served]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(events), "--port", str(port)]
    process = subprocess.Popen([*command, "--host", "127.0.0.1"], env=environment(), **NO_OUTPUT)
    try:
        yield Served(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def _is_complete(served: Served) -> bool:
    """Whether TensorBoard has all runs, and their curves reach the end."""
    try:
        found = served.get(f"{PLUGIN}/tags")["scalars"]["runTagInfo"]
        if sum(METRIC in tags for tags in found.values()) < RUNS:
            return False
        asked = json.dumps([{"plugin": "scalars", "tag": METRIC}])
        (answer,) = served.post(f"{PLUGIN}/timeSeries", requests=asked)
    except OSError:  # it does not answer yet
        return False
    series = answer["runToSeries"].values()
    return len(series) == RUNS and all(len(curve) >= _points() for curve in series)


def _points() -> int:
    """Points that a complete curve has: lines of progress, without those of evaluations, the first and the last."""
    return LINES - 2 - (LINES - 2) // 100


def _write_event_files(runs: Path, events: Path) -> None:
    """The same metrics as files of TensorBoard; runs with the same metrics have copies of one file."""
    from torch.utils.tensorboard import SummaryWriter

    for number in range(RUNS):
        name = f"CartPole-v1-ppo-s{number}"
        if number >= TEXTS:
            shutil.copytree(events / f"CartPole-v1-ppo-s{number % TEXTS}", events / name)
            continue
        with SummaryWriter(str(events / name)) as writer:
            for line in (runs / name / "metrics.jsonl").read_bytes().splitlines():
                for tag, value in _scalars(event := json.loads(line)):
                    writer.add_scalar(tag, value, event["step"], event["time"])


def _scalars(event: dict[str, Any]) -> Iterator[tuple[str, float]]:
    if event["kind"] in ("progress", "evaluation"):
        for name, value in event.items():
            if name not in ("kind", "step", "time") and not isinstance(value, (bool, str)):
                yield name, value
