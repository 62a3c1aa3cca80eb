"""A search on a Ray cluster of two nodes, one of which is killed: whether all trials end, none twice.

    python benchmarks/cluster_search.py [--trials 40] [--apart] [--json FILE]

The nodes are two of `ray.cluster_utils.Cluster` on this machine, with two runners each. The second one is killed after
a quarter of the trials, in the middle of what it trains. Every trial is a run of PPO on CartPole. A trial counts if it
has one value; it was recorded twice if its end was reported twice. With --apart the nodes do not find the study's
folder, as on machines without a shared disk: their runs are sent back.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from engine_rows import Row
from report import parser_for, report
from rookery.cluster.ray_search import TrialSupervisor
from rookery.cluster.ray_start import HEALTH, load_ray
from rookery.cluster.trial_runner import SharedMark
from rookery.config import build_config
from rookery.studies.search_study import run_search
from rookery.studies.storage.study_view import open_study

RUNNERS = 2  # of each node
STEPS = 4_096


@dataclass
class Outcome:
    """What a search with a killed node has done."""

    finished: int = 0
    other: int = 0  # trials that failed, or are open
    ends: Counter[int] = field(default_factory=Counter)  # how often the end of each trial was reported
    lost: list[str] = field(default_factory=list)  # what was said about lost runners
    seconds_to_next: float = 0.0  # from the kill to the next end of a trial
    seconds: float = 0.0


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A cluster that this process is connected to; yields what kills its second node."""
    ray = load_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": RUNNERS, "_system_config": HEALTH})
    second = cluster.add_node(num_cpus=RUNNERS)
    ray.init(address=cluster.address, namespace="rookery", log_to_driver=False, configure_logging=False)
    try:
        yield lambda: cluster.remove_node(second, allow_graceful=False)
    finally:
        ray.shutdown()
        cluster.shutdown()


def search_with_a_kill(folder: Path, trials: int, kill: Any) -> Outcome:
    """Search; the node is killed when a quarter of the trials have ended."""
    outcome, began, killed_at = Outcome(), time.monotonic(), [0.0]
    told = TrialSupervisor._tell

    def tell(self: TrialSupervisor, **facts: Any) -> None:
        if facts["event"] == "end":
            outcome.ends[facts["trial"]] += 1
            if killed_at[0] and not outcome.seconds_to_next:
                outcome.seconds_to_next = time.monotonic() - killed_at[0]
        told(self, **facts)
        if sum(outcome.ends.values()) == max(1, trials // 4) and not killed_at[0]:
            kill()
            killed_at[0] = time.monotonic()

    TrialSupervisor._tell = tell  # type: ignore[method-assign]
    try:
        run_search(build_config("CartPole-v1", on="ray", verbose=False, num_envs=4, steps=STEPS, learner="ppo", search={
            "n_trials": trials, "study_name": "killed", "studies_dir": str(folder), "seeds": 1, "verify": 0,
            "sampler": "random", "space": {"ppo.learning_rate": {"log": [1e-4, 1e-2]}},
        }))  # fmt: skip
    finally:
        TrialSupervisor._tell = told  # type: ignore[method-assign]
    study = open_study("killed", folder)
    outcome.finished, outcome.other = (
        len(study.of_state("finished")),
        len(study.trials) - len(study.of_state("finished")),
    )
    log = folder / "killed" / "workers" / "cluster.log"
    outcome.lost = [line for line in log.read_text().splitlines() if "was lost" in line] if log.exists() else []
    outcome.seconds = time.monotonic() - began
    return outcome


def rows(outcome: Outcome, trials: int) -> list[Row]:
    twice = sum(count > 1 for count in outcome.ends.values())
    told = f"{len(outcome.lost)} parts were trained elsewhere; next end after {outcome.seconds_to_next:.1f} s"
    seconds = f"{outcome.seconds:.0f} s in all"
    return [
        Row(f"{trials} trials over two nodes, one killed: finished", str(outcome.finished), told, outcome.finished,
            trials, ""),
        Row("of these, failed or left open", str(outcome.other), "", outcome.other, 0, "", most=True),
        Row("of these, ended twice", str(twice), seconds, twice, 0, "", most=True),
        Row("parts that the killed node had", str(len(outcome.lost)), "", len(outcome.lost), 1, ""),
    ]  # fmt: skip


def main() -> int:
    parser = parser_for(__doc__, ["search"])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--apart", action="store_true", help="nodes without the study's disk")
    options = parser.parse_args()
    if options.apart:
        hide_the_disk()
    with tempfile.TemporaryDirectory() as folder, two_nodes() as kill:
        outcome = search_with_a_kill(Path(folder), options.trials, kill)
    return report(rows(outcome, options.trials), "a search on a cluster, with a node killed", options.json)


def hide_the_disk() -> None:
    """Nodes look for the mark of the study's disk in vain."""
    made = SharedMark.__init__
    SharedMark.__init__ = lambda self, file, token: made(self, f"{file}.hidden", token)  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
