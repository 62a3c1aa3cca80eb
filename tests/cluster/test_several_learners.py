"""Learners on several nodes compute the gradients of one, and may be lost."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import Helper, InProcess, use
from cluster.test_async_steps import progress
from cluster.test_same_numbers import WORLDS, run
from learners.distributed.test_data_parallel_ppo import assert_close
from rookery.cluster.helper_learners import LearnerActor
from rookery.cluster.node_facts import NodeFacts, facts_here
from rookery.cluster.transport import CollectorLost
from rookery.errors import ConfigError, RestartLimit, RunError, WorkerDied
from rookery.learners.execution.shared import SharedUpdate
from training.runs import differences, last_state, notes

KERNEL = WORLDS["kernel"]
UPDATES = 6
SHORT = {**KERNEL, "steps": 7 * 16 * UPDATES}


def run_learners(folder: Path, name: str, learners: int, collectors: int = 2, **options: Any) -> Any:
    """A few updates of PPO on 7 envs, which no number of learners but 1 and 7 divides."""
    cluster = {"kind": "ray", "nodes": collectors, "learners": learners, **options.pop("cluster", {})}
    return run(folder, name, **{**SHORT, "cluster": cluster, **options})


def trained(path: Path) -> dict[str, Any]:
    """What updates have made."""
    state = last_state(path)
    return {"policy": state["policy"], "adam": state["learner"]["adam"], "scale": state["learner"]["scale"]}


@pytest.mark.parametrize("learners", [2, 3])
def test_weights_are_those_of_one_learner(learners: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To float tolerance, with their optimizer and normalisers; and bit for bit those of the same run again."""
    alone = run(tmp_path, "alone", **SHORT)
    found = []
    for name in ("first", "again"):
        cluster = use(InProcess(has_own=True), monkeypatch)
        found.append(run_learners(tmp_path, name, learners))
        assert len(cluster.helpers) == learners - 1 and all(helper.killed for helper in cluster.helpers)
    assert_close(trained(found[0].path), trained(alone.path))
    assert not differences(last_state(found[0].path), last_state(found[1].path))
    assert progress(found[0].path)[-1]["cluster/learners"] == learners
    assert found[0].total_steps == alone.total_steps


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 3])
def test_a_learner_that_is_lost_is_replaced(at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The update is done again with another one: the run names what was lost, and has the weights of one that lost
    nobody, bit for bit."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("its node died") if (index, method, times) == (1, "learn", at) else None

    use(InProcess(), monkeypatch)
    whole = run_learners(tmp_path, "whole", 3)
    cluster = use(InProcess(fault=fault), monkeypatch)
    lost = run_learners(tmp_path, "lost", 3)
    assert len(cluster.helpers) == 3 and lost.total_steps == whole.total_steps
    assert any(
        text.startswith("learner 2 of 3 (on node helper 1) was lost (it was killed)") for text in notes(lost.path)
    )
    assert not differences(trained(whole.path), trained(lost.path))
    assert progress(lost.path)[-1]["cluster/learners_lost"] == 1


def test_one_may_be_lost_in_the_middle_of_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some of its gradients were used."""
    use(InProcess(), monkeypatch)
    whole = run_learners(tmp_path, "whole", 2)
    cluster = use(InProcess(), monkeypatch)
    minibatches, made = SharedUpdate._minibatches, []

    def fails(self: SharedUpdate, count: int) -> Any:
        for share in minibatches(self, count):
            made.append(self.ranks.rank)
            if made.count(1) == 9 and self.ranks.rank == 1:
                cluster.helpers[0].kill()
            yield share

    monkeypatch.setattr(SharedUpdate, "_minibatches", fails)
    lost = run_learners(tmp_path, "lost", 2)
    assert len(cluster.helpers) == 2 and any("was lost" in text for text in notes(lost.path))
    assert not differences(trained(whole.path), trained(lost.path))


def test_the_policy_of_failures_is_that_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end instead; and a learner that is lost again and again ends it."""

    def always(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if method == "learn" else None

    use(InProcess(fault=always), monkeypatch)
    with pytest.raises(WorkerDied, match=r"^learner 1 of 2 \(on node helper 0\) was lost"):
        run_learners(tmp_path, "raise", 2, on_failure="raise")
    cluster = use(InProcess(fault=always), monkeypatch)
    with pytest.raises(RestartLimit, match=r"learner 1 of 2 .* after 2 restarts within 60 s \(max_restarts=2\)"):
        run_learners(tmp_path, "limit", 2, max_restarts=2)
    assert len(cluster.helpers) == 3 and all(helper.killed for helper in cluster.helpers)


def test_a_learner_that_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `cluster.timeout` seconds."""
    monkeypatch.setattr("rookery.cluster.helper_learners.NOTICE_SECONDS", 0.5)
    cluster = use(InProcess(), monkeypatch)
    call = InProcess._call_helper

    def hangs(self: InProcess, helper: Helper, method: str, args: bytes) -> Any:
        return Future() if (helper.index, method) == (0, "learn") else call(self, helper, method, args)

    monkeypatch.setattr(InProcess, "_call_helper", hangs)
    result = run_learners(tmp_path, "hangs", 2, cluster={"timeout": 3.0})
    assert len(cluster.helpers) == 2 and any("has not answered" in text for text in notes(result.path))


def test_an_error_of_a_learner_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says whose it is."""

    def fails(*args: Any) -> None:
        raise ValueError("no sense")

    monkeypatch.setattr("rookery.cluster.helper_learners.help_update", fails)
    use(InProcess(), monkeypatch)
    with pytest.raises(ValueError, match="no sense") as error:
        run_learners(tmp_path, "error", 2)
    assert error.value.__notes__ == ["in learner 1 of 2 (on node helper 0)"]


def test_nodes_that_differ_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both versions."""

    def facts(self: LearnerActor, *code: Any) -> NodeFacts:
        here = facts_here([])
        return replace(here, node="far", versions={**here.versions, "torch": "0.1"})

    monkeypatch.setattr(LearnerActor, "facts", facts)
    use(InProcess(), monkeypatch)
    with pytest.raises(RunError, match=r"node far has torch 0\.1, and .* has"):
        run_learners(tmp_path, "differs", 2)


@pytest.mark.slow
def test_a_run_may_go_on_with_another_number_of_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not part of a checkpoint."""
    use(InProcess(), monkeypatch)
    first = run_learners(tmp_path, "first", 2, ppo={"normalise_rewards": True})
    again = rookery.resume(first.path, steps=2 * 7 * 16 * UPDATES, cluster={"learners": 3})
    whole = run(tmp_path, "whole", 2, **{**SHORT, "steps": 2 * 7 * 16 * UPDATES, "ppo": {"normalise_rewards": True}})
    assert_close(trained(again.path), trained(whole.path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": {"kind": "local"}}, "`cluster.learners` is for runs on a cluster"),
        ({"cluster": {"asynchronous": True}}, "cannot be combined with `cluster.asynchronous`"),
        ({"num_envs": 1}, "needs as many envs"),
        ({"learner": "dqn"}, "is for ppo: dqn has one learner"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """In one sentence."""
    cluster = {"kind": "ray", "learners": 2, **options.pop("cluster", {})}
    with pytest.raises(ConfigError, match=message):
        rookery.train("rookery/CartPole-v1", runs_dir=tmp_path, cluster=cluster, **{"learner": "ppo", **options})
