"""PPO whose collectors do not wait for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from cluster.in_process import InProcess, use
from cluster.test_async_steps import progress
from rookery.cluster.collector_actor import CollectorActor
from rookery.cluster.transport import CollectorLost
from rookery.errors import ConfigError
from rookery.training.run.callbacks import Result
from training.runs import last_state, notes, small

ENVS, LENGTH, UPDATES = 7, 16, 12
STEPS = ENVS * LENGTH * UPDATES


def run(folder: Path, collectors: int = 3, **options: Any) -> Result:
    """A short run on 7 envs, which no number of collectors but 1 and 7 divides."""
    cluster = {"kind": "ray", "nodes": collectors, "asynchronous": True, **options.pop("cluster", {})}
    base = {"num_envs": ENVS, "steps": STEPS, "device": "cpu", "world": "rookery/CartPole-v1", "name": "async"}
    callbacks = options.pop("callbacks", [])
    return rookery.train(small("ppo", folder, **{**base, "cluster": cluster, **options}), callbacks=callbacks)


class Unfair(InProcess):
    """Collector 0 is served first, `favour` times of `favour` + 1."""

    def __init__(self, favour: int) -> None:
        super().__init__()
        self._favour, self._waits = favour, 0

    def first_done(self, calls: list[Any], seconds: float) -> int:
        self._waits += 1
        fast = next(k for k, call in enumerate(calls) if call[0].startswith("0."))
        return fast if self._waits % (self._favour + 1) else (fast + 1) % len(calls)


@pytest.mark.few(1)
@pytest.mark.parametrize("collectors", [1, 3])
def test_every_update_has_a_whole_rollout(collectors: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many steps and updates as in a run that waits; the run says that it does not, and how old its rollouts are."""
    use(InProcess(), monkeypatch)
    result = run(tmp_path, collectors)
    state = last_state(result.path)["learner"]
    assert result.total_steps == STEPS and state["updates"] == UPDATES
    assert any("do not wait" in text and "V-trace" in text for text in notes(result.path))
    latest = progress(result.path)[-1]
    assert latest["cluster/in_flight"] == 2 * collectors and latest["cluster/discarded_steps"] == 0
    assert latest["cluster/staleness"] == 2  # each has two at a time, and all are as fast
    assert result.episodes > 5 and (result.path / "episodes.jsonl").read_text().count("\n") == result.episodes


def test_the_bound_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one update between, a collector has one rollout to make at a time."""
    use(InProcess(), monkeypatch)
    latest = progress(run(tmp_path, cluster={"max_staleness": 1}).path)[-1]
    assert latest["cluster/in_flight"] == 3 and latest["cluster/staleness"] == 1


def test_a_fast_collector_does_not_wait_for_a_slow_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fills rollouts alone; what the slow one sends too late is discarded, and not counted."""
    use(Unfair(favour=9), monkeypatch)
    result = run(tmp_path, 2, cluster={"max_staleness": 3})
    latest = progress(result.path)[-1]
    assert result.total_steps == STEPS and latest["cluster/discarded_steps"] > 0
    assert latest["cluster/discarded_steps"] % LENGTH == 0
    assert all(event["cluster/staleness"] <= 3 for event in progress(result.path))


def test_a_lost_collector_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rollout is lost, the others go on, and every step is counted once."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if (index, method, times) == (1, "collect_rollout", 2) else None

    cluster = use(InProcess(fault=fault), monkeypatch)
    result = run(tmp_path)
    assert cluster.started == [0, 1, 2, 1] and result.total_steps == STEPS
    assert any("collector 1 (envs 3 to 4" in text and "was lost" in text for text in notes(result.path))
    assert all(np.isfinite(array).all() for array in last_state(result.path)["policy"].values())


@pytest.mark.slow
def test_a_resumed_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With new episodes; also as a run that waits."""
    use(InProcess(), monkeypatch)
    first = run(tmp_path)
    assert any("begin new episodes" in text for text in notes(first.path))
    again = rookery.resume(first.path, steps=2 * STEPS)
    assert again.total_steps == 2 * STEPS
    waits = rookery.resume(first.path, steps=3 * STEPS, **{"cluster.asynchronous": False})
    assert waits.total_steps == 3 * STEPS


@pytest.mark.slow
def test_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CartPole, from rollouts of weights of two updates ago: a random policy balances the pole for 22 steps."""
    use(InProcess(), monkeypatch)
    settings = {"rollout_length": 64, "epochs": 6, "hidden": [32], "learning_rate": 2e-3, "normalise_rewards": True}
    result = run(tmp_path, 2, num_envs=16, steps=16 * 64 * 60, ppo=settings)
    assert result.mean_reward > 100


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": {"kind": "local", "nodes": None}}, "asynchronous` is for runs on a cluster"),
        ({"ppo": {"recurrent": 8}}, "cannot be combined with `ppo.recurrent`"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """In one sentence."""
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, **options)


def test_ends_without_infos_are_sent_once_some_had_them() -> None:
    """Two rollouts of a collector may come between two looks at the episodes: the order tells whose infos these are."""
    actor = CollectorActor()
    told, untold = {"success": np.array([1.0]), "_success": np.array([True])}, dict[str, Any]()
    sent = []
    for final in (untold, told, untold):
        actor._infos.append((1, 0, {"final_info": final, "_final_info": np.array([True])}))
        sent.append(len(actor._taken_infos()))
    assert sent == [0, 1, 1]
