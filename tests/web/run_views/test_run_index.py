"""`/api/runs`: a row for each run, from the ends of its files."""

from __future__ import annotations

import fcntl
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord
from rookery.training.storage.runs_table import table
from rookery.web.marks import Marks
from rookery.web.run_folders import NotShown, RunFolders
from rookery.web.run_views import run_index
from rookery.web.run_views.run_index import RunIndex
from web.run_views.recorded import START, append, client_of, end, evaluation, progress, start, write_run

KEYS = {
    "id", "place", "name", "state", "world", "learner", "num_envs", "steps", "total_steps", "share", "episodes",
    "seconds", "steps_per_second", "return", "last_eval", "best_eval", "eta_seconds", "bottleneck", "stuck", "seed",
    "group", "created", "updated", "tags", "hidden",
}  # fmt: skip


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def rows(*folders: Path) -> dict[str, dict[str, Any]]:
    answer = client_of(*folders).get("/api/runs")
    assert answer.status_code == 200
    return {row["id"]: row for row in answer.json()["runs"]}


def test_a_finished_run(runs: Path) -> None:
    lines = [start(), progress(500), evaluation(500, 70.0, True), evaluation(800, 60.0, False), progress(900)]
    write_run(runs / "a", [*lines, {"kind": "progress", "step": 1000, "time": START, "time/other": 1.0}, end(1000)])
    (row,) = rows(runs).values()
    assert row.keys() == KEYS
    assert row | {
        "id": "runs/a", "place": "runs", "state": "finished", "world": "CartPole-v1", "learner": "ppo", "num_envs": 8,
        "steps": 1000, "total_steps": 1000, "share": 1.0, "episodes": 90, "seconds": 10.5, "return": 90.0,
        "last_eval": 60.0, "best_eval": 70.0, "eta_seconds": None, "stuck": None, "seed": 1, "created": START,
        "updated": START + 10, "steps_per_second": 100.0, "tags": [], "hidden": False,
    } == row  # fmt: skip
    assert row["bottleneck"].startswith("80 % of the time is spent on stepping envs")


@pytest.mark.parametrize("size", [10, 5_000, 9_000, 60_000])
def test_what_a_row_shows_is_found_before_many_other_events(runs: Path, size: int) -> None:
    """Of a file's end a little is read first, and more if that does not have it. Each event is read once."""
    note = {"kind": "note", "step": 900, "time": START, "text": size * "-"}
    write_run(runs / "a", [start(), *(progress(step) for step in range(10, 910, 10)), note, end(1000)])
    (row,) = rows(runs).values()
    assert (row["state"], row["return"], row["episodes"]) == ("finished", 90.0, 90)
    events = list(RunRecord(RunDir(runs / "a")).latest())
    lines = [json.loads(line) for line in (runs / "a" / "metrics.jsonl").read_text().splitlines()]
    assert events[-1] == lines[0]
    assert events[:-1] == [event for event in lines[:0:-1] if event in events]
    assert len(events) >= min(len(lines), 10)


def test_a_run_at_work_and_one_that_is_stuck(runs: Path) -> None:
    """The state is that of the lock; a run is stuck if it has been silent for far longer than usual."""
    now = time.time()
    for name, age in (("fresh", 1.0), ("stuck", 4000.0), ("slow", 4000.0)):
        gap = 3600.0 if name == "slow" else 1.0
        events = [start(at=now - age - 9 * gap), *(progress(i, at=now - age - (8 - i) * gap) for i in range(9))]
        write_run(runs / name, [*events, {"kind": "note", "step": 8, "time": now - age, "text": "worker 3 hangs"}])
        (runs / name / "run.lock").touch()
    files = [(runs / name / "run.lock").open() for name in ("fresh", "stuck", "slow")]
    for file in files:
        fcntl.flock(file, fcntl.LOCK_EX)
    found = rows(runs)
    assert [row["state"] for row in found.values()] == ["running"] * 3
    assert found["runs/fresh"]["stuck"] is None
    assert found["runs/fresh"]["eta_seconds"] == 5.0
    assert found["runs/stuck"]["stuck"] == "No event for 1 h 6 min. It last said: worker 3 hangs"
    assert found["runs/slow"]["stuck"] is None
    for file in files:
        file.close()
    assert {row["state"] for row in rows(runs).values()} == {"interrupted"}


