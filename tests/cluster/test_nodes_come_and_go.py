"""Nodes that join or leave during a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import InProcess, use
from cluster.test_async_steps import run as run_off_policy
from rookery.cluster import remote_envs
from rookery.cluster.collector_actor import CollectorActor
from rookery.training.run.callbacks import Result
from training.runs import notes, small

BATCH = 7 * 16


class Changing(InProcess):
    """Has other nodes after some calls of `idle_nodes`, which the run makes between rollouts."""

    def __init__(self, nodes: int, changes: Callable[[int], int], has_own: bool = False) -> None:
        super().__init__(nodes, has_own=has_own)
        self._looks, self._changes = 0, changes

    def idle_nodes(self) -> int:
        self._looks += 1
        self.nodes = self._changes(self._looks)
        return super().idle_nodes()


@pytest.fixture(autouse=True)
def look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before every rollout, and without patience."""
    monkeypatch.setattr(remote_envs, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(remote_envs, "LEAVE_SECONDS", 0.0)


def run(folder: Path, **options: Any) -> Result:
    """20 rollouts of PPO, with one collector for every node."""
    base = {"num_envs": 7, "steps": BATCH * 20, "device": "cpu", "name": "nodes", "world": "rookery/CartPole-v1"}
    return rookery.train(small("ppo", folder, **{**base, "cluster": {"kind": "ray"}, **options}))


def test_a_node_that_joins_gets_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a rollout; all steps are counted once, and the run says from where on its numbers depend on it."""
    cluster = use(Changing(1, lambda looks: 1 if looks < 5 else 2), monkeypatch)
    result = run(tmp_path)
    assert result.total_steps == BATCH * 20 and cluster.started == [0, 1]
    (said,) = [text for text in notes(result.path) if "has joined" in text]
    assert "2 collectors step the envs now; envs 0 to 3, envs 4 to 6 begin new episodes" in said


def test_a_node_that_leaves_for_good_gives_its_envs_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its collector had begun again on a node that has one already."""
    cluster = use(Changing(3, lambda looks: 3 if looks < 5 else 2), monkeypatch)
    result = run(tmp_path)
    assert result.total_steps == BATCH * 20 and cluster.started == [0, 1, 2]
    (said,) = [text for text in notes(result.path) if "has left" in text]
    assert "2 collectors step the envs now" in said


def test_the_learners_own_collector_gives_envs_away_and_gets_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fills the learner's own rollouts as long as it has all envs, and returns a part of them otherwise."""
    parts: list[int] = []
    collect = CollectorActor.collect

    def counted(self: CollectorActor, *args: Any) -> Any:
        parts.append(self.share.num_envs)
        return collect(self, *args)

    monkeypatch.setattr(CollectorActor, "collect", counted)
    cluster = use(Changing(1, lambda looks: 2 if 5 <= looks < 10 else 1, has_own=True), monkeypatch)
    result = run(tmp_path)
    assert result.total_steps == BATCH * 20 and cluster.started == [1]
    assert any("has left: 1 collectors" in text for text in notes(result.path)), notes(result.path)
    assert 0 < len(parts) < 2 * 20 and set(parts) == {3, 4}


@pytest.mark.slow
def test_learners_with_a_replay_buffer_follow_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their chunks of the former collectors are not waited for."""
    cluster = use(Changing(1, lambda looks: 1 if looks < 3 else 2), monkeypatch)
    result = run_off_policy(tmp_path, cluster={"nodes": None, "max_staleness": 16})
    assert cluster.started == [0, 1] and result.total_steps >= 6 * 64
    assert any("has joined" in text for text in notes(result.path))


def test_the_number_of_collectors_can_be_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nodes that join change nothing."""
    cluster = use(Changing(1, lambda looks: 2), monkeypatch)
    run(tmp_path, cluster={"kind": "ray", "nodes": 1})
    assert cluster.started == [0]
