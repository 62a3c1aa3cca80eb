"""The folder of a run, and finding it."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rookery.errors import RunBusy, RunError
from rookery.training.storage.run_dir import RunDir


def test_names_that_are_taken_get_a_number(tmp_path):
    """By whoever makes the folder: no two runs get the same."""
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: RunDir.create(tmp_path / "runs", "ant"), range(8)))
    assert {run.name for run in runs} == {"ant", *(f"ant-{i}" for i in range(2, 9))}
    assert all(run.path.is_dir() for run in runs)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "/etc", "a\\b", "a..b", ".hidden", "-x", "a b", "a\n", "é", "x" * 101, "\x00", "latest"],
)
def test_names_that_could_mean_something_else_are_refused(name, tmp_path):
    """Nothing outside of the runs' folder can be named."""
    with pytest.raises(RunError, match="name"):
        RunDir.create(tmp_path, name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["ant", "CartPole-v1_ppo_vec8", "2024-01-01_10.30", "a=1,b=2", "_x"])
def test_usual_names_are_fine(name, tmp_path):
    assert RunDir.create(tmp_path, name).name == name


def test_runs_are_found_by_name_path_and_as_the_latest(tmp_path, monkeypatch):
    """The latest is the one that was started last, whatever was touched since."""
    base = tmp_path / "runs"
    made = [RunDir.create(base, name) for name in ("zebra", "ant", "mole")]
    made[0].write_config({"a": 1})
    (base / "not a run").mkdir()
    assert [run.name for run in RunDir.all(base)] == ["zebra", "ant", "mole"]
    assert RunDir.find("latest", base).name == "mole"
    assert RunDir.find("ant", base).path == base / "ant"
    assert RunDir.find(str(base / "ant") + "/", Path("elsewhere")).name == "ant"
    monkeypatch.chdir(base / "zebra")
    assert RunDir.find(".", base).name == "zebra"


def test_a_run_that_is_not_there_is_told_with_what_is(tmp_path):
    """The nearest name first, then the newest ones."""
    with pytest.raises(RunError, match="there are no runs in"):
        RunDir.find("latest", tmp_path / "runs")
    with pytest.raises(RunError, match=r"no run 'ant' in .*: there are no runs yet"):
        RunDir.find("ant", tmp_path / "runs")
    for i in range(12):
        RunDir.create(tmp_path, f"hockey{i:02d}")
    with pytest.raises(
        RunError, match=r"no run 'hokey03' .*did you mean .*hockey03.*\? There are: hockey11, .*, \.\.\."
    ):
        RunDir.find("hokey03", tmp_path)
    for strange in ("../..", "x" * 1000, "\x00", "/"):
        with pytest.raises(RunError, match="there is no run"):
            RunDir.find(strange, tmp_path)


def test_config_and_summary_come_back(tmp_path):
    """As JSON, replaced as a whole."""
    run = RunDir.create(tmp_path, "ant")
    assert run.read_summary() is None
    with pytest.raises(RunError, match=r"config\.json cannot be read: No such file"):
        run.read_config()
    run.write_config({"learner": {"gamma": 0.99}})
    run.write_summary({"steps": 3})
    assert run.read_config() == {"learner": {"gamma": 0.99}}
    assert run.read_summary() == {"steps": 3}
    assert sorted(os.listdir(run.path)) == ["config.json", "run.json", "summary.json"]
    for broken in (b"{", b"[]", b"\xff", b"[" * 100_000):
        run.config.write_bytes(broken)
        with pytest.raises(RunError, match=r"config\.json is damaged"):
            run.read_config()


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    """Nothing half-written, nothing left over."""
    run = RunDir.create(tmp_path, "ant")
    run.write_config({"a": 1})
    with pytest.raises(TypeError):
        run.write_config({"a": object()})
    assert run.read_config() == {"a": 1}
    assert sorted(os.listdir(run.path)) == ["config.json", "run.json"]


def test_checkpoints_may_be_elsewhere(tmp_path, monkeypatch):
    """In a folder of the run's name, which is found again from any working directory."""
    plain = RunDir.create(tmp_path, "ant")
    assert plain.checkpoints == tmp_path / "ant" / "checkpoints"
    monkeypatch.chdir(tmp_path)
    run = RunDir.create(tmp_path, "ant", checkpoint_dir=Path("elsewhere"))
    assert run.checkpoints == tmp_path / "elsewhere" / "ant-2"
    config = {"checkpoints": {"keep": 3, "dir": None}}
    run.write_config(config)
    plain.write_config(config)
    monkeypatch.chdir("/")
    assert RunDir.find("ant-2", tmp_path).checkpoints == tmp_path / "elsewhere" / "ant-2"
    assert RunDir.find("ant", tmp_path).checkpoints == tmp_path / "ant" / "checkpoints"
    assert run.read_config() == {"checkpoints": {"keep": 3, "dir": str(tmp_path / "elsewhere")}}
    assert config == {"checkpoints": {"keep": 3, "dir": None}}


def test_what_came_after_a_step_is_forgotten(tmp_path):
    """Lines of later steps go, and one that was not written to its end."""
    run = RunDir.create(tmp_path, "ant")
    lines = [json.dumps({"step": step, "x": step / 7}) + "\n" for step in (1, 2, 2, 3, 9)]
    run.metrics.write_text("".join(lines) + '{"step": 1, "x": 0.')
    run.evaluations.write_text(lines[0])
    run.episodes.write_text("".join(lines))
    before = run.evaluations.stat()
    run.truncate_after(2)
    assert run.metrics.read_text() == run.episodes.read_text() == "".join(lines[:3])
    assert run.evaluations.stat() == before
    run.truncate_after(0)
    assert run.metrics.read_text() == run.evaluations.read_text() == ""


def test_a_lock_keeps_others_out(tmp_path):
    """One process works in a run's folder."""
    run = RunDir.create(tmp_path, "ant")
    with run.lock(), pytest.raises(RunBusy, match="ant is in use"):
        RunDir.find("ant", tmp_path).lock()
    run.lock().release()
