"""Details of a run, differences, episodes and the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from rookery.monitor.episode_file import EpisodeFile
from rookery.training.storage.run_lock import Lock
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.live import run_details, run_files
from rookery.web.live import run_files as episode_sample
from rookery.web.run_folders import RunFolders
from web.live.grown_runs import GrowingRun, line

RUN = "/api/runs/runs/run"


@pytest.fixture
def run(tmp_path: Path) -> GrowingRun:
    run = GrowingRun(tmp_path / "runs")
    run.start(num_envs=8, backend="kernel", steps=1000, run="run", path="elsewhere/run")
    run.write("note", 0, text="using 8 envs")
    run.progress(100)
    run.write("evaluation", 100, **{"eval/return": 5.0, "eval/best": True})
    run.write("checkpoint", 100, path="elsewhere/run/checkpoints/step-100", bytes=7)
    return run


@pytest.fixture
def client(run: GrowingRun) -> Iterator[TestClient]:
    with TestClient(make_app(DashboardState(RunFolders([run.dir.path.parent])))) as client:
        yield client


def test_details(run: GrowingRun, client: TestClient) -> None:
    run.write("note", 200, text="worker 1 died and was restarted", warning=True)
    run.write("progress", 300, **{"steps_per_second": 5.0, "time/env": 0.9, "system/memory_worker_1": 70})
    (run.dir.path / "checkpoints" / "step-100").mkdir(parents=True)
    (run.dir.path / "videos").mkdir()
    (run.dir.path / "videos" / "step-100.mp4").write_bytes(b"video")
    found = client.get(RUN).json()
    assert found["row"]["id"] == "runs/run" and found["row"]["state"] == "interrupted"
    assert found["facts"]["num_envs"] == found["chosen"]["num_envs"] == 8
    assert found["config"]["ppo"] == {"clip": 0.2}
    assert [note["text"] for note in found["notes"]] == ["using 8 envs", "worker 1 died and was restarted"]
    assert [note["step"] for note in found["warnings"]] == [200]
    assert [evaluation["eval/return"] for evaluation in found["evaluations"]] == [5.0]
    assert [(checkpoint["name"], checkpoint["kept"]) for checkpoint in found["checkpoints"]] == [("step-100", True)]
    assert found["workers"] == [{"worker": 1, "memory": 70}]
    assert "90 %" in found["bottleneck"]
    assert [video["path"] for video in found["videos"]] == ["videos/step-100.mp4"]
    assert {"metrics.jsonl", "config.json"} <= {file["path"] for file in found["files"]}
    assert found["complete"] is True


def test_commands_have_the_path_at_which_the_run_is_now(run: GrowingRun, client: TestClient) -> None:
    commands = {entry["what"]: entry["command"] for entry in client.get(RUN).json()["commands"]}
    assert commands["resume it"] == f"rookery resume {run.dir.path}"
    run.write("end", 1000, run="run", path="elsewhere/run", steps=1000, reason="finished")
    commands = {entry["what"]: entry["command"] for entry in client.get(RUN).json()["commands"]}
    assert commands["train longer"] == f"rookery resume {run.dir.path} --steps 2000"
    assert commands["evaluate it"] == f"rookery eval {run.dir.path}"


def test_a_running_run_is_watched_not_resumed(run: GrowingRun, client: TestClient) -> None:
    with Lock(run.dir.path / "run.lock"):
        found = client.get(RUN).json()
    assert found["row"]["state"] == "running"
    assert [entry["what"] for entry in found["commands"]][:2] == ["watch it", "evaluate it"]
    assert not [entry for entry in found["commands"] if entry["command"].startswith("rookery resume")]


def test_the_memory_of_workers_is_the_last_that_was_told(run: GrowingRun, client: TestClient) -> None:
    run.write("progress", 300, **{"steps_per_second": 5.0, "system/memory_worker_0": 70})
    run.write("progress", 400, steps_per_second=6.0)
    found = client.get(RUN).json()
    assert found["workers"] == [{"worker": 0, "memory": 70}]
    assert found["progress"]["steps_per_second"] == 6.0


def test_details_follow_a_run(run: GrowingRun, client: TestClient) -> None:
    """What was read is not read again, and what a resumed run has dropped is gone."""
    client.get(RUN)
    run.write("note", 200, text="later")
    assert [note["step"] for note in client.get(RUN).json()["notes"]] == [0, 200]
    run.resume(100)
    run.write("note", 150, text="again")
    found = client.get(RUN).json()
    assert [note["step"] for note in found["notes"]] == [0, 150] and found["facts"]["resumed_from"] == 100
    assert [start["step"] for start in found["starts"]] == [0, 100]


def test_a_long_file_is_read_bit_by_bit(run: GrowingRun, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    run.append(b"".join(line("progress", step) for step in range(100, 300)) + line("note", 300, text="the last"))
    monkeypatch.setattr(run_details, "READ_BYTES", 4096)
    monkeypatch.setattr(run_details.RareEvents.update, "__defaults__", (0.0,))
    asked = 1
    while not (found := client.get(RUN).json())["complete"]:
        asked += 1
        assert asked < 50
        monkeypatch.setattr(run_details.RareEvents.update, "__defaults__", (0.001,))
    assert asked > 1 and [note["step"] for note in found["notes"]] == [0, 300]


def test_a_long_line_does_not_hide_what_follows(
    run: GrowingRun, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than what is read at once, longer than any event, and not yet complete."""
    monkeypatch.setattr(run_details, "READ_BYTES", 4096)
    monkeypatch.setattr(run_details, "LONGEST_LINE", 20_000)
    for step, length in ((100, 10_000), (200, 30_000)):
        run.append(line("note", step, text="x" * length) + line("note", step + 1, text="short"))
    run.append(line("note", 300, text="x" * 10_000)[:-1])
    found = client.get(RUN).json()
    assert found["complete"] and [note["step"] for note in found["notes"]] == [0, 100, 101, 201]
    run.append(b"\n")
    assert client.get(RUN).json()["notes"][-1]["step"] == 300


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "run.json", "summary.json"])
@pytest.mark.parametrize("contents", [b"", b"{", b"[]", b"\xff\0", b'{"phases": 7, "checkpoints": {"dir": 5}}', None])
def test_a_damaged_run_has_details(run: GrowingRun, client: TestClient, name: str, contents: bytes | None) -> None:
    (run.dir.path / name).unlink(missing_ok=True)
    if contents is not None:
        (run.dir.path / name).write_bytes(contents)
    answer = client.get(RUN)
    assert answer.status_code == 200 and answer.json()["row"]["name"] == "run"


