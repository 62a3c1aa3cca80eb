"""Copies of checkpoints at URLs: complete or not there, and a run can be resumed from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import FileError, MissingExtra, OptionError, RunError
from rookery.gate import allow_given
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.checkpoint_mirror import CheckpointMirror, MirroredRun
from rookery.training.storage.remote_run import fetch_run, open_place
from rookery.training.storage.run_dir import RunDir
from training.runs import differences, last_state

fsspec = pytest.importorskip("fsspec")
OPTIONS: dict[str, Any] = {"num_envs": 2, "backend": "kernel", "verbose": False, "ppo": {"rollout_length": 64}}


@pytest.fixture
def url() -> Iterator[str]:
    """A place in the memory of this process."""
    allow_given(["memory://bucket/runs", "memory://bucket/runs/made", "memory://bucket/runs/nothing"])
    yield "memory://bucket/runs"
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def make_run(base: Path, steps: tuple[int, ...] = (100, 200), name: str = "made", keep: int = 3) -> RunDir:
    run = RunDir.create(base, name)
    run.write_config({"world": "CartPole-v1", "checkpoints": {"dir": None}})
    for step in steps:
        Checkpoints(run.checkpoints, keep, run.id).save(step, {"agent": {"step": step}})
    return run


def copy_all(run: RunDir, url: str) -> list[str]:
    """Copy all checkpoints of a run; returns the notes."""
    copy = MirroredRun(url, run)
    return [note for path in sorted(run.checkpoints.iterdir()) for note in copy.copy(path)]


def there(url: str) -> set[str]:
    files, root = open_place(url, "run")
    return {str(path)[len(root) + 1 :] for path in files.find(root)}


def test_the_manifest_is_the_last_object(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkpoint; before it come the records that belong to it."""
    order: list[str] = []
    memory = type(fsspec.filesystem("memory"))
    write = memory.open
    monkeypatch.setattr(memory, "open", lambda self, to, mode, **k: (order.append(to), write(self, to, mode, **k))[1])
    copy_all(make_run(tmp_path, (100,)), url)
    assert order[-1].endswith("step-000000000100/manifest.json") and any(name.endswith("run.json") for name in order)


def test_old_ones_are_removed_there_too(tmp_path: Path, url: str) -> None:
    """Those that the run itself has removed."""
    run = make_run(tmp_path, (100,))
    copy_all(run, url)
    Checkpoints(run.checkpoints, 1, run.id).save(200, {"agent": {"step": 200}})
    copy_all(run, url)
    steps = {name.split("/")[2] for name in there(url) if "/checkpoints/" in name}
    assert steps == {"step-000000000200"}


def test_another_run_of_this_name_is_left_alone(tmp_path: Path, url: str) -> None:
    """The copy gets the run's id behind its name, and the user is told once."""
    copy_all(make_run(tmp_path / "one"), url)
    before = there(url)
    second = make_run(tmp_path / "two")
    (note,) = copy_all(second, url)
    assert f"made-{str(second.id)[:8]}" in note and before < there(url)


def test_what_is_not_a_copy_of_the_run_is_left_alone(tmp_path: Path, url: str) -> None:
    """A folder of checkpoints without the record of a run may be anybody's: nothing there is changed or removed."""
    files, root = open_place(url, "run")
    files.makedirs(f"{root}/made/checkpoints/step-000000000007")
    files.pipe_file(f"{root}/made/checkpoints/step-000000000007/manifest.json", b"theirs")
    run = make_run(tmp_path)
    (note,) = copy_all(run, url)
    assert "is not a copy of this run" in note
    assert files.cat_file(f"{root}/made/checkpoints/step-000000000007/manifest.json") == b"theirs"
    assert {name.split("/")[0] for name in there(url)} == {"made", f"made-{str(run.id)[:8]}"}


