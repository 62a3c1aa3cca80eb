"""Parts of trials are ordinary runs: begun, resumed, read."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import ExitStack

import pytest

from rookery.config import build_config
from rookery.files import try_lock
from rookery.studies.trials import part_training
from rookery.studies.trials.part_training import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    outcome_of,
    part_lock,
    train_part,
    train_parts,
)
from rookery.studies.trials.plans import part_of
from rookery.training.run.callbacks import Callback
from rookery.training.storage.run_dir import RunDir

QUIET = {"verbose": False, "plot": False, "tensorboard": False, "episodes": False, "system": False}


@pytest.fixture
def trial(tmp_path):
    """The configuration of a small trial."""
    options = {"steps": 512, "num_envs": 4, "backend": "kernel", "learner": "ppo", "runs_dir": str(tmp_path)}
    small = {"ppo": {"rollout_length": 32, "threads": 1}, "evaluation": {"every": 256, "episodes": 1}, "monitor": QUIET}
    return build_config("CartPole-v1", name="trial-00000", **options, **small)


def interrupted_at(step):
    """A callback that interrupts the run as a signal does."""

    class Interruption(Callback):
        def on_rollout(self, run):
            if run.step >= step:
                os.kill(os.getpid(), signal.SIGTERM)

    return Interruption()


def test_a_part_is_trained_once(trial):
    part = part_of(trial, "seed-0", seed=0)
    first = train_part(part)
    assert (first.state, first.steps) == (FINISHED, 512)
    written = first.run.summary.stat().st_mtime_ns
    again = train_part(part)
    assert (again.state, again.steps, again.seconds) == (FINISHED, 512, outcome_of(first.run).seconds)
    assert again.run.summary.stat().st_mtime_ns == written
    assert first.facts(3.0, first.run.path.parent.parent)["run"] == f"{first.run.path.parent.name}/trial-00000-seed-0"


def test_an_interrupted_part_goes_on_to_the_same_result(trial, tmp_path):
    part = part_of(trial, "seed-0", seed=0)
    stopped = train_part(part, interrupted_at(256))
    assert stopped.state == INTERRUPTED and 0 < stopped.steps < 512
    finished = train_part(part)
    assert finished.state == FINISHED and finished.steps == 512
    alone = train_part(part_of(trial.model_copy(update={"runs_dir": str(tmp_path / "alone")}), "seed-0", seed=0))
    assert finished.run.read_summary()["eval/return"] == alone.run.read_summary()["eval/return"]
    assert not list(tmp_path.glob("trial-00000-seed-0-*")), "no second folder"


@pytest.mark.slow
def test_a_part_waits_while_the_disk_is_full(trial, tmp_path, monkeypatch):
    """Its run has ended when it cannot write that it has: the value is the same as with room for it."""
    left, write = [errno.ENOSPC] * 2, RunDir.write_summary

    def write_summary(self, summary):
        if left:
            raise OSError(left.pop(), "No space left on device")
        write(self, summary)

    monkeypatch.setattr("rookery.studies.trials.part_training.DISK_PAUSE", 0.0)
    monkeypatch.setattr(RunDir, "write_summary", write_summary)
    found = train_part(part_of(trial, "seed-0", seed=0))
    assert not left and found.state == FINISHED and found.steps == 512
    alone = train_part(part_of(trial.model_copy(update={"runs_dir": str(tmp_path / "alone")}), "seed-0", seed=0))
    assert found.run.read_summary()["eval/return"] == alone.run.read_summary()["eval/return"]
    left.append(errno.EACCES)
    assert train_part(part_of(trial, "seed-1", seed=1)).state == FAILED, "waiting does not help there"


def test_a_failure_is_an_outcome_with_its_reason(trial, tmp_path):
    (tmp_path / "broken.py").write_text(
        "import gymnasium\n\n\nclass Broken(gymnasium.Env):\n"
        "    def __init__(self):\n        raise ValueError('no such level')\n"
    )
    broken = trial.model_copy(update={"world": f"{tmp_path}/broken.py:Broken", "backend": "serial"})
    outcome = train_part(part_of(broken, "seed-0"))
    assert outcome.state == FAILED and "no such level" in outcome.reason and "\n" not in outcome.reason


def test_the_folder_of_a_run_that_was_killed_before_it_began_is_used(trial, tmp_path):
    RunDir.create(tmp_path, "trial-00000-seed-0")
    outcome = train_part(part_of(trial, "seed-0"))
    assert outcome.state == FINISHED and outcome.run.name == "trial-00000-seed-0"


def test_a_run_with_other_settings_is_set_aside(trial, tmp_path):
    """Its value would be that of another trial."""
    train_part(part_of(trial, "seed-0"))
    other = trial.model_copy(update={"ppo": trial.ppo.model_copy(update={"gamma": 0.5})})
    outcome = train_part(part_of(other, "seed-0"))
    assert outcome.state == FINISHED and outcome.run.read_config()["ppo"]["gamma"] == 0.5
    assert RunDir(tmp_path / "trial-00000-seed-0.old-1").read_config()["ppo"]["gamma"] != 0.5


def test_a_stop_leaves_the_rest(trial, tmp_path):
    parts = [part_of(trial, f"seed-{k}", seed=k) for k in range(3)]
    done = []
    waits = train_parts(parts, tmp_path, lambda part: not done, done=lambda part, outcome: done.append(part.name))
    assert done == ["seed-0"] and not waits


def test_what_another_worker_trains_is_left_to_it(trial, tmp_path):
    parts, done = [part_of(trial, f"seed-{k}", seed=k) for k in range(2)], []
    with part_lock(tmp_path, parts[0]) as free:
        assert free and train_parts(parts, tmp_path, lambda part: True, done=lambda part, _: done.append(part.name))
    assert done == ["seed-1"]
    assert not list(tmp_path.glob("*.lock"))


def test_a_lock_whose_holder_leaves_while_it_is_opened_is_that_of_the_next_one(trial, tmp_path, monkeypatch):
    """The file that was opened has lost its name: others would lock another one."""
    part, first = part_of(trial, "seed-0", seed=0), ExitStack()
    assert first.enter_context(part_lock(tmp_path, part))

    def late(fd):
        first.close()
        try_lock(fd)

    monkeypatch.setattr(part_training, "try_lock", late)
    with part_lock(tmp_path, part) as second, part_lock(tmp_path, part) as third:
        assert second and not third
    assert not list(tmp_path.glob("*.lock"))
