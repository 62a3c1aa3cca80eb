"""The same with Ray itself: slow, as a cluster of its own starts a dozen processes."""

from __future__ import annotations

import os
import signal
import threading
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
from cluster.test_same_numbers import run
from cluster.test_several_learners import SHORT, run_learners, trained
from learners.distributed.test_data_parallel_ppo import assert_close
from rookery.cluster.ray_start import open_ray
from rookery.cluster.ray_transport import RayTransport
from training.runs import differences, last_state, notes

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


class KillOne(rookery.Callback):
    """Kills a process of a run by SIGKILL, a moment after its third rollout: the last one that `start`, a method of the
    transport, has started. Processes of earlier runs may still be ending."""

    def __init__(self, transport: RayTransport, monkeypatch: pytest.MonkeyPatch, start: str = "start") -> None:
        self._transport, self._rollouts, self.killed = transport, 0, 0
        self._handles = handles = list[Any]()
        whole = getattr(RayTransport, start)

        def started(own: RayTransport, *what: Any, **how: Any) -> Any:
            handles.append(whole(own, *what, **how))
            return handles[-1]

        monkeypatch.setattr(RayTransport, start, started)

    def on_rollout(self, run: Any) -> None:
        self._rollouts += 1
        if self._rollouts == 3:
            self.killed = self._transport.result(self._transport.call(self._handles[-1], "pid"), 120)
            threading.Timer(0.05, os.kill, (self.killed, signal.SIGKILL)).start()


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


def test_a_killed_collector_is_replaced(
    ray_cluster: RayTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By SIGKILL, in the middle of a run: it goes on, and all its steps are counted once."""
    kill = KillOne(ray_cluster, monkeypatch)
    result = run(tmp_path, "killed", 2, **KERNEL, steps=7 * 16 * 400, callbacks=[kill])
    assert kill.killed and result.total_steps == 7 * 16 * 400
    said = notes(result.path)
    assert any("was lost (" in text and "not counted" in text for text in said), said
    assert any("has taken over after" in text for text in said), said


def test_learners_with_a_replay_buffer_learn(ray_cluster: RayTransport, tmp_path: Path) -> None:
    """From two collectors that do not wait: all steps are counted, and the run reports its collectors."""
    result = run_off_policy(tmp_path, steps=6 * 200, cluster={"max_staleness": 60})
    figures = progress(result.path)
    assert result.total_steps >= 6 * 200
    assert figures[-1]["cluster/collectors"] == 2 and figures[-1]["cluster/bytes_per_second"] > 0


def test_ppo_learns_from_collectors_that_do_not_wait(
    ray_cluster: RayTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which one is killed meanwhile: all steps are counted once, and no rollout is older than it may be."""
    kill = KillOne(ray_cluster, monkeypatch)
    result = run_asynchronous(tmp_path, 2, steps=40 * STEPS, callbacks=[kill])
    figures = progress(result.path)
    assert kill.killed and result.total_steps == 40 * STEPS
    assert any("has taken over after" in text for text in notes(result.path))
    assert all(0 <= event["cluster/staleness"] <= 4 for event in figures)
    assert figures[-1]["cluster/collectors"] == 2 and figures[-1]["cluster/in_flight"] == 4


def test_two_learners_learn_what_one_learns(
    ray_cluster: RayTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To float tolerance; the second one is killed in one of the runs, which changes no bit."""
    alone = run(tmp_path, "alone", **SHORT)
    whole = run_learners(tmp_path, "whole", 2)
    assert_close(trained(whole.path), trained(alone.path))
    kill = KillOne(ray_cluster, monkeypatch, "start_helper")
    lost = run_learners(tmp_path, "lost", 2, callbacks=[kill])
    assert kill.killed
    assert any(text.startswith("learner 1 of 2 (on node ") and "was lost" in text for text in notes(lost.path))
    assert not differences(trained(lost.path), trained(whole.path))


def test_an_evaluator_of_its_own_finds_the_same(
    ray_cluster: RayTransport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same steps, also if it is killed in the middle of the run."""
    here = run(tmp_path, "here", 2, **EVALUATED)
    kill = KillOne(ray_cluster, monkeypatch, "start_helper")
    apart = run_apart(tmp_path, "apart", callbacks=[kill])
    assert kill.killed and evaluations(apart.path) == evaluations(here.path)
    assert any(text.startswith("the evaluator (on node ") and "was lost" in text for text in notes(apart.path))
