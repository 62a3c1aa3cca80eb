"""Measures the nodes of a Ray cluster from here: cores, versions, clocks, and the way to them and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import psutil
from rich.text import Text

from rookery import printing
from rookery.cluster.node_facts import NodeFacts, check_equal, facts_here
from rookery.cluster.ray_start import allow_address, load_ray, open_ray
from rookery.console import size_text, waiting
from rookery.errors import RunError

CALLS = 5  # without data; the quickest counts
COPIES = 3  # of data; the quickest counts
DATA_BYTES = 32 << 20
START_SECONDS = 120.0
LEAST_SECONDS = 1e-6
STEP_SECONDS = 0.001  # of an env in Python, to have an example
STEP_BYTES = 200  # that a step with a small observation takes in a rollout
LARGEST_OFFSET = 1.0  # seconds between clocks
FEW_CORES = 0.5  # of the cores of the largest node


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


@dataclass(frozen=True)
class NodeReport:
    """A node, as it was measured from here. Rates are in bytes a second."""

    name: str
    facts: NodeFacts
    is_here: bool  # on the machine of the learner
    cores: int
    gpus: int
    memory: int
    clock_offset: float  # seconds that its clock is ahead of the one here
    round_trip: float  # seconds of a call without data
    to_node: float  # as weights go
    from_node: float  # as rollouts come


def problems(nodes: list[NodeReport], here: NodeFacts) -> list[str]:
    """Why a run would be rejected."""
    found = []
    for node in nodes:
        try:
            check_equal(node.facts, here)
        except RunError as error:
            found.append(str(error))
    return found


def advice(nodes: list[NodeReport]) -> list[str]:
    """What a user should know before a run, in sentences; the last one says what will limit its speed."""
    found = []
    most = max(node.cores for node in nodes)
    for node in nodes:
        if abs(node.clock_offset) > LARGEST_OFFSET:
            found.append(
                f"the clock of {node.name} is {abs(node.clock_offset):.1f} s "
                f"{'ahead' if node.clock_offset > 0 else 'behind'}: no result depends on it, but times in logs do; "
                "set the clocks by NTP"
            )
        if node.cores < FEW_CORES * most:
            found.append(
                f"{node.name} has {node.cores} cores, and the largest node {most}: every node steps as many envs, so "
                "the others will wait for it; leave it out, or start Ray there without CPUs"
            )
    return [*found, bottleneck(nodes)]


def bottleneck(nodes: list[NodeReport]) -> str:
    """What will limit a run, for an env of a millisecond and small observations."""
    cores = sum(node.cores for node in nodes)
    steps = cores / STEP_SECONDS
    text = f"{cores} cores make about {steps:,.0f} steps a second of an env that takes 1 ms"
    remote = [node for node in nodes if not node.is_here]
    if not remote:
        return f"{text}; all nodes are on this machine, where arrays are not copied: the envs will be the bottleneck"
    link = min(node.from_node for node in remote)
    needed = sum(node.cores for node in remote) / STEP_SECONDS * STEP_BYTES
    bytes_a_step = link * STEP_SECONDS / sum(node.cores for node in remote)
    if needed < link:
        return (
            f"{text}; their rollouts are {size_text(int(needed))}/s of the {size_text(int(link))}/s that the slowest "
            "node can send: the envs will be the bottleneck, unless a step has more than "
            f"{size_text(int(bytes_a_step))}"
        )
    return (
        f"{text}; their rollouts are {size_text(int(needed))}/s, and the slowest node can send only "
        f"{size_text(int(link))}/s: the network will be the bottleneck; use a faster one, or fewer nodes"
    )


def report_json(nodes: list[NodeReport], here: NodeFacts) -> dict[str, Any]:
    """All of it as one plain object."""
    found = problems(nodes, here)
    return {"ok": not found, "nodes": [asdict(node) for node in nodes], "problems": found, "advice": advice(nodes)}


def print_report(nodes: list[NodeReport], here: NodeFacts) -> None:
    """The table and the sentences."""
    columns = ("node", "cores>", "GPUs>", "memory>", "clock>", "call>", "to it>", "from it>")
    table = printing.table("the cluster, as measured from here", *columns)
    for node in nodes:
        table.add_row(
            node.name + (" (here)" if node.is_here else ""), str(node.cores), str(node.gpus), size_text(node.memory),
            f"{1000 * node.clock_offset:+.0f} ms", f"{1000 * node.round_trip:.1f} ms",
            f"{size_text(int(node.to_node))}/s", f"{size_text(int(node.from_node))}/s",
        )  # fmt: skip
    out = printing.console()
    printing.print_table(out, table)
    found = problems(nodes, here)
    for sentence in found:
        out.print(Text(f"\nproblem: {sentence}", style="bold red"))
    if not found:
        same = ", ".join(f"{name} {version}" for name, version in here.versions.items())
        out.print(Text(f"\nAll nodes have what this machine has: {same}."))
    for sentence in advice(nodes):
        out.print(Text(f"\n{sentence[0].upper()}{sentence[1:]}."))