def test_links_are_not_copied(tmp_path: Path, url: str) -> None:
    """Whether symbolic or hard, to a file or to a folder: what they lead to may be a secret."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret words")
    run = make_run(tmp_path / "runs")
    (run.path / "notes.txt").symlink_to(secret / "key")
    (run.path / "hard.txt").hardlink_to(secret / "key")
    (run.path / "league").mkdir()
    (run.path / "league" / "inner").symlink_to(secret)
    (run.path / "league" / "inner.json").symlink_to(secret / "key")
    copy_all(run, url)
    files, root = open_place(url, "run")
    assert "made/run.json" in there(url)
    assert not any(b"secret words" in files.cat_file(f"{root}/{name}") for name in there(url))
    (run.checkpoints / "step-000000000200" / "more.json").symlink_to(secret / "key")
    with pytest.raises(FileError, match="a link that leads elsewhere"):
        copy_all(run, url)


def test_a_run_is_fetched(tmp_path: Path, url: str) -> None:
    """With its newest checkpoint; once it is here, only a later checkpoint is fetched."""
    run = make_run(tmp_path / "here")
    copy_all(run, url)
    folder = fetch_run(f"{url}/made", tmp_path / "there")
    assert RunDir(folder).id == run.id
    assert Checkpoints(folder / "checkpoints").load_latest() == (200, {"agent": {"step": 200}})
    Checkpoints(run.checkpoints, 3, run.id).save(300, {"agent": {"step": 300}})
    copy_all(run, url)
    assert Checkpoints(fetch_run(f"{url}/made", tmp_path / "there") / "checkpoints").steps() == [200, 300]


@pytest.mark.parametrize("harm", ["manifest is missing", "manifest is cut", "a file is cut"])
def test_an_incomplete_checkpoint_is_passed_over(tmp_path: Path, url: str, harm: str) -> None:
    """The one before it is fetched."""
    copy_all(make_run(tmp_path / "here"), url)
    files, root = fsspec.core.url_to_fs(f"{url}/made/checkpoints/step-000000000200")
    name = f"{root}/{'state.json' if harm == 'a file is cut' else 'manifest.json'}"
    if harm == "manifest is missing":
        files.rm_file(name)
    else:
        files.pipe_file(name, files.cat_file(name)[:-5])
    folder = fetch_run(f"{url}/made", tmp_path / "there")
    assert Checkpoints(folder / "checkpoints").load_latest()[0] == 100
    assert not list(folder.glob("checkpoints/.unfinished*"))


def test_what_cannot_be_fetched_is_said(tmp_path: Path, url: str) -> None:
    """In one sentence, and no folder is left."""
    with pytest.raises(RunError, match="no run with a complete checkpoint"):
        fetch_run(f"{url}/nothing", tmp_path)
    copy_all(make_run(tmp_path / "here"), url)
    make_run(tmp_path / "other")
    with pytest.raises(RunError, match="is another run"):
        fetch_run(f"{url}/made", tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "other"]


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that has it; and an address that is none."""
    allow_given(["nosuch://bucket", "s3://bucket/runs"])
    with pytest.raises(OptionError, match="not a place for files"):
        open_place("nosuch://bucket", "run")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match="cloud"):
        open_place("s3://bucket/runs", "run")


def test_errors_are_told_once_and_never_raised(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once they are over, and come again, once more."""
    run = make_run(tmp_path)
    fails = [True, True, False, True]
    monkeypatch.setattr(MirroredRun, "copy", lambda self, path: [] if not fails.pop(0) else 1 / 0)
    mirror = CheckpointMirror(url, run)
    for _ in range(4):
        mirror.add(next(run.checkpoints.iterdir()))
        deadline = time.monotonic() + 10
        while (mirror._next or mirror._busy) and time.monotonic() < deadline:
            time.sleep(0.01)
    mirror.close(10)
    notes = mirror.take_notes()
    assert len(notes) == 2 and "ZeroDivisionError" in notes[0]


def test_a_slow_place_does_not_hold_up_the_run(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of checkpoints that come during a copy, the last is copied."""
    run, copied = make_run(tmp_path, (100, 200, 300)), []
    monkeypatch.setattr(MirroredRun, "copy", lambda self, path: (time.sleep(0.2), copied.append(path.name), [])[2])
    mirror = CheckpointMirror(url, run)
    for path in sorted(run.checkpoints.iterdir()):
        mirror.add(path)
        time.sleep(0.05)
    mirror.close(10)
    assert copied == ["step-000000000100", "step-000000000300"]


def test_a_run_is_resumed_from_a_url(tmp_path: Path, url: str) -> None:
    """On another machine, where there is nothing but the copy: the weights are those of a run without interruption."""

    class StopEarly(rookery.Callback):
        def on_rollout(self, run: Any) -> None:
            if run.step >= 256:
                run.stop("killed")

    whole = rookery.train("CartPole-v1", steps=512, name="whole", runs_dir=tmp_path, **OPTIONS)
    options = {**OPTIONS, "callbacks": [StopEarly()], "checkpoints": {"mirror": url}}
    rookery.train("CartPole-v1", steps=512, name="part", runs_dir=tmp_path / "a", **options)
    result = rookery.resume(f"{url}/part", tmp_path / "b", callbacks=[])
    assert result.path == tmp_path / "b" / "part" and result.total_steps == 512
    assert not differences(last_state(whole.path), last_state(result.path))
    assert Checkpoints(fetch_run(f"{url}/part", tmp_path / "c") / "checkpoints").steps()[-1] == 512


def test_a_place_that_fails_does_not_end_a_run(tmp_path: Path) -> None:
    """It is one warning."""
    (tmp_path / "file").write_text("")
    mirror = {"mirror": f"file://{tmp_path}/file/runs", "every": 128}
    result = rookery.train("CartPole-v1", steps=512, name="run", runs_dir=tmp_path, checkpoints=mirror, **OPTIONS)
    assert result.reason == "finished"
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    told = [line for line in lines if "was not copied" in json.dumps(line)]
    assert len(told) == 1, told


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_s3_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with s3fs, against moto's server on this machine; where both are installed."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    code = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
    server = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "Running on http" in line)
        monkeypatch.setenv("AWS_ENDPOINT_URL", line.split("Running on ")[1].split()[0])
        files, _ = open_place("s3://bucket/runs")
        files.mkdir("bucket")
        run = make_run(tmp_path / "here")
        copy_all(run, "s3://bucket/runs")
        folder = fetch_run("s3://bucket/runs/made", tmp_path / "there")
        assert Checkpoints(folder / "checkpoints").load_latest() == (200, {"agent": {"step": 200}})
        Checkpoints(run.checkpoints, 1, run.id).save(300, {"agent": {"step": 300}})
        copy_all(run, "s3://bucket/runs")
        assert Checkpoints(fetch_run("s3://bucket/runs/made", tmp_path / "new") / "checkpoints").steps() == [300]
    finally:
        server.kill()
        server.wait()
