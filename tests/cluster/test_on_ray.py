"""The same with Ray itself: slow, as a cluster of its own starts a dozen processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import rookery
from cluster.test_async_rollouts import STEPS
from cluster.test_async_rollouts import run as run_asynchronous
from cluster.test_async_steps import progress
from cluster.test_async_steps import run as run_off_policy
from cluster.test_evaluation_apart import SHORT as EVALUATED
from cluster.test_evaluation_apart import evaluations, run_apart
from cluster.test_lost_collectors import notes
from cluster.test_same_numbers import run
from cluster.test_several_learners import SHORT, run_learners, trained
from learners.distributed.test_data_parallel_ppo import assert_close
from rookery.cluster.ray_transport import RayTransport, open_ray
from training.runs import differences, last_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
KERNEL = {"world": "rookery/CartPole-v1"}


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayTransport]:
    """A cluster on this machine: runs use it, as it is connected already. None of its processes stays."""
    before = set(psutil.Process().children(recursive=True))
    with open_ray(None) as transport:
        yield transport
    left = set(psutil.Process().children(recursive=True)) - before
    assert not psutil.wait_procs(left, timeout=30)[1]


def processes_of(kind: str) -> list[psutil.Process]:
    """Those of "CollectorActor" or "LearnerActor", oldest first."""
    found = [child for child in psutil.Process().children(recursive=True) if kind in "".join(_line(child))]
    return sorted(found, key=psutil.Process.create_time)


def collectors() -> list[psutil.Process]:
    """The processes of collectors, oldest first."""
    return processes_of("CollectorActor")


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_it_listens_on_this_machine_only(ray_cluster: RayTransport) -> None:
    """No port of the cluster can be reached from elsewhere."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [each.laddr.ip for process in family for each in process.net_connections("inet") if not each.raddr]
    assert sockets and {ip.removeprefix("::ffff:") for ip in sockets} == {"127.0.0.1"}


def test_weights_are_those_of_one_machine(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """With 1, 2 and 3 collectors, after 20 updates."""
    alone = run(tmp_path, "alone", **KERNEL)
    for count in (1, 2, 3):
        shared = run(tmp_path, f"shared{count}", count, **KERNEL)
        assert not differences(last_state(alone.path), last_state(shared.path))
        assert (shared.total_steps, shared.episodes) == (alone.total_steps, alone.episodes)


def test_a_killed_collector_is_replaced(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """By SIGKILL, in the middle of a run: it goes on, and all its steps are counted once."""
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.2)
            if any((tmp_path / "killed").glob("checkpoints/*/*")):
                killed.append(collectors()[-1].pid)
                os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    options: dict[str, Any] = {**KERNEL, "steps": 7 * 16 * 400, "checkpoints": {"every": 7 * 16 * 5, "keep": 1}}
    result = run(tmp_path, "killed", 2, **options)
    thread.join(60)
    assert killed and result.total_steps == 7 * 16 * 400
    said = notes(result.path)
    assert any("was lost (" in text and "not counted" in text for text in said), said
    assert any("has taken over after" in text for text in said), said


def test_learners_with_a_replay_buffer_learn(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """From two collectors that do not wait: all steps are counted, and the run reports its collectors."""
    result = run_off_policy(tmp_path, steps=6 * 200, cluster={"max_staleness": 60})
    figures = progress(result.path)
    assert result.total_steps >= 6 * 200
    assert figures[-1]["cluster/collectors"] == 2 and figures[-1]["cluster/bytes_per_second"] > 0


def test_ppo_learns_from_collectors_that_do_not_wait(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """Of which one is killed meanwhile: all steps are counted once, and no rollout is older than it may be."""
    killed: list[int] = []

    def kill() -> None:
        while not killed:
            time.sleep(0.2)
            if any((tmp_path / "async").glob("checkpoints/*/*")):
                killed.append(collectors()[-1].pid)
                os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    result = run_asynchronous(tmp_path, 2, steps=40 * STEPS, checkpoints={"every": 4 * STEPS, "keep": 1})
    thread.join(60)
    figures = progress(result.path)
    assert killed and result.total_steps == 40 * STEPS
    assert any("has taken over after" in text for text in notes(result.path))
    assert all(0 <= event["cluster/staleness"] <= 4 for event in figures)
    assert figures[-1]["cluster/collectors"] == 2 and figures[-1]["cluster/in_flight"] == 4


def test_two_learners_learn_what_one_learns(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """To float tolerance; the second one is killed in one of the runs, which changes no bit."""
    alone = run(tmp_path, "alone", **SHORT)
    whole = run_learners(tmp_path, "whole", 2)
    assert_close(trained(whole.path), trained(alone.path))

    class Kill(rookery.Callback):
        rollouts = 0

        def on_rollout(self, run: Any) -> None:
            self.rollouts += 1
            if self.rollouts == 3:
                os.kill(processes_of("LearnerActor")[-1].pid, signal.SIGKILL)

    lost = run_learners(tmp_path, "lost", 2, callbacks=[Kill()])
    assert any(text.startswith("learner 1 of 2 (on node ") and "was lost" in text for text in notes(lost.path))
    assert not differences(trained(lost.path), trained(whole.path))


def test_an_evaluator_of_its_own_finds_the_same(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """Of the same steps, also if it is killed in the middle of the run."""
    here = run(tmp_path, "here", 2, **EVALUATED)

    class Kill(rookery.Callback):
        killed = False

        def on_evaluation(self, run: Any, metrics: Any) -> None:
            if not self.killed:
                os.kill(processes_of("EvaluatorActor")[-1].pid, signal.SIGKILL)
            self.killed = True

    callback = Kill()
    apart = run_apart(tmp_path, "apart", callbacks=[callback])
    assert callback.killed and evaluations(apart.path) == evaluations(here.path)
    assert any(text.startswith("the evaluator (on node ") and "was lost" in text for text in notes(apart.path))
