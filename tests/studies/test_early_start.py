"""Workers that start before their search knows its study."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from rookery.studies.workers import early_start
from rookery.studies.workers.early_start import start_worker, started_early

WORKER = (
    "import json, os, sys; from rookery.studies.workers.early_start import take_order; task = take_order(); "
    "print('a complaint', file=sys.stderr); "
    "print(json.dumps([task, sys.path, dict(os.environ), os.getpid()]))"
)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that says what it was told."""
    monkeypatch.setattr(early_start, "CODE", WORKER)


def heard(process: subprocess.Popen[bytes]) -> tuple[dict[str, str], list[str], dict[str, str], int]:
    assert process.stdout is not None
    answer = json.loads(process.stdout.read())
    process.stdout.close()
    assert process.wait(60) == 0
    return answer


@pytest.mark.few(1)
@pytest.mark.parametrize("early", [0, 1, 2])
def test_a_worker_is_like_the_program_when_it_gets_its_task(
    early: int, stand_in: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task, log, import path and environment, whenever it has started; and others are not left behind."""
    task, log = {"name": "what to do"}, tmp_path / "worker.log"
    before = set(psutil.Process().children())
    with started_early(early):
        ready = [process.pid for process in early_start._ready]
        assert len(ready) == early
        monkeypatch.setenv("SET_LATER", "yes")
        monkeypatch.syspath_prepend(str(tmp_path / "later"))
        process = start_worker(task, log, {"PGPASSWORD": "secret"})
        told, path, variables, pid = heard(process)
    assert (pid in ready) is bool(early) and pid == process.pid
    assert told == task and path[0] == str(tmp_path / "later")
    assert (variables["SET_LATER"], variables["PGPASSWORD"], variables["OMP_NUM_THREADS"]) == ("yes", "secret", "1")
    assert log.read_text() == "a complaint\n" and list(tmp_path.iterdir()) == [log]  # nothing that a kill would leave
    assert not early_start._ready and set(psutil.Process().children()) <= before


def test_one_that_has_died_is_replaced(stand_in: None, tmp_path: Path) -> None:
    with started_early(1):
        dead = early_start._ready[0]
        dead.kill()
        dead.wait()
        pid = heard(start_worker({}, tmp_path / "worker.log", {}))[3]
    assert pid not in (dead.pid, os.getpid())


def test_all_end_if_the_search_does_not_begin(stand_in: None) -> None:
    """Such as after an error in its configuration."""
    before = set(psutil.Process().children())
    with pytest.raises(ZeroDivisionError), started_early(2):
        _ = 1 / 0
    assert set(psutil.Process().children()) <= before
