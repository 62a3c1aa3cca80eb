"""`rookery deploy --watch`: what it promotes, and what it survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deploy.agents import GOOD, MIDDLING, SmallStudy
from rookery.deploy import promotion
from rookery.deploy.comparison import ComparisonOptions
from rookery.deploy.promotion import Watcher
from rookery.deploy.registry import Registry
from rookery.errors import RegistryBusy, StorageLost


def _watcher(folder: Path, lines: list[str]) -> Watcher:
    where = {"studies_dir": folder / "studies", "runs_dir": folder / "runs"}
    return Watcher("demo", folder / "agents", ComparisonOptions(episodes=20), where=where, tell=lines.append)


def test_no_trial_is_promoted_twice(tmp_path: Path) -> None:
    """Not by the same watcher, not after a restart, and not after a rollback."""
    lines: list[str] = []
    study, watcher = SmallStudy(tmp_path / "studies"), _watcher(tmp_path, lines)
    assert watcher.look() is None
    study.verify(MIDDLING, 40.0)
    first = watcher.look()
    assert first is not None and first.action == "promoted"
    assert watcher.look() is None
    study.verify(GOOD, 200.0)
    second = _watcher(tmp_path, lines).look()
    assert second is not None and (second.action, second.champion) == ("promoted", 2)
    registry = Registry(tmp_path / "agents")
    registry.rollback()
    for _ in range(2):
        assert _watcher(tmp_path, lines).look() is None
    assert registry.champion_number() == 1
    assert sum(entry["what"] == "promote" for entry in registry.audit()) == 2
    assert lines[0] == "waiting: no trial of demo is verified yet"
    assert lines[-1].startswith("nothing new: trial 1 of study demo")


def test_study_that_comes_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing study, a database that does not answer and a busy registry are waited for; one line each."""
    lines: list[str] = []
    watcher = _watcher(tmp_path, lines)
    found = promotion.find_candidate
    answers: list[Exception | None] = [StorageLost("it is locked")] * 3 + [RegistryBusy("it is changed")] * 2 + [None]

    def find(*names: object, **where: object) -> object:
        answer = answers.pop(0) if answers else None
        if answer is not None:
            raise answer
        if not answers:
            watcher.stop()
        return found(*names, **where)  # type: ignore[arg-type]

    monkeypatch.setattr(promotion, "find_candidate", find)
    watcher.run(every=0.01)
    assert [line.partition(":")[2][:14] for line in lines] == [" it is locked", " it is changed", " there is no s"]


def test_stop_from_another_thread(tmp_path: Path) -> None:
    watcher = _watcher(tmp_path, [])
    thread = threading.Thread(target=watcher.run, args=(60.0,))
    thread.start()
    watcher.stop()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.slow
def test_command_ends_on_sigterm(tmp_path: Path) -> None:
    """With status 0, and a line per decision."""
    study = SmallStudy(tmp_path / "studies")
    study.verify(GOOD, 200.0)
    words = ["deploy", "demo", "--to", "agents", "--watch", "--every", "0.2", "--episodes", "20"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rookery", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith("promoted: version 1 (trial 0 of study demo")
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
