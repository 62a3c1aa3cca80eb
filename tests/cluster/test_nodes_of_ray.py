"""Where processes of a run are, on a Ray cluster of two nodes: slow, as they start two dozen processes."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from rookery.cluster.ray_transport import open_ray

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
