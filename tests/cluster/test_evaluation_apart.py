"""Evaluations in a process of its own, while the run goes on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import InProcess, use
from cluster.test_lost_collectors import interrupt
from cluster.test_same_numbers import WORLDS, run
from rookery.cluster.node_facts import NodeFacts, facts_here
from rookery.cluster.remote_envs import EvaluatorActor
from rookery.cluster.transport import CollectorLost
from rookery.errors import BadValue, ConfigError, RestartLimit, RunError, WorkerDied
from rookery.training.storage.checkpoint import Checkpoints, load
from training.runs import differences, last_state, notes

UPDATES = 12
EVERY = 7 * 16 * 3
SHORT = {**WORLDS["kernel"], "steps": 7 * 16 * UPDATES, "evaluation": {"every": EVERY, "episodes": 4}}


def run_apart(folder: Path, name: str, **options: Any) -> Any:
    """12 updates of PPO, with an evaluation after every third."""
    cluster = {"kind": "ray", "nodes": 2, "evaluate_apart": True, **options.pop("cluster", {})}
    return run(folder, name, **{**SHORT, "cluster": cluster, **options})


def evaluations(path: Path) -> list[dict[str, Any]]:
    """As they were recorded, without the time that they took."""
    lines = [json.loads(line) for line in (path / "evaluations.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "eval/seconds")} for line in lines]


@contextmanager
def held_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Evaluations do not end before the event is set."""
    go, whole = threading.Event(), EvaluatorActor.evaluate

    def evaluate(self: EvaluatorActor, *args: Any) -> Any:
        assert go.wait(60)
        return whole(self, *args)

    monkeypatch.setattr(EvaluatorActor, "evaluate", evaluate)
    yield go
    go.set()


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_results_are_those_of_the_runs_own_process(world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same steps, with the same numbers and the same best checkpoint; the agent is the same too."""
    options = {**WORLDS[world], "evaluation": {"every": EVERY, "episodes": 2, "max_episodes": 2}}
    use(InProcess(), monkeypatch)
    here = run(tmp_path, "here", 2, **{**SHORT, **options})
    cluster = use(InProcess(), monkeypatch)
    apart = run_apart(tmp_path, "apart", **options)
    assert evaluations(apart.path) == evaluations(here.path) and len(evaluations(here.path)) == 4
    assert (apart.evaluation, apart.best_evaluation) == (here.evaluation, here.best_evaluation)
    assert not differences(last_state(apart.path), last_state(here.path))
    best = [Checkpoints(result.path / "checkpoints").load_best() for result in (apart, here)]
    assert best[0][0] == best[1][0] and not differences(best[0][1]["agent"], best[1][1]["agent"])
    assert [helper.killed for helper in cluster.helpers] == [True]


def test_the_run_goes_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps do not wait for the first evaluation; the checkpoint of its weights is kept until it has its score."""
    steps: list[int] = []
    with held_back(monkeypatch) as go:

        class Watch(rookery.Callback):
            def on_rollout(self, run: Any) -> None:
                steps.append(run.step)
                if run.step == 7 * 16 * UPDATES:  # of the last rollout
                    go.set()

            def on_evaluation(self, run: Any, metrics: Any) -> None:
                steps.append(-1)

        use(InProcess(), monkeypatch)
        result = run_apart(
            tmp_path,
            "apart",
            evaluation={"every": 7 * 16 * 7, "episodes": 2},
            checkpoints={"every": 7 * 16, "keep": 1},
            callbacks=[Watch()],
        )
    first = 7 * 16 * 7
    assert steps.index(-1) > steps.index(7 * 16 * UPDATES)
    found = evaluations(result.path)
    assert [each["step"] for each in found] == [first, 7 * 16 * UPDATES] and found[0]["eval/best"]
    kept = Checkpoints(result.path / "checkpoints")
    best = load(kept.best()[0].path)  # type: ignore[index]
    expected = max(found, key=lambda each: each["eval/return"]) if found[1]["eval/best"] else found[0]
    assert best["loop"]["steps"] == expected["step"]


def test_an_evaluator_that_is_lost_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one evaluates the same weights, and the run names what was lost."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if (index, method, times) == (0, "evaluate", 1) else None

    use(InProcess(), monkeypatch)
    whole = run_apart(tmp_path, "whole")
    cluster = use(InProcess(fault=fault), monkeypatch)
    lost = run_apart(tmp_path, "lost")
    assert evaluations(lost.path) == evaluations(whole.path) and len(cluster.helpers) == 2
    assert any(text.startswith("the evaluator (on node helper 0) was lost") for text in notes(lost.path))


def test_the_policy_of_failures_is_that_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end instead; and an evaluator that is lost again and again ends it."""

    def always(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if method == "evaluate" else None

    use(InProcess(fault=always), monkeypatch)
    with pytest.raises(WorkerDied, match=r"^the evaluator \(on node helper 0\) was lost"):
        run_apart(tmp_path, "raise", on_failure="raise")
    use(InProcess(fault=always), monkeypatch)
    with pytest.raises(RestartLimit, match=r"the evaluator .* after 2 restarts within 60 s"):
        run_apart(tmp_path, "limit", max_restarts=2)


def test_errors_of_its_envs_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they do in the run's own process; they say where it happened."""

    def fails(self: EvaluatorActor, *args: Any) -> Any:
        raise BadValue("a reward is NaN")

    monkeypatch.setattr(EvaluatorActor, "evaluate", fails)
    use(InProcess(), monkeypatch)
    with pytest.raises(BadValue, match="a reward is NaN") as error:
        run_apart(tmp_path, "nan")
    assert error.value.__notes__ == ["in the evaluator (on node helper 0)"]


def test_a_node_that_differs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvaluatorActor, "facts", lambda self, *code: NodeFacts("far", {}, facts_here([]).files))
    use(InProcess(), monkeypatch)
    with pytest.raises(RunError, match="node far has rookery None"):
        run_apart(tmp_path, "differs")


def test_an_interrupted_run_does_not_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an evaluation that was begun; it can be resumed, and is evaluated at its later steps."""
    with held_back(monkeypatch):
        use(InProcess(), monkeypatch)
        first = run_apart(tmp_path, "first", evaluation={"every": 7 * 16 * 2, "episodes": 2}, callbacks=[interrupt()])
        assert first.reason == "interrupted" and first.evaluation is None
    use(InProcess(), monkeypatch)
    again = rookery.resume(first.path)
    assert again.reason == "finished" and evaluations(again.path)[-1]["step"] == 7 * 16 * UPDATES


def test_a_goal_ends_the_run_when_its_evaluation_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(InProcess(), monkeypatch)
    result = run_apart(tmp_path, "goal", evaluation={"every": EVERY, "episodes": 2, "stop_at": 1.0})
    assert result.reason == "goal reached" and result.total_steps < 7 * 16 * UPDATES


@pytest.mark.slow
def test_off_policy_learners_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose collectors never wait."""
    from cluster.test_async_steps import run as run_off_policy

    use(InProcess(), monkeypatch)
    result = run_off_policy(tmp_path, cluster={"evaluate_apart": True}, evaluation={"every": 120, "episodes": 1})
    assert len(evaluations(result.path)) > 1


def test_it_needs_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`cluster.evaluate_apart` is for runs on a cluster"):
        rookery.train("CartPole-v1", runs_dir=tmp_path, cluster={"evaluate_apart": True})