def test_only_changed_runs_are_read_again(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(runs / "a", [start(), progress(1)])
    write_run(runs / "b", [start(), progress(1)])
    index = RunIndex(RunFolders([runs]))
    assert len(index.rows("runs")) == 2
    read: list[str] = []
    real = run_index._read
    monkeypatch.setattr(
        run_index, "_read", lambda place, path, *more: read.append(path.name) or real(place, path, *more)
    )
    index.rows("runs")
    assert read == []
    append(runs / "b", [progress(2)])
    assert [row["steps"] for row in index.rows("runs") if row["name"] == "b"] == [2]
    assert read == ["b"]
    shutil.rmtree(runs / "a")
    assert [row["name"] for row in index.rows("runs")] == ["b"]
    with pytest.raises(NotShown, match="moved or deleted"):
        index.row("runs", "a")


def test_seeds_of_one_experiment_are_a_group(runs: Path) -> None:
    write_run(runs / "a", [start()], seed=1)
    write_run(runs / "b", [start()], seed=2)
    write_run(runs / "c", [start()], seed=3, ppo={"gamma": 0.5})
    found = rows(runs)
    assert found["runs/a"]["group"] == found["runs/b"]["group"] != found["runs/c"]["group"]


def test_damaged_and_foreign_folders(runs: Path, tmp_path: Path) -> None:
    """A damaged run is shown as such; what is not a run is not shown; nothing outside is read through a link."""
    (runs / "nothing").mkdir(parents=True)
    (runs / "bad").mkdir()
    (runs / "bad" / "metrics.jsonl").write_bytes(b"\xff\xfe{{{\n[1]\n")
    write_run(
        runs / "odd", [start(world=["x"], steps="many"), {"kind": "progress", "step": "x", "time": [], "share": {}}]
    )
    write_run(runs / "huge", [start(), progress(1, **{"episodes": 10**400, "episode/return": float("nan")})])
    (runs / "linked").mkdir()
    (tmp_path / "secret.json").write_text(json.dumps({"world": "secret"}))
    (runs / "linked" / "config.json").symlink_to(tmp_path / "secret.json")
    found = rows(runs, tmp_path / "not there")
    assert found.keys() == {"runs/bad", "runs/odd", "runs/huge", "runs/linked"}
    assert found["runs/bad"]["state"] == "unreadable"
    assert found["runs/linked"]["world"] is None
    assert found["runs/huge"]["return"] is None


def test_names_are_text(runs: Path) -> None:
    """Whatever somebody has called a folder; a name that is not UTF-8 breaks nothing."""
    write_run(runs / "<img src=x onerror=alert(1)>", [start(world="<b>")])
    bad = bytes(runs) + b"/\xff\xfe"
    shutil.copytree(runs / "<img src=x onerror=alert(1)>", bad.decode(errors="surrogateescape"))
    assert {row["name"] for row in rows(runs).values()} == {"<img src=x onerror=alert(1)>", "??"}


def test_it_agrees_with_the_command(runs: Path) -> None:
    """The rows of `rookery runs` and of the dashboard are made by the same code."""
    write_run(runs / "a", [start(), progress(5), evaluation(5, 3.0, True), end(5, "failed: no memory")])
    (ours,), (theirs,) = rows(runs).values(), table(runs)
    shared = theirs.keys() - {"path", "when"}
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
    assert ours["state"] == "failed"


def test_the_best_evaluation_may_be_long_ago(runs: Path) -> None:
    """Further from the end than a row usually looks."""
    evaluations = [evaluation(0, 99.0, True), evaluation(1, 500.0, True)]
    write_run(runs / "a", [start(), *evaluations, *(evaluation(step, 1.0, False) for step in range(2, 1200))])
    assert rows(runs)["runs/a"]["best_eval"] == 500.0


def test_tags_and_hidden_runs(runs: Path) -> None:
    write_run(runs / "a", [start()])
    folders = RunFolders([runs])
    Marks(folders).set_tags("runs", "a", ["paper"])
    Marks(folders).set_hidden("runs", "a", True)
    row = rows(runs)["runs/a"]
    assert (row["tags"], row["hidden"]) == (["paper"], True)
