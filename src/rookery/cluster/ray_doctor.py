"""Measures the nodes of a Ray cluster from here: cores, versions, clocks, and the way to them and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

from rookery.cluster.cluster_report import NodeReport
from rookery.cluster.node_facts import NodeFacts, facts_here
from rookery.cluster.ray_transport import allow_address, load_ray, open_ray
from rookery.console import waiting

CALLS = 5  # without data; the quickest counts
COPIES = 3  # of data; the quickest counts
DATA_BYTES = 32 << 20
START_SECONDS = 120.0
LEAST_SECONDS = 1e-6


class NodeProbe:
    """Answers from a node."""

    def facts(self) -> tuple[NodeFacts, int, str]:
        """What is installed, the memory, and what tells machines apart."""
        return facts_here([]), psutil.virtual_memory().available, machine_id()

    def clock(self) -> float:
        """The time of day there."""
        return time.time()

    def take(self, data: np.ndarray) -> int:
        """Receives an array, of which one byte of each page is read."""
        return int(data[::4096].sum())

    def make(self, size: int) -> np.ndarray:
        """Returns an array."""
        return np.ones(size, np.uint8)


def machine_id() -> str:
    """The same for all processes of a machine, until it starts again."""
    return f"{psutil.boot_time():.0f} {psutil.net_if_addrs().keys()} {psutil.virtual_memory().total}"


def examine_cluster(address: str | None) -> tuple[list[NodeReport], NodeFacts]:
    """The nodes that are alive, and what is installed here."""
    allow_address(address)
    with open_ray(address):
        ray = load_ray()
        with waiting("measuring the nodes"):
            alive = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: node["NodeID"])
            return [_examine(ray, node) for node in alive], facts_here([])


def _examine(ray: Any, node: dict[str, Any]) -> NodeReport:
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    probe = ray.remote(num_cpus=0)(NodeProbe).options(scheduling_strategy=strategy).remote()
    facts, memory, machine = ray.get(probe.facts.remote(), timeout=START_SECONDS)
    resources = node["Resources"]
    round_trip, offset = clock_offset(lambda: ray.get(probe.clock.remote()))
    report = NodeReport(
        name=f"{node['NodeName']} {node['NodeID'][:6]}",
        facts=facts,
        is_here=machine == machine_id(),
        cores=int(resources.get("CPU", 0)),
        gpus=int(resources.get("GPU", 0)),
        memory=memory,
        clock_offset=offset,
        round_trip=round_trip,
        to_node=rate_of(lambda: send_to(ray, probe), round_trip),
        from_node=rate_of(lambda: ray.get(probe.make.remote(DATA_BYTES)), round_trip),
    )
    ray.kill(probe)
    return report


def send_to(ray: Any, probe: Any) -> None:
    """A new object each time: a node keeps those that it has."""
    ray.get(probe.take.remote(ray.put(np.ones(DATA_BYTES, np.uint8))))


def clock_offset(clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of the quickest of some calls, and how far the clock there is ahead, by the middle of that call."""
    best = float("inf"), 0.0
    for _ in range(CALLS):
        began, started = time.time(), time.perf_counter()
        there = clock()
        seconds = time.perf_counter() - started
        best = min(best, (seconds, there - (began + seconds / 2)))
    return best


def rate_of(copy: Callable[[], Any], round_trip: float) -> float:
    """Bytes a second of the quickest of some copies, without the call itself."""
    seconds = []
    for _ in range(COPIES):
        started = time.perf_counter()
        copy()
        seconds.append(time.perf_counter() - started)
    return DATA_BYTES / max(LEAST_SECONDS, min(seconds) - round_trip)
