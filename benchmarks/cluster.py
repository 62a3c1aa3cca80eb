"""What a run on Ray costs and survives, on this machine: `make bench-cluster`, or

    python benchmarks/cluster.py [--only NAME ...] [--quick] [--json FILE]

Nodes are those of `ray.cluster_utils.Cluster`: processes of this machine. It takes about 25 minutes, with --quick six.
Exits with 1 if a figure misses what it must reach.

- cartpole, slow: PPO on one node through Ray over the same without, on a kernel world and on a Python env of 1 ms
- learners: two learners over one
- start: from the start to the first rollout, with Ray and without
- same: weights over 1, 2 and 3 collectors beside those of one machine
- death: from a node's death to rollouts again
- nodes: a node is killed at intervals, and another one joins
- kills: collectors are killed
- full: somebody else fills the object store
- killed: the driver or the head is killed, and the run resumed
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cluster_faults import death_rows, full_rows, killed_rows, kills_rows, nodes_rows
from cluster_learners import learners_rows
from cluster_speed import same_rows, speed_rows, start_rows
from engine_rows import Row
from report import markdown, measured, parser_for, report

Measure = Callable[[Path, argparse.Namespace], Iterable[Row]]

ROWS: dict[str, Measure] = {
    "cartpole": lambda folder, options: speed_rows(folder, "cartpole", options.rounds),
    "slow": lambda folder, options: speed_rows(folder, "slow", options.rounds),
    "learners": lambda folder, options: learners_rows(folder, 1 if options.quick else 3, 10.0),
    "start": lambda folder, options: start_rows(folder, 1 if options.quick else 3),
    "same": lambda folder, options: same_rows(folder),
    "death": lambda folder, options: death_rows(folder, 1 if options.quick else 5),
    "nodes": lambda folder, options: nodes_rows(folder, *((60.0, 20.0) if options.quick else (600.0, 30.0))),
    "kills": lambda folder, options: kills_rows(folder, 5 if options.quick else 20),
    "full": lambda folder, options: full_rows(folder, 5.0 if options.quick else 15.0),
    "killed": lambda folder, options: killed_rows(folder),
}


def main() -> int:
    """Measure and print, as a table and as Markdown."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no run is left when this is stopped
    parser = parser_for(__doc__, ROWS, rounds=5)
    parser.add_argument("--quick", action="store_true", help="fewer kills, for a shorter time")
    options = parser.parse_args()

    def in_folder(measure: Measure) -> Iterator[Row]:
        with tempfile.TemporaryDirectory(prefix="cluster-") as name:
            yield from measure(Path(name), options)

    results = measured(
        {name: partial(in_folder, measure) for name, measure in ROWS.items()}, options.only, options.json
    )
    missed = report(results, "Many machines", options.json)
    print(markdown(results))
    return missed


if __name__ == "__main__":
    sys.exit(main())
