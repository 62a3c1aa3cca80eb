"""What `rookery doctor --on ray` says of the nodes of a cluster: a table, and sentences about what will be slow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.text import Text

from rookery import printing
from rookery.cluster.node_facts import NodeFacts, check_equal
from rookery.console import size_text
from rookery.errors import RunError

STEP_SECONDS = 0.001  # of an env in Python, to have an example
STEP_BYTES = 200  # that a step with a small observation takes in a rollout
LARGEST_OFFSET = 1.0  # seconds between clocks
FEW_CORES = 0.5  # of the cores of the largest node


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
    """Why a run would be refused."""
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