def test_differences_of_two_runs(run: GrowingRun, client: TestClient) -> None:
    other = GrowingRun(run.dir.path.parent, "other")
    other.dir.write_config({"world": "CartPole-v1", "learner": "ppo", "seed": 1, "ppo": {"clip": 0.3}})
    assert client.get(f"{RUN}/diff?with=runs/other").json() == {"seed": [0, 1], "ppo.clip": [0.2, 0.3]}
    assert client.get(f"{RUN}/diff?with=runs/run").json() == {}
    assert client.get(f"{RUN}/diff").status_code == 400
    assert client.get(f"{RUN}/diff?with=runs/..").status_code == 404


def add_episodes(run: GrowingRun, count: int) -> None:
    file = EpisodeFile(run.dir.path)
    finished = np.zeros(count, [("env", int), ("return", float), ("length", int), ("seconds", float)])
    finished["return"] = np.arange(count)
    finished["env"] = np.arange(count) % 8
    for first in range(0, count, 1000):
        file.add(first + 1000, first + 1, finished[first : first + 1000])
    file.close()


def test_all_episodes_of_a_short_run(run: GrowingRun, client: TestClient) -> None:
    assert client.get(f"{RUN}/episodes").json()["x"] == []
    add_episodes(run, 1500)
    found = client.get(f"{RUN}/episodes").json()
    assert found["whole"] and found["y"] == list(range(1500)) and found["x"] == [1000] * 1000 + [2000] * 500
    assert found["env"][:9] == [0, 1, 2, 3, 4, 5, 6, 7, 0]


@pytest.mark.parametrize("whole_bytes", [2 << 20, 1000])
def test_a_sample_of_many(
    run: GrowingRun, client: TestClient, monkeypatch: pytest.MonkeyPatch, whole_bytes: int
) -> None:
    """It is even, in order, and has no episode twice."""
    monkeypatch.setattr(episode_sample, "WHOLE_BYTES", whole_bytes)
    add_episodes(run, 5000)
    with (run.dir.path / "episodes.jsonl").open("ab") as file:
        file.write(b'damaged\n{"episode": 5001, "step"')
    found = client.get(f"{RUN}/episodes?points=100").json()
    assert not found["whole"] and 95 <= len(found["y"]) <= 100
    gaps = np.diff(found["y"])
    assert gaps.min() >= 25 and gaps.max() <= 75 and found["y"][0] == 0
    more = client.get(f"{RUN}/episodes?points=20000").json()["y"]
    assert sorted(set(more)) == more and len(more) > 4990


def test_the_log_is_that_of_a_terminal(run: GrowingRun, client: TestClient) -> None:
    found = client.get(f"{RUN}/log").json()
    assert "note: using 8 envs" in found["text"] and "evaluation at 100: 5" in found["text"]
    assert found["next"] == run.dir.metrics.stat().st_size and found["end"]
    run.append(line("note", 200, text="more")[:-1])
    after = client.get(f"{RUN}/log", params={"from": found["next"]}).json()
    assert after == {"text": "", "next": found["next"], "end": True, "again": False}
    run.append(b"\n")
    assert client.get(f"{RUN}/log", params={"from": found["next"]}).json()["text"].endswith("  note: more\n")


def test_the_log_in_parts_is_the_same(run: GrowingRun, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for step in range(200, 1000, 2):
        run.append(
            json.dumps({"kind": "progress", "step": step, "time": 2e9 + step / 10, "share": step / 1000}).encode()
            + b"\n"
        )
    whole = client.get(f"{RUN}/log?from=0").json()
    monkeypatch.setattr(run_files, "PART_BYTES", 2000)
    text, at, end = "", 0, False
    while not end:
        part = client.get(f"{RUN}/log", params={"from": at}).json()
        text, at, end = text + part["text"], part["next"], part["end"]
    assert text == whole["text"] and 20 < text.count("steps") < 60


@pytest.mark.parametrize("start", [3, 10**9])
def test_the_log_of_another_file_begins_again(client: TestClient, start: int) -> None:
    found = client.get(f"{RUN}/log", params={"from": start}).json()
    assert found["again"] and "using 8 envs" in found["text"]


@pytest.mark.parametrize("query", ["episodes?points=x", "episodes?points=-1", "log?from=1e9", "log?from=%D9%A1"])
def test_numbers_are_checked(client: TestClient, query: str) -> None:
    answer = client.get(f"{RUN}/{query}")
    assert answer.status_code == 400 and "should be an integer" in answer.json()["error"]
