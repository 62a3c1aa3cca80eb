"""Where processes of a run are, on a Ray cluster of two nodes: slow, as they start two dozen processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.test_same_numbers import run
from cluster.test_several_learners import SHORT, run_learners, trained
from learners.distributed.test_data_parallel_ppo import assert_close
from rookery.cluster.ray_start import open_ray
from rookery.cluster.ray_transport import RayTransport

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


def test_every_node_has_its_process() -> None:
    """Collector 0 is in this process, on the head's node; the next one and the first helper are on the other node."""
    from cluster_runs import two_nodes

    with two_nodes() as cluster, open_ray(cluster.address) as transport:
        (other,) = cluster.worker_nodes
        transport.own()
        for handle in (transport.start(1), transport.start_helper("evaluator")):
            pid = transport.result(transport.call(handle, "pid"), 300.0)
            assert psutil.Process(pid).ppid() == other.all_processes["raylet"][0].process.pid
        assert transport.idle_nodes() == 0


def test_learners_of_two_nodes_learn_what_one_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To float tolerance; the second one is on the other node, and finds the first one by its node's address."""
    from cluster_runs import two_nodes

    places: list[str] = []
    start = RayTransport.start_helper

    def started(transport: RayTransport, *what: Any, **how: Any) -> Any:
        handle = start(transport, *what, **how)
        places.append(transport._node_of_helper[handle])
        return handle

    monkeypatch.setattr(RayTransport, "start_helper", started)
    alone = run(tmp_path, "alone", **SHORT)
    with two_nodes() as cluster:
        shared = run_learners(tmp_path, "shared", 2, cluster={"address": cluster.address})
        assert places == [node.node_id for node in cluster.worker_nodes]
    assert_close(trained(shared.path), trained(alone.path))
