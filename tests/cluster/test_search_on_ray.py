"""A search with Ray itself: slow, as its nodes start a dozen processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


def test_a_killed_node_costs_no_trial(tmp_path: Path) -> None:
    """All trials of a search over two nodes end once, though one node is killed in the middle."""
    import cluster_search

    with cluster_search.two_nodes() as kill:
        outcome = cluster_search.search_with_a_kill(tmp_path, 8, kill)
    assert outcome.finished == 8 and not outcome.other
    assert set(outcome.ends.values()) == {1} and len(outcome.ends) == 8
    assert outcome.lost
