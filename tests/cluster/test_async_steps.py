"""Off-policy learners, whose collectors never wait for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from cluster.in_process import InProcess, use
from rookery.cluster.transport import CollectorLost
from rookery.errors import ConfigError
from rookery.training.run.callbacks import Result
from training.runs import last_state, notes, small

STEPS = 6 * 64
UPDATES = {"sac": 0.5, "dqn": 0.25}  # for each step of an env


def run(folder: Path, learner: str = "sac", collectors: int = 2, **options: Any) -> Result:
    """A short run on 6 envs."""
    cluster = {"kind": "ray", "nodes": collectors, **options.pop("cluster", {})}
    world = "rookery/Pendulum-v1" if learner == "sac" else "rookery/CartPole-v1"
    base = {"num_envs": 6, "steps": STEPS, "device": "cpu", "world": world, "name": "async", "cluster": cluster}
    return rookery.train(
        small(learner, folder, **{**base, **options}, **{learner: {"updates_per_step": UPDATES[learner]}})
    )


def progress(path: Path) -> list[dict[str, Any]]:
    """The reports of a run."""
    events = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [event for event in events if "cluster/collectors" in event]


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["sac", "dqn"])
def test_all_steps_are_recorded_and_learned_from(learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many transitions and updates as in a run on one machine; the run says that it is asynchronous."""
    use(InProcess(), monkeypatch)
    result = run(tmp_path, learner)
    state = last_state(result.path)["learner"]
    assert STEPS <= result.total_steps == state["steps"] < STEPS + 6 * 64
    assert state["updates"] == pytest.approx((result.total_steps - 64) * UPDATES[learner], abs=2)
    assert any("do not wait" in text for text in notes(result.path))
    assert any("begin new episodes" in text for text in notes(result.path))  # its envs cannot be saved
    latest = progress(result.path)[-1]
    assert latest["cluster/collectors"] == 2 and latest["cluster/in_flight"] == 4
    assert 0 <= latest["cluster/staleness"] <= 256


@pytest.mark.slow
def test_steps_of_old_weights_are_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond `max_staleness` updates: they are not counted, and the run says how many there were."""

    class Unfair(InProcess):
        """Collector 0 is always served first, until the other one's chunk is old."""

        _waits = 0

        def first_done(self, calls: list[Any], seconds: float) -> int:
            self._waits += 1
            fast = [k for k, call in enumerate(calls) if call[0].startswith("0.")]
            return fast[0] if self._waits % 20 else 1 - fast[0]

    use(Unfair(), monkeypatch)
    result = run(tmp_path, cluster={"max_staleness": 8})
    latest = progress(result.path)[-1]
    assert latest["cluster/discarded_steps"] > 0 and result.total_steps >= STEPS
    assert max(event["cluster/staleness"] for event in progress(result.path)) >= 0


def test_a_bound_that_cannot_be_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the least value that can."""
    use(InProcess(), monkeypatch)
    with pytest.raises(ConfigError, match=r"max_staleness` = 1 is too small.* at least 6"):
        run(tmp_path, cluster={"max_staleness": 1})


def test_a_lost_collector_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunk is lost, the others go on, and weights stay finite."""

    def fault(index: int, method: str, times: int) -> Exception | None:
        return CollectorLost("gone") if (index, method, times) == (1, "collect_steps", 1) else None

    cluster = use(InProcess(fault=fault), monkeypatch)
    result = run(tmp_path)
    assert cluster.started == [0, 1, 1] and result.total_steps >= STEPS
    assert any("collector 1 (envs 3 to 5" in text and "was lost" in text for text in notes(result.path))
    assert all(np.isfinite(array).all() for array in last_state(result.path)["policy"].values())


@pytest.mark.slow
def test_a_resumed_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With new episodes."""
    use(InProcess(), monkeypatch)
    first = run(tmp_path)
    again = rookery.resume(first.path, steps=2 * STEPS)
    assert again.total_steps >= 2 * STEPS
