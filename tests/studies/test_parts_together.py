"""Parts that differ in numbers, seeds and windows train side by side, with the results that they have alone."""

from __future__ import annotations

import os
import signal

import pytest
import torch

from rookery.config import build_config
from rookery.studies.trials.part_training import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    PartOutcome,
    batches,
    train_part,
    train_together,
)
from rookery.studies.trials.plans import part_of
from rookery.studies.workers.trial_claims import wall_seconds
from rookery.training.population.train_population import run_population
from rookery.training.run.callbacks import Callback
from rookery.training.storage.run_dir import RunDir

QUIET = {"verbose": False, "plot": False, "tensorboard": False, "episodes": False, "system": False}


@pytest.fixture
def trial(tmp_path):
    """The configuration of a small trial."""
    options = {"steps": 512, "num_envs": 4, "backend": "kernel", "learner": "ppo", "runs_dir": str(tmp_path)}
    small = {"ppo": {"rollout_length": 32, "threads": 1}, "evaluation": {"every": 256, "episodes": 1}, "monitor": QUIET}
    return build_config("CartPole-v1", name="trial-00000", **options, **small)


def parts_of(trial, folder):
    """Two seeds each of a trial, of one with another learning rate, and of one with another net."""
    base = trial.model_copy(update={"runs_dir": str(folder)})
    fast, narrow = (
        base.model_copy(update={"ppo": base.ppo.model_copy(update=numbers), "name": f"trial-0000{k}"})
        for k, numbers in enumerate(({"learning_rate": 1e-2}, {"hidden": [8]}), 1)
    )
    return [part_of(one, f"seed-{seed}", seed=seed) for one in (base, fast, narrow) for seed in (0, 1)]


def test_parts_with_nets_of_one_shape_are_a_group(trial, tmp_path):
    assert [len(group) for group in batches(parts_of(trial, tmp_path))] == [4, 2]


@pytest.mark.slow
def test_a_group_has_the_results_that_its_parts_have_alone(trial, tmp_path, monkeypatch):
    trained = []

    def counted(plans):
        trained.append(len(plans))
        return run_population(plans)

    monkeypatch.setattr("rookery.studies.trials.part_training.run_population", counted)
    group = parts_of(trial, tmp_path / "together")[:4]
    outcomes = train_together(group, lambda part: None)
    assert train_together(group, lambda part: None).keys() == outcomes.keys()
    assert trained == [4], "finished parts are read"
    for part in parts_of(trial, tmp_path / "alone")[1:3]:
        both = [one.run.read_summary() for one in (outcomes[part.run_name], train_part(part))]
        for name in ("eval/return", "return_last_100", "episodes", "reason"):
            assert both[0][name] == both[1][name]


def test_a_group_that_is_interrupted_goes_on_as_a_group(trial):
    class Interruption(Callback):
        def on_rollout(self, run):
            if run.step >= 256:
                os.kill(os.getpid(), signal.SIGTERM)

    parts = [part_of(trial, f"seed-{seed}", seed=seed) for seed in (0, 1)]
    stopped = train_together(parts, lambda part: Interruption())
    assert {one.state for one in stopped.values()} == {INTERRUPTED}
    finished = train_together(parts, lambda part: None)
    assert {(one.state, one.steps) for one in finished.values()} == {(FINISHED, 512)}
    assert not list(stopped["trial-00000-seed-0"].run.path.parent.glob("*-2")), "no second folder"


def test_a_group_that_is_too_large_is_halved(trial, tmp_path, monkeypatch):
    """Until its memory is enough; no part fails, and their results are those of the whole group."""
    sizes = []

    def limited(plans):
        sizes.append(len(plans))
        if len(plans) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return run_population(plans)

    monkeypatch.setattr("rookery.studies.trials.part_training.run_population", limited)
    outcomes = train_together(parts_of(trial, tmp_path)[:4], lambda part: None)
    assert sizes == [4, 2, 2] and {one.state for one in outcomes.values()} == {FINISHED}


@pytest.mark.few(1)
@pytest.mark.parametrize("again", [FINISHED, FAILED])
def test_a_part_that_fails_in_a_group_is_tried_again_alone(trial, monkeypatch, again):
    """Once: what it is then, it stays."""
    parts = [part_of(trial, f"seed-{seed}", seed=seed) for seed in (0, 1, 2)]
    alone = []

    def failing(plans):
        return [run_population(plans[:2])[0], ValueError("a bad bar"), *run_population(plans[2:])]

    def tried(part, watcher=None):
        alone.append(part.run_name)
        return PartOutcome(again, RunDir(trial.runs_dir), reason="a bad bar")

    monkeypatch.setattr("rookery.studies.trials.part_training.run_population", failing)
    monkeypatch.setattr("rookery.studies.trials.part_training.train_part", tried)
    outcomes = train_together(parts, lambda part: None)
    assert alone == [parts[1].run_name]
    assert [outcomes[part.run_name].state for part in parts] == [FINISHED, again, FINISHED]


def test_parts_side_by_side_take_their_time_together(trial):
    """The time of a trial is what a clock on the wall shows."""
    parts = [part_of(trial, f"seed-{seed}", seed=seed) for seed in (0, 1)]
    outcomes = train_together(parts, lambda part: None)
    facts = {part.name: outcomes[part.run_name].facts(1.0, RunDir(trial.runs_dir).path) for part in parts}
    assert wall_seconds(facts) == max(part["seconds"] for part in facts.values())
    alone = {name: {**part, "beside": ""} for name, part in facts.items()}
    assert wall_seconds(alone) == sum(part["seconds"] for part in facts.values())
