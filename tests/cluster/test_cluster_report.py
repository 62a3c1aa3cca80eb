"""What `rookery doctor --on ray` concludes from what it has measured."""

from __future__ import annotations

import time
from typing import Any

import pytest

from rookery.cluster.node_facts import NodeFacts
from rookery.cluster.ray_doctor import (
    NodeReport,
    advice,
    bottleneck,
    clock_offset,
    examine_cluster,
    print_report,
    problems,
    report_json,
)

HERE = NodeFacts("head", {"rookery": "1.0", "Python": "3.11"}, {})
MIB = 1 << 20


def node(name: str = "a", **changes: Any) -> NodeReport:
    plain: dict[str, Any] = {
        "facts": NodeFacts(name, HERE.versions, {}), "is_here": False, "cores": 16, "gpus": 0, "memory": 1 << 34,
        "clock_offset": 0.0, "round_trip": 5e-4, "to_node": 1000 * MIB, "from_node": 1000 * MIB,
    }  # fmt: skip
    return NodeReport(name=name, **{**plain, **changes})


def test_another_version_is_a_problem() -> None:
    """Named with both versions."""
    other = node("b", facts=NodeFacts("b", {"rookery": "0.9", "Python": "3.11"}, {}))
    assert problems([node(), other], HERE) == [
        "node b has rookery 0.9, and head has 1.0: install the same version on all nodes"
    ]
    assert not report_json([node(), other], HERE)["ok"] and report_json([node()], HERE)["ok"]


def test_a_wrong_clock_and_a_small_node_are_told() -> None:
    """In sentences with their figures; nodes that are as they should be are not mentioned."""
    told = " ".join(advice([node("a"), node("late", clock_offset=-3.21), node("small", cores=4)]))
    assert "clock of late is 3.2 s behind" in told and "small has 4 cores, and the largest node 16" in told
    assert "clock of a " not in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_here": True}, "envs will be the bottleneck"),
        ({"from_node": 1000 * MIB}, "envs will be the bottleneck, unless"),
        ({"from_node": 1 * MIB}, "network will be the bottleneck"),
    ],
)
def test_the_bottleneck_is_named(changes: dict[str, Any], words: str) -> None:
    """16 cores make 16,000 steps a second of a millisecond, which are 3 MiB."""
    text = bottleneck([node(**changes)])
    assert words in text and "16 cores make about 16,000 steps a second" in text


def test_the_table_has_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    """With its figures."""
    print_report([node("first", is_here=True), node("second", clock_offset=0.25)], HERE)
    out = capsys.readouterr().out
    for word in ("first (here)", "second", "+250 ms", "0.5 ms", "1000.0 MiB/s", "16", "rookery 1.0"):
        assert word in out, out


def test_the_offset_of_a_clock() -> None:
    """By the middle of the quickest call."""
    seconds, offset = clock_offset(lambda: time.time() + 5.0)
    assert seconds < 1.0 and abs(offset - 5.0) < 0.5


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_this_machine() -> None:
    """One node, with the versions and the clock of this process."""
    nodes, here = examine_cluster(None)
    assert [node.is_here for node in nodes] == [True] and not problems(nodes, here)
    assert nodes[0].cores >= 1 and nodes[0].to_node > 0 and nodes[0].from_node > 0
    assert abs(nodes[0].clock_offset) < 1.0
