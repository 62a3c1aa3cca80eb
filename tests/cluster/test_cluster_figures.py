"""What a run tells of its cluster."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.in_process import InProcess, use
from cluster.test_same_numbers import run
from rookery.cluster.remote_envs import ClusterFigures


def figures(collectors: int, clock: list[float]) -> ClusterFigures:
    known: Any = SimpleNamespace(handles=[f"{k}.0" for k in range(collectors)], shares=[], losses=3)
    return ClusterFigures(known, InProcess(collectors), lambda: clock[0])


def test_shares_and_rates_are_those_since_the_last_report() -> None:
    """Of each collector, of all, and of the bytes."""
    clock = [10.0]
    told = figures(2, clock)
    told.add(0, 1.0, 600)
    told.add(0, 0.5, 600)
    told.add(1, 0.5, 800)
    clock[0] += 2.0
    assert told.take() == {
        "cluster/nodes": 2, "cluster/collectors": 2, "cluster/lost": 3, "cluster/bytes_per_second": 1000.0,
        "cluster/busy": 0.5, "cluster/busy_0": 0.75, "cluster/busy_1": 0.25,
    }  # fmt: skip
    clock[0] += 1.0
    assert told.take()["cluster/busy"] == told.take()["cluster/bytes_per_second"] == 0.0


def test_of_very_many_collectors_only_the_mean_is_told() -> None:
    """And of one, which is the mean."""
    for count in (1, 33):
        assert not any(name.startswith("cluster/busy_") for name in figures(count, [0.0]).take())


def test_the_events_of_a_run_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the first one says where the envs are."""
    use(InProcess(has_own=True), monkeypatch)
    result = run(tmp_path, "told", 2, world="rookery/CartPole-v1", steps=7 * 16 * 2)
    events = [json.loads(line) for line in (result.path / "metrics.jsonl").read_text().splitlines()]
    start = next(event for event in events if event["kind"] == "start")
    assert start["cluster_dashboard"] == "http://127.0.0.1:8265"
    assert [place.partition(": ")[2] for place in start["collectors"]] == ["envs 0 to 3", "envs 4 to 6"]
    latest = [event for event in events if "cluster/busy" in event][-1]
    assert all(0 < latest[name] <= 1 for name in ("cluster/busy", "cluster/busy_0", "cluster/busy_1"))
    assert latest["cluster/bytes_per_second"] > 0
