"""Files that are read together, or before anybody asks, give the curves that each gives alone."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from rookery.web import dashboard_server
from rookery.web.run_folders import RunFolders
from rookery.web.run_views import file_batches
from rookery.web.run_views.compared_curves import ComparedRun, compare
from rookery.web.run_views.few_metrics import chunk_of_read, few_metrics
from rookery.web.run_views.file_batches import FileBatches
from rookery.web.run_views.metric_reader import MetricReader
from web.run_views.recorded import append, progress, start, write_run
from web.run_views.test_few_metrics import LINES, RECORDED, assert_same

MOST = 1 << 20

pytestmark = pytest.mark.skipif(not file_batches.CAN_READ, reason="rookery was installed without a C compiler")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number in range(5):
        events = [progress(step, **{"episode/return": float(number + step)}) for step in range(0, 100, 10)]
        write_run(tmp_path / "runs" / f"r{number}", [start(), *events])
    return tmp_path / "runs"


def metrics_of(runs: Path) -> list[Path]:
    return sorted(runs.glob("*/metrics.jsonl"))


def curves_of(reader: MetricReader, runs: Path, axis: str = "steps") -> list[tuple[str, list[float], list[float]]]:
    compared = [ComparedRun(path.parent.name, path.parent) for path in metrics_of(runs)]
    found = compare(reader, compared, "episode/return", axis)
    return [(curve["id"], curve["x"].tolist(), curve["y"].tolist()) for curve in found]


def wait_until_read(batches: FileBatches, runs: Path) -> None:
    deadline = time.monotonic() + 60
    while not all(map(batches.has, metrics_of(runs))):
        assert time.monotonic() < deadline, "the runs were not read"
        time.sleep(0.01)


@pytest.mark.parametrize("kind", LINES)
def test_plain_lines_are_read_and_the_rest_is_left(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"".join(each + b"\n" for each in LINES[kind]))
    batches = FileBatches()
    batches.read([os.fsencode(file)], ["b", "a"], MOST)
    read = batches.take(file)
    assert read is not None and batches.take(file) is None
    lines = file.read_bytes()[: read.offset]
    assert read.inode == file.stat().st_ino and read.tail == lines[-4096:]
    for name in ("a", "b"):
        assert_same(chunk_of_read(read), name, lines)


def test_recorded_runs_are_read_to_their_ends() -> None:
    """Also starts, notes, checkpoints and ends: else a run that writes many of them is read piece by piece."""
    for file in RECORDED.glob("*/metrics.jsonl"):
        batches = FileBatches()
        assert batches.read([os.fsencode(file)], ["eval/return", "episode/return"], MOST) == file.stat().st_size
        read = batches.take(file)
        assert read is not None
        few = few_metrics(file.read_bytes(), ["eval/return", "episode/return"])
        assert chunk_of_read(read).metrics.keys() == few.metrics.keys()
        np.testing.assert_array_equal(chunk_of_read(read).metrics["episode/return"].values,
                                      few.metrics["episode/return"].values)  # fmt: skip


def test_what_is_no_short_file_is_left_out(tmp_path: Path) -> None:
    """A link, a pipe and a folder too: opening none of them may wait or lead elsewhere."""
    (tmp_path / "good").write_bytes(LINES["numbers"][0] + b"\n")
    (tmp_path / "long").write_bytes(b"x" * 2000)
    (tmp_path / "link").symlink_to(tmp_path / "good")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    batches, names = FileBatches(), ("good", "long", "link", "folder", "pipe", "missing")
    batches.read([os.fsencode(tmp_path / name) for name in names], ["a"], 1000)
    assert [name for name in names if batches.has(tmp_path / name)] == ["good"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for paths, keys in (((b"x",), (b"k",) * 65), ((b"x",), (b"",)), (("x",), (b"k",)), ((b"x",), ("k",))):
        with pytest.raises((TypeError, ValueError)):
            file_batches.compiled.files(paths, keys, MOST)


@pytest.mark.parametrize("axis", ["steps", "time", "episodes"])
def test_curves_are_those_of_one_file_after_the_other(runs: Path, axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = curves_of(MetricReader(), runs, axis)
    monkeypatch.setattr(file_batches, "CAN_READ", False)
    assert curves_of(MetricReader(), runs, axis) == together
    assert len(together) == 5 and together[2][2] == [2.0 + step for step in range(0, 100, 10)]


def test_what_was_read_ahead_is_used(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = curves_of(MetricReader(), runs)
    batches = dashboard_server.read_ahead(RunFolders([runs]))
    wait_until_read(batches, runs)
    monkeypatch.setattr("rookery.web.run_views.metric_reader.read_lines", None)  # nothing is left to read
    assert curves_of(MetricReader(batches), runs) == expected
    assert not any(map(batches.has, metrics_of(runs)))


def test_files_that_change_after_they_were_read_ahead(runs: Path) -> None:
    batches = dashboard_server.read_ahead(RunFolders([runs]))
    wait_until_read(batches, runs)
    append(runs / "r0", [progress(200, **{"episode/return": 7.0})])
    shutil.rmtree(runs / "r1")
    write_run(runs / "r1", [start(), progress(3, **{"episode/return": -1.0})])
    shutil.rmtree(runs / "r2")
    found = {name: (x, y) for name, x, y in curves_of(MetricReader(batches), runs)}
    assert found.keys() == {"r0", "r1", "r3", "r4"}
    assert found["r0"][0][-1] == 200 and found["r0"][1][-1] == 7.0 and len(found["r0"][0]) == 11
    assert found["r1"] == ([3], [-1.0])


def test_nothing_is_read_ahead_once_somebody_asks(runs: Path) -> None:
    batches = FileBatches()
    MetricReader(batches).prepare([], ["episode/return"])
    dashboard_server._read(batches, RunFolders([runs]), "runs")
    assert not any(map(batches.has, metrics_of(runs)))


def test_only_so_much_is_read_ahead(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_server, "TOGETHER", 1)
    monkeypatch.setattr(dashboard_server, "MOST", 1)
    batches = FileBatches()
    dashboard_server._read(batches, RunFolders([runs]), "runs")
    assert sum(map(batches.has, metrics_of(runs))) == 1
