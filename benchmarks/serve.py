"""What `rookery serve` reaches with many clients while champions change: `make bench-serve`, or

    python benchmarks/serve.py [--clients 64] [--rows 16] [--seconds 20] [--promotions 20] [--json FILE]

Server and clients share the machine. Every answer is compared with the actions of the version that it names. Exits with
1 if a figure misses what it must reach.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import psutil

import rookery
from engine_rows import Row
from learning import quiet
from report import measured, parser_for, report
from rookery.deploy.registry import Registry
from rookery.deploy.serving.client import Client
from rookery.training.storage.run_dir import RunDir
from serve_clients import Load, run_clients

ACTIONS = 20_000  # a second
WORLD = "CartPole-v1"


def make_registry(folder: Path) -> Registry:
    """Two champions of short runs, whose actions differ."""
    registry = Registry.create(folder / "agents")
    for seed in (1, 2):
        with quiet():
            result = rookery.train(
                WORLD, steps=2048, seed=seed, runs_dir=folder / "runs", monitor={"plot": False, "tensorboard": False}
            )
        registry.promote(registry.add(RunDir(result.path), {"world": WORLD}).number, {})
    return registry


def expected_actions(registry: Registry, observations: np.ndarray) -> dict[str, list[int]]:
    """The actions of both versions."""
    return {
        str(number): rookery.load(registry.version(number).folder).act(observations, deterministic=True).tolist()
        for number in (1, 2)
    }


def change_champions(registry: Registry, changes: int, seconds: float) -> None:
    """Promote the other version, again and again, evenly over the time."""
    for _ in range(changes):
        time.sleep(seconds / (changes + 1))
        registry.rollback({"why": "a benchmark"})


def loaded(kind: str, clients: int, rows: int, seconds: float, promotions: int) -> tuple[Load, float, dict]:
    """Clients at a server whose champion changes; how long they took, and what the server says at the end, with the
    seconds of CPU time that it took: on a busy machine they say more than the rate."""
    with tempfile.TemporaryDirectory() as folder:
        registry = make_registry(Path(folder))
        observations = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
        expected = expected_actions(registry, observations)
        command = [sys.executable, "-m", "rookery", "serve", str(registry.folder), "--port", "0", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            changing = threading.Thread(target=change_champions, args=(registry, promotions, seconds))
            changing.start()
            began, used = time.perf_counter(), cpu_seconds(server.pid)
            port = int(url.rpartition(":")[2])
            load = _run(run_clients(port, clients, seconds, observations, kind, expected))
            took, used = time.perf_counter() - began, cpu_seconds(server.pid) - used
            changing.join()
            time.sleep(1.5)  # until the last champion was seen
            with Client(url) as client:
                return load, took, {**client.health(), "cpu_seconds": used}
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _run(work: Coroutine[Any, Any, Load]) -> Load:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def serve_rows(kind: str, clients: int, rows: int, seconds: float, promotions: int) -> list[Row]:
    """Speed, latency, and what was lost."""
    load, took, health = loaded(kind, clients, rows, seconds, promotions)
    what = f"serve, {clients} clients, {rows} observations a request, {kind}"
    rate = len(load.latencies) * rows / took
    p50, p99 = (1000 * float(np.quantile(load.latencies, share)) for share in (0.5, 0.99))
    batch = health["answered"] / max(1, health["batches"])
    cpu = 1000 * health["cpu_seconds"] / len(load.latencies)
    served = f"{batch:.0f} requests a batch, {cpu:.2f} ms CPU each"
    missing = load.sent - len(load.latencies) + load.wrong
    changed = f"{health['swaps']} changes of champion, versions {', '.join(sorted(load.versions))}"
    return [
        Row(f"{what}: actions/s", f"{rate:,.0f}", served, rate, ACTIONS, unit=""),
        Row(f"{what}: lost or wrong", f"{missing} of {load.sent:,}", changed, missing, 0, unit="", most=True),
        Row(f"{what}: p99", f"{p99:.1f} ms", f"median {p50:.1f} ms", p99, 1000, unit=" ms", most=True),
    ]


def main() -> int:
    """Measure and print."""
    parser = parser_for(__doc__, ["json", "npy"])
    parser.add_argument("--clients", type=int, default=64, help="connections at the same time (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=16, help="observations a request (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=40.0, help="of load (default: %(default)s)")
    parser.add_argument("--promotions", type=int, default=20, help="in the meantime (default: %(default)s)")
    args = parser.parse_args()
    rows = {
        kind: partial(serve_rows, kind, args.clients, args.rows, args.seconds, args.promotions)
        for kind in ("json", "npy")
    }
    return report(measured(rows, args.only), "rookery serve", args.json)


if __name__ == "__main__":
    sys.exit(main())
