"""What happens to a run on Ray when its nodes, its collectors, its object store or its own process fail."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cluster_runs import CARTPOLE, Run, on_ray, running, two_nodes
from engine_rows import Row
from gpu_identical import last_checkpoint

MOST_SECONDS = 10.0
SOLVED = 475.0  # of CartPole
COLLECTORS = 2


def death_rows(folder: Path, times: int) -> list[Row]:
    """The longest pause between two rollouts after a node was killed; the next one is not before another has envs."""
    with two_nodes() as cluster, running({**CARTPOLE, **on_ray(None, cluster.address)}, folder, "death") as run:
        run.wait_rollouts(20)
        pauses = []
        for k in range(times):
            killed = time.monotonic()
            _kill_node(cluster)
            pauses.append(_pause_after(run, killed))
            cluster.add_node(num_cpus=1)
            run.wait_joined(k + 1)
            run.wait_rollouts(50)
        notes = run.losses()
        run.interrupt()
    what = f"a node's death to rollouts again, the median of {times}, {len(notes)} named"
    texts = ", ".join(f"{pause:.1f}" for pause in pauses)
    return [Row(what, f"{texts} s", "", float(np.median(pauses)), MOST_SECONDS, " s", most=True)]


def _kill_node(cluster: Any) -> None:
    """All processes of the node that is not the head at once, as if its machine was switched off."""
    (node,) = cluster.worker_nodes
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    for process in [*raylet.children(recursive=True), raylet]:
        process.kill()
    cluster.remove_node(node, allow_graceful=False)


def _pause_after(run: Run, moment: float) -> float:
    """How long no rollout ended: from this moment to the end of the longest pause in the minute after it."""
    deadline = moment + 60.0
    while time.monotonic() < deadline:
        time.sleep(0.25)
        moments = [moment, *(told for told, _ in list(run.told) if told > moment)]
        gaps = np.diff(moments)
        if len(gaps) and gaps.max() > 1.0 and time.monotonic() - moments[-1] < 0.5:
            return float(moments[int(gaps.argmax()) + 1] - moment)
    return float("inf")


def nodes_rows(folder: Path, seconds: float, every: float) -> list[Row]:
    """A node is killed and another one joins, again and again."""
    with two_nodes() as cluster, running({**CARTPOLE, **on_ray(None, cluster.address)}, folder, "nodes") as run:
        run.wait_rollouts(20)
        ended, kills = time.monotonic() + seconds, 0
        while time.monotonic() < ended:
            time.sleep(max(0.0, min(every, ended - time.monotonic())))
            _kill_node(cluster)
            kills += 1
            cluster.add_node(num_cpus=1)
        run.wait_rollouts(50)
        run.interrupt()
        what = f"a node killed every {every:g} s for {seconds:g} s, another one joins each time"
        return _survived(what, run, kills)


def kills_rows(folder: Path, kills: int) -> list[Row]:
    """A collector's process is killed, again and again."""
    with running({**CARTPOLE, **on_ray(COLLECTORS)}, folder, "kills") as run:
        run.wait_rollouts(20)
        for k in range(kills):
            run.collectors()[-1].kill()  # the latest one; another is in the learner's process
            run.wait_losses(k + 1)
            run.wait_rollouts(20)
        time.sleep(5.0)  # in which the agent learns undisturbed
        run.interrupt()
        return _survived("a collector killed by SIGKILL", run, kills)


def _survived(what: str, run: Run, kills: int) -> list[Row]:
    """Whether all losses were named, each rollout was counted once, and the agent has learned."""
    summary, notes = run.summary(), run.losses()
    steps = np.array([steps for _, steps in run.told])
    uneven = int(np.count_nonzero(np.diff(steps) != steps[0])) + int(summary["steps"] != steps[-1])
    learned = float(summary["return_last_100"] or 0.0)
    return [
        Row(f"{what}: losses named over kills", f"{len(notes)}", f"{kills}", len(notes) / kills, 1.0, ""),
        Row(f"{what}: rollouts of {len(steps):,} not counted once", "", "", uneven, 0, "", most=True),
        Row(f"{what}: return of the last 100 episodes", f"{learned:.0f}", "", learned, SOLVED, ""),
    ]


def full_rows(folder: Path, seconds: float) -> list[Row]:
    """Somebody else fills the object store, which does not spill to disk, and empties it again."""
    import ray

    with two_nodes(automatic_object_spilling_enabled=False) as cluster:
        config = {**CARTPOLE, **on_ray(COLLECTORS, cluster.address)}
        with running(config, folder, "full") as run:
            run.wait_rollouts(20)
            before = len(run.told)
            ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
            try:
                held = _fill(ray)
                size = len(held)
                time.sleep(seconds)
                held.clear()
            finally:
                ray.shutdown()
            during = len(run.told) - before
            run.wait_rollouts(20)
            ended = run.interrupt()
            steps = np.array([steps for _, steps in run.told])
    uneven = int(np.count_nonzero(np.diff(steps) != steps[0]))
    what = f"object store full for {seconds:g} s ({size} objects of somebody else; {during} rollouts in the meantime)"
    return [
        Row(f"{what}: the run continues", f"exit {ended}", "", float(ended == 128 + signal.SIGINT), 1, ""),
        Row(f"{what}: rollouts not counted once", "", "", uneven, 0, "", most=True),
    ]


def _fill(ray: Any) -> list[Any]:
    held: list[Any] = []
    for size in (16 << 20, 1 << 20, 64 << 10, 4 << 10):
        try:
            while True:
                held.append(ray.put(np.ones(size, np.uint8)))
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError):
            continue
    return held


def killed_rows(folder: Path) -> list[Row]:
    """The driver, or the head of the cluster, is killed; the run is resumed, and ends as if nothing had happened."""
    length = {"steps": 400 * 1024, "checkpoints": {"every": 50 * 1024, "keep": 20}, "num_envs": 16}
    config = {**CARTPOLE, **length}
    with running({**config, **on_ray(COLLECTORS)}, folder, "whole") as whole:
        whole.process.wait(300)
    rows = []
    for victim in ("driver", "head"):
        with two_nodes() as cluster, running({**config, **on_ray(COLLECTORS, cluster.address)}, folder, victim) as run:
            run.wait_rollouts(120)
            if victim == "driver":
                run.process.kill()
            else:
                cluster.remove_node(cluster.head_node, allow_graceful=False)
            began = time.monotonic()
            run.process.wait(180)
            seconds = time.monotonic() - began
        rows.append(_resumed(folder, victim, whole, seconds))
    return rows


def _resumed(folder: Path, victim: str, whole: Run, seconds: float) -> Row:
    import rookery

    checkpoints = sorted(path.name for path in (folder / victim).glob("checkpoints/step-*"))
    rookery.resume(folder / victim, trust=True, cluster={"address": None})
    found, expected = last_checkpoint(folder / victim), last_checkpoint(whole.path)
    differ = [part for part, value in expected.items() if found.get(part) != value]
    what = f"{victim} killed, the run ends after {seconds:.1f} s, resumed from {checkpoints[-1]}: parts that differ"
    return Row(what, f"{differ}", "", len(differ), 0, "", most=True)
