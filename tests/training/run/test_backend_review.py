"""A backend that turns out to be slow is left for the other one, and no number changes by that."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rookery
from engine.test_autotune import measured
from rookery.engine.autotune import Choice
from rookery.errors import StateError
from rookery.training.run import adaptive_envs
from rookery.training.run.adaptive_envs import BackendReview


def review(backend, step_seconds, *rollouts, cores=2):
    """A review after rollouts of (steps, seconds, seconds of the policy); the first one is not counted."""
    made = BackendReview(Choice(backend, 8, 2, "", measured(step_seconds)), make_engine=None, cores=cores)
    for rollout in ((1, 99.0, 0.0), *rollouts):
        made.add(*rollout)
    return made


def test_nothing_is_decided_too_early():
    assert not review("process", 1e-3, (100, 1.0, 0.1)).done
    assert review("process", 1e-3).wanted() is None


@pytest.mark.parametrize(
    ("backend", "rollout", "wanted"),
    [
        ("process", (10_000, 6.0, 1.0), None),  # 0.6 ms a step instead of 1.1: it pays
        ("process", (2_000, 6.0, 1.0), "serial"),  # 3 ms a step, where a serial loop would take 1.5
        ("serial", (5_000, 6.0, 1.0), "process"),  # a step takes 1 ms: two workers should halve that
        ("serial", (50_000, 6.0, 5.9), None),  # the policy takes all the time
    ],
)
def test_the_other_backend_is_tried_only_where_it_should_be_faster(backend, rollout, wanted):
    made = review(backend, 1e-3, rollout)
    assert made.wanted() == wanted
    assert made.done == (wanted is None)


@pytest.mark.parametrize(("seconds", "back"), [(3.0, None), (9.0, "process")])
def test_the_faster_one_is_kept(seconds, back):
    """After one rollout that is not counted, as it starts workers and fills caches."""
    made = review("process", 1e-3, (2_000, 6.0, 1.0))
    assert made.wanted() == "serial"
    for rollout in ((2_000, 99.0, 1.0), (2_000, seconds, 1.0)):
        made.add(*rollout)
    assert made.wanted() == back
    assert made.done
    assert made.note.endswith(f"continues with '{'process' if back else 'serial'}'")


def test_with_one_core_nothing_is_started():
    assert review("serial", 1e-3, (5_000, 6.0, 1.0), cores=1).wanted() is None


def train(folder, **options):
    """A short run on envs in Python, with two groups on any backend."""
    return rookery.train(
        "CartPole-v1", compiled=False, learner="ppo", num_envs=4, groups=2, steps=1_024, ppo={"rollout_length": 32},
        runs_dir=folder, evaluation={"every": 1_024, "episodes": 2}, monitor={"plot": False, "tensorboard": False},
        **options,
    )  # fmt: skip


def test_a_changed_backend_changes_no_number(tmp_path, monkeypatch):
    """There and back again, while episodes are under way; the config says where the run ended."""
    plain = train(tmp_path / "plain", backend="serial")
    monkeypatch.setattr(adaptive_envs, "SECONDS", 1e-6)
    monkeypatch.setattr(adaptive_envs, "AT_LEAST", 1e9)
    monkeypatch.setattr(BackendReview, "_looks_slow", lambda self, now: True)
    changed = train(tmp_path / "changed")
    notes = [json.loads(line) for line in (changed.path / "metrics.jsonl").read_text().splitlines()]
    assert [note for note in notes if "continues with" in str(note.get("text", ""))]
    assert json.loads((changed.path / "config.json").read_text())["backend"] == "serial"
    for mine, its in zip(
        *(rookery.load(run.path, best=False).policy.parameters() for run in (plain, changed)), strict=True
    ):
        np.testing.assert_array_equal(mine.detach().numpy(), its.detach().numpy())


def test_envs_that_cannot_be_copied_stay(tmp_path, monkeypatch):
    """The user is told what to try instead."""

    def refuse(self, portable=False):
        raise StateError("it holds a socket")

    monkeypatch.setattr("rookery.engine.engine.Engine.state_dict", refuse)
    made = BackendReview(Choice("serial", 8, 2, "", measured(1e-3)), make_engine=None)
    engine = rookery.make_vec("CartPole-v1", 2, backend="serial")
    assert made.change(engine, "process") is None
    assert "it holds a socket" in made.note
    assert "--backend process" in made.note
    engine.close()
