"""Runs that an error or a NaN has ended: their report reaches the moment before, also where the run is not."""

from __future__ import annotations

import json
import shutil
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import FileError, NotAllowed, RunError
from rookery.gate import module_name
from rookery.training.storage.crash_report import FILE, LARGEST_REPORT, REPORT
from training.rewind.truth import comparable, state_at
from training.runs import differences, small

WORLD = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv
class Falls(gym.Wrapper):
    def __init__(self, render_mode=None, limit={limit}):
        super().__init__(gym.wrappers.TimeLimit(CartPoleEnv(render_mode), 500))
        self.made, self.limit = 0, limit
    def step(self, action):
        self.made += 1
        if self.made > self.limit:
            raise ValueError("the pole is made of glass")
        return self.env.step(action)
"""
ERROR = """
import rookery
class Fails(rookery.Callback):
    def on_update(self, run, metrics):
        if run.step >= 512:
            raise ValueError("the update is made of glass")
"""


class Poison(rookery.Callback):
    """Makes the weights NaN."""

    def on_update(self, run: Any, metrics: Any) -> None:
        if run.learner.updates == 5:
            run.set_options(learning_rate=float("1e30"))


def crashed(folder: Path, learner: str, **options: Any) -> Path:
    """The folder of a run that fails."""
    with pytest.raises(Exception, match="made of glass"):
        rookery.train(small(learner, folder / "runs", **options))
    return next((folder / "runs").iterdir())


def elsewhere(run: Path, code: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report and the code alone, on a machine that knows nothing of the run."""
    monkeypatch.delitem(sys.modules, module_name(str(code.resolve())))
    folder.mkdir()
    report = Path(shutil.copy(run / FILE, folder / "report.zip"))
    shutil.rmtree(run)
    monkeypatch.setenv("ROOKERY_STATE", str(folder / "state"))
    return report


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["ppo", "dqn"])
def test_an_error_of_the_learner_is_reached_again(
    learner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a report elsewhere, after consent to the callback's code: the same state, and then the same error."""
    file = tmp_path / "fails.py"
    file.write_text(ERROR)
    options: dict[str, Any] = {"callbacks": [f"{file}:Fails"], "checkpoints": {"every": 128}}
    run = crashed(tmp_path, learner, **options)
    report = elsewhere(run, file, tmp_path / "other", monkeypatch)
    with pytest.raises(NotAllowed, match="fails"):
        rookery.rewind(report, runs_dir=report.parent)
    with rookery.rewind(report, runs_dir=report.parent, trust=True) as live:
        assert live.exact and "made of glass" in live.moment and 250 < live.step <= 512
        assert live._replay.began_at > 0
        again, step = comparable(live.state()), live.step
        with pytest.raises(Exception, match="made of glass"):
            live.forward(updates=40)
    if learner == "dqn":
        truth = state_at(small(learner, tmp_path / "truth", checkpoints={"every": 128}), step, tmp_path / "truth")
        assert not differences({**again, "callbacks": 0}, {**truth, "callbacks": 0})


def test_an_error_of_an_env_without_saved_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no exact checkpoints, so that it is trained again from its beginning; its file must be there."""
    file = tmp_path / "falls.py"
    file.write_text(WORLD.format(limit=70))
    run = crashed(tmp_path, "ppo", world=f"{file}:Falls", backend="serial", on_failure="raise")
    facts = json.loads((run / "run.json").read_text())["crash"]
    assert facts["step"] == 280 and "made of glass" in facts["error"]
    with rookery.rewind(run) as live:
        assert live.step == 280
        with pytest.raises(Exception, match="made of glass"):
            live.forward(steps=4)
    report = elsewhere(run, file, tmp_path / "other", monkeypatch)
    with pytest.raises(NotAllowed, match="falls"):
        rookery.rewind(report, runs_dir=report.parent)
    with rookery.rewind(report, runs_dir=report.parent, trust=True) as live:
        assert live.step == 280


def test_a_nan_is_reached_again(tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path / "runs", steps=1024), callbacks=[Poison()])
    report = Path(shutil.copy(result.path / FILE, tmp_path / "report.zip"))
    shutil.rmtree(result.path)
    with rookery.rewind(report, runs_dir=tmp_path) as live:
        assert all(np.isfinite(part.detach().numpy()).all() for part in live.learner.policy.parameters())
        live.forward()
        assert not all(np.isfinite(value) for value in live.metrics.values())


def test_a_run_that_ends_well_leaves_none(tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, steps=128))
    assert not (result.path / FILE).exists()
    with pytest.raises(RunError, match="no record of an error"):
        rookery.rewind(result, at="crash")


# --- from anybody -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What is in a report."""
    folder = tmp_path_factory.mktemp("good")
    file = folder / "fails.py"
    file.write_text(ERROR)
    run = crashed(folder, "ppo", callbacks=[f"{file}:Fails"], checkpoints={"every": 128})
    with zipfile.ZipFile(run / FILE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


HOSTILE: dict[str, dict[str, bytes | None]] = {
    "outside": {"../../evil": b"x"}, "absolute": {"/tmp/evil": b"x"}, "two folders": {"step-000000000001/a/b": b"x"},
    "a pickle": {"model.pkl": b"x"}, "a link's name": {"checkpoints": b"x"}, "no config": {"config.json": None},
    "no facts": {REPORT: b"[]"}, "deep facts": {REPORT: b"[" * 100_000}, "another version": {REPORT: b'{"version": 9}'},
    "a bomb": {"metrics.jsonl": bytes(LARGEST_REPORT + 1)}, "many": {f"step-000000000001/{k}": b"" for k in range(99)},
    "a path as its name": {REPORT: b'{"version": 1, "run": "../x"}'},
    "two checkpoints": {f"step-00000000000{k}/state.json": b"" for k in range(4)},
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_report_is_one_error(name: str, good: dict[str, bytes], tmp_path: Path) -> None:
    """Nothing is written, and the message is short."""
    changes = {key: data for key, data in HOSTILE[name].items() if data is not None}
    kept = {key: data for key, data in good.items() if key not in HOSTILE[name]}
    report = packed(tmp_path / "report.zip", kept | changes)
    began = time.thread_time()
    with pytest.raises(FileError) as raised:
        rookery.rewind(report, runs_dir=tmp_path / "runs")
    assert len(str(raised.value)) < 1000 and time.thread_time() - began < 10
    assert [path.name for path in tmp_path.iterdir()] == ["report.zip"]


def test_a_damaged_checkpoint_of_a_report_is_not_loaded(good: dict[str, bytes], tmp_path: Path) -> None:
    weights = next(name for name in good if name.endswith("agent.safetensors"))
    report = packed(tmp_path / "report.zip", good | {weights: good[weights][:-1] + b"x"})
    with pytest.raises(rookery.errors.CheckpointError, match="damaged"):
        rookery.rewind(report, runs_dir=tmp_path, trust=True)


def test_another_run_of_the_name_stays(good: dict[str, bytes], tmp_path: Path) -> None:
    report = packed(tmp_path / "report.zip", good)
    name = json.loads(good[REPORT])["run"]
    (tmp_path / f"{name}-crash").mkdir()
    with pytest.raises(FileError, match="another run"):
        rookery.rewind(report, runs_dir=tmp_path)
