"""What the dashboard answers about forks and about where two runs part, and the forks that it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import rookery
from rookery.web import control_routes
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.rewind_routes import family
from rookery.web.run_folders import NotShown, RunFolders
from training.runs import small


def made_run(folder: Path, name: str, parent: str | None = None, **facts: Any) -> Path:
    """A folder that says it is a fork."""
    path = folder / name
    path.mkdir(parents=True)
    said = {} if parent is None else {"parent": {"run": parent, "id": f"id-{parent}", "step": 64, **facts}}
    (path / "run.json").write_text(json.dumps({"id": f"id-{name}", "created": 1.0, **said}))
    return path


def client_of(folder: Path) -> TestClient:
    return TestClient(make_app(DashboardState(RunFolders([folder]), allow_control=True)))


def post(client: TestClient, path: str, values: Any) -> Any:
    csrf = client.get("/api/session").json()["csrf"]
    return client.post(f"/api/runs/{path}", json=values, headers={"X-CSRF-Token": csrf})


def test_a_family_is_the_same_from_each_of_its_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("other", None)):
        made_run(runs, name, parent)
    for name in "abcd":
        found = client_of(runs).get(f"/api/runs/runs/{name}/family").json()["runs"]
        assert [(run["id"], run["parent"], run["step"]) for run in found] == [
            ("runs/a", None, None), ("runs/b", "runs/a", 64), ("runs/c", "runs/b", 64), ("runs/d", "runs/a", 64)
        ]  # fmt: skip
    assert len(family(RunFolders([runs]), "runs", "other")) == 1


def test_what_a_file_says_of_a_parent_may_be_anything(tmp_path: Path) -> None:
    """A circle, a parent that is gone, and values of the wrong kinds."""
    runs = tmp_path / "runs"
    made_run(runs, "a", "b")
    made_run(runs, "b", "a")
    made_run(runs, "c", "gone")
    made_run(runs, "d", "a", step="x", id=3, run=[])
    folders = RunFolders([runs])
    assert {node["name"] for node in family(folders, "runs", "a")} == {"a", "b"}
    assert family(folders, "runs", "c")[0] | {"id": ""} == {
        "id": "", "name": "c", "from": "gone", "step": 64, "parent": None
    }  # fmt: skip
    assert family(folders, "runs", "d")[0]["step"] is None
    for name in ("..", "x"):
        with pytest.raises(NotShown):
            family(folders, "runs", name)


@pytest.mark.parametrize(
    "values",
    [
        {}, {"step": -1}, {"step": "5"}, {"step": True}, {"step": 5, "seed": -1}, {"step": 5, "seed": "7"},
        {"step": 5, "name": "../x"}, {"step": 5, "name": 3}, {"step": 5, "settings": "ppo.clip=1"},
        {"step": 5, "settings": ["--trust"]}, {"step": 5, "settings": ["a b=1"]}, {"step": 5, "settings": [1]},
    ],
)  # fmt: skip
def test_a_fork_is_asked_for_in_the_right_words(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_routes, "LASTING", "raise SystemExit('no command may be started')")
    made_run(tmp_path / "runs", "a")
    answer = post(client_of(tmp_path / "runs"), "runs/a/fork", values)
    assert answer.status_code == 400 and answer.json()["error"]


def test_a_fork_is_the_command_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_routes, "LASTING", "import sys; print(sys.argv[2:])")
    runs = tmp_path / "runs"
    path = made_run(runs, "a")
    made_run(runs, "a-fork")
    answer = post(client_of(runs), "runs/a/fork", {"step": 64, "seed": 3, "settings": ["ppo.clip=0.1"]})
    assert answer.json() == {"forked": "a-fork-2"}
    said = (path / "fork.log").read_text()
    assert said.strip() == str(
        ["fork", str(path), "--at", "64", "--name", "a-fork-2", "--runs-dir", str(runs), "--no-panel", "--seed=3",
         "--set=ppo.clip=0.1"]
    )  # fmt: skip


def test_without_permission_nothing_is_forked(tmp_path: Path) -> None:
    made_run(tmp_path / "runs", "a")
    client = TestClient(make_app(DashboardState(RunFolders([tmp_path / "runs"]))))
    assert post(client, "runs/a/fork", {"step": 64}).status_code == 403
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


@pytest.mark.slow
def test_where_two_runs_part(tmp_path: Path) -> None:
    """The answer is that of `rookery diff`; a folder that holds no run is refused with what the command says."""
    runs = tmp_path / "runs"
    for name, seed in (("one", 1), ("two", 2)):
        rookery.train(small("ppo", runs, steps=64, seed=seed, name=name))
    made_run(runs, "none")
    client = client_of(runs)
    found = client.get("/api/runs/runs/one/parting", params={"with": "runs/two"}).json()
    assert found["config"]["seed"] == [1, 2] and not found["equal"] and found["runs"] == ["one", "two"]
    assert 0 < len(found["differences"]) <= found["differences_in_all"]
    for other, status in (("runs/none", 409), ("runs/one", 400), ("runs/x", 404), ("x", 400)):
        answer = client.get("/api/runs/runs/one/parting", params={"with": other})
        assert answer.status_code == status and answer.json()["error"]
